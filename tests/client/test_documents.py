"""What a person sends, checked before anything is sent; and what a server answers to it."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from client.pages import agent_case
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from casekit.documents import AddCase, AgentCase, ErrorBody, RetireCase, checked_body, first_problem
from casekit.errors import ConfigError


def added(**values: Any) -> dict[str, Any]:
    """The body of a case added by hand."""
    body = json.loads(checked_body(AddCase, {"run_id": "run-1", **values}))
    assert isinstance(body, dict)
    return body


CALL = {"tool": "crm.lookup", "args": {"id": 7}}


@pytest.mark.parametrize(
    ("values", "body"),
    [
        ({"decisions": "right"}, {"decisions": "right"}),
        ({"answer": "right"}, {"answer": "right"}),
        ({"items": [{"key": "k", "verdict": "right"}]}, {"items": [{"key": "k", "verdict": "right"}]}),
        ({"decisions": "wrong", "should_call": [CALL]}, {"decisions": "wrong", "shouldCall": [CALL]}),
        ({"decisions": "wrong", "must_not_call": ["t"]}, {"decisions": "wrong", "mustNotCall": ["t"]}),
        ({"answer": "wrong", "should_say": "x"}, {"answer": "wrong", "shouldSay": "x"}),
        ({"answer": "wrong", "why": "x"}, {"answer": "wrong", "why": "x"}),
        (
            {"decisions": "right", "items": [{"key": "k", "pointer": "/0", "rank": 0, "verdict": "wrong"}]},
            {"decisions": "right", "items": [{"key": "k", "pointer": "/0", "rank": 0, "verdict": "wrong"}]},
        ),
        (
            {"decisions": "wrong", "should_call": [{"tool": "t"}], "must_not_call": []},
            {"decisions": "wrong", "shouldCall": [{"tool": "t"}], "mustNotCall": []},
        ),
    ],
)
def test_a_case_that_keeps_the_rules_is_sent_as_it_was_given(values: dict[str, Any], body: dict[str, Any]) -> None:
    """What was given must be sent in the API's names, and what was not must be absent."""
    assert added(**values) == {"runId": "run-1", **body}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "at least one of decisions, answer and items"),
        ({"items": []}, "at least one of decisions, answer and items"),
        ({"run_id": "", "decisions": "right"}, "run_id"),
        ({"run_id": 7, "decisions": "right"}, "run_id"),
        ({"decisions": "maybe"}, "decisions"),
        ({"decisions": True}, "decisions"),
        ({"answer": "Right"}, "answer"),
        ({"decisions": "wrong"}, "should_call or must_not_call"),
        ({"decisions": "wrong", "should_call": [], "must_not_call": []}, "should_call or must_not_call"),
        ({"decisions": "right", "should_call": [CALL]}, "should_call and must_not_call go with decisions 'wrong'"),
        ({"answer": "right", "must_not_call": ["t"]}, "should_call and must_not_call go with decisions 'wrong'"),
        ({"answer": "wrong"}, "should_say or why"),
        ({"answer": "wrong", "should_say": "", "why": ""}, "should_say or why"),
        ({"answer": "right", "why": "x"}, "should_say and why go with answer 'wrong'"),
        ({"decisions": "right", "should_say": "x"}, "should_say and why go with answer 'wrong'"),
        ({"decisions": "wrong", "should_call": [{"tool": "t"}], "must_not_call": ["t"]}, "both name 't'"),
        ({"decisions": "wrong", "should_call": [{"tool": "t"}] * 51}, "should_call"),
        ({"decisions": "wrong", "must_not_call": ["t"] * 51}, "must_not_call"),
        ({"decisions": "wrong", "should_call": [{"tool": ""}]}, "should_call.0.tool"),
        ({"decisions": "wrong", "should_call": [{"tool": "t" * 201}]}, "should_call.0.tool"),
        ({"decisions": "wrong", "should_call": [{"args": {}}]}, "should_call.0.tool"),
        ({"decisions": "wrong", "should_call": [{"tool": "t", "arg": {}}]}, "should_call.0.arg"),
        ({"decisions": "wrong", "should_call": [{"tool": "t", "args": []}]}, "should_call.0.args"),
        ({"decisions": "wrong", "should_call": ["t"]}, "should_call.0"),
        ({"decisions": "wrong", "should_call": {"tool": "t"}}, "should_call"),
        ({"decisions": "wrong", "must_not_call": [""]}, "must_not_call.0"),
        ({"decisions": "wrong", "must_not_call": ["t" * 201]}, "must_not_call.0"),
        ({"items": [{"key": "k", "verdict": "yes"}]}, "items.0.verdict"),
        ({"items": [{"key": "", "verdict": "right"}]}, "items.0.key"),
        ({"items": [{"key": 7, "verdict": "right"}]}, "items.0.key"),
        ({"items": [{"key": "k", "verdict": "right", "rank": 1.5}]}, "items.0.rank"),
        ({"items": [{"key": "k", "verdict": "right", "rank": True}]}, "items.0.rank"),
        ({"items": [{"key": "k", "verdict": "right"}] * 2}, "items names the key 'k' more than once"),
    ],
)
def test_a_broken_rule_is_told_by_its_field(values: dict[str, Any], words: str) -> None:
    """Each documented rule must be checked before anything is sent, and the message must name the field."""
    with pytest.raises(ConfigError, match="nothing was sent") as caught:
        added(**values)
    assert words in str(caught.value)


def test_bounds_of_arguments() -> None:
    """100 fields and 4,000 characters of canonical JSON must pass, one more of either must not."""

    def call(args: dict[str, Any]) -> dict[str, Any]:
        return added(decisions="wrong", should_call=[{"tool": "t", "args": args}])

    assert call({f"k{n}": n for n in range(100)})
    with pytest.raises(ConfigError, match=r"should_call\.0\.args: has 101 fields, 100 at most"):
        call({f"k{n}": n for n in range(101)})
    fitting = {"k": "\u00e9" * (4000 - len('{"k":""}'))}
    assert call(fitting)["shouldCall"][0]["args"] == fitting
    with pytest.raises(ConfigError, match=r"should_call\.0\.args: has 4,001 characters"):
        call({"k": "\u00e9" * (4001 - len('{"k":""}'))})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), JSON, max_size=5))
def test_arguments_are_sent_by_value(args: dict[str, Any]) -> None:
    """Arguments must reach the server equal as JSON: null is not absent, and no digit is lost."""
    sent = added(decisions="wrong", should_call=[{"tool": "t", "args": args}])["shouldCall"][0]["args"]
    assert json.dumps(sent, sort_keys=True) == json.dumps(args, sort_keys=True)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (math.nan, "NaN"),
        (math.inf, "infinite"),
        (pd.NA, "NAType"),
        (np.int64(7), "int64"),
        (np.array([1]), "ndarray"),
        (pd.Timestamp("2026-03-01"), "Timestamp"),
        (dt.date(2026, 3, 1), "date"),
        (Decimal(1), "Decimal"),
        ({1, 2}, "set"),
        (b"x", "bytes"),
        ({1: "x"}, "a name that is no text"),
        ("\ud800", "lone surrogate"),
        ({"\udfff": 1}, "lone surrogate"),
    ],
)
def test_a_value_that_json_does_not_have_is_refused(value: Any, words: str) -> None:
    """A value must not be turned into another to fit: the message must say where it stands and what it is."""
    with pytest.raises(ConfigError, match=r"should_call .*nothing was sent") as caught:
        added(decisions="wrong", should_call=[{"tool": "t", "args": {"deep": [{"x": value}]}}])
    assert words in str(caught.value)


def test_what_nests_too_deep_is_refused() -> None:
    """A value that no parser would take must be told and not crash."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ConfigError, match="nests too deep"):
        added(decisions="wrong", should_call=[{"tool": "t", "args": {"deep": deep}}])


@pytest.mark.parametrize("reason", ["x", "x" * 4000, " ", "\U0001f600" * 4000])
def test_a_reason_of_the_documented_length_passes(reason: str) -> None:
    """1 to 4,000 characters must pass, whatever they are."""
    assert json.loads(checked_body(RetireCase, {"reason": reason})) == {"reason": reason}


@pytest.mark.parametrize("reason", [None, "", "x" * 4001, 7, "half \ud800"])
def test_a_reason_of_another_length_is_refused_by_name(reason: Any) -> None:
    """A reason that the server would refuse must be refused here, and its words must not be shown."""
    with pytest.raises(ConfigError, match=r"reason.*nothing was sent") as caught:
        checked_body(RetireCase, {"reason": reason})
    assert "xxx" not in str(caught.value)


def read_case(**more: Any) -> AgentCase:
    """A case as the server answers it."""
    return AgentCase.model_validate_json(json.dumps(agent_case(**more)))


def test_a_case_of_an_agent_is_read_and_keeps_what_is_new() -> None:
    """Documented members must have their names, and those of a newer server must not be lost."""
    retired = {"reason": "gone", "by": {"kind": "robot", "id": "r"}, "at": "2026-04-01T09:00:00.5+02:00"}
    case = read_case(retired=retired, expert=False, mood="fine")
    assert (case.id, case.kind, case.made_on, case.expert) == ("case-1", "hand", "1.4.0", False)
    assert case.retired_at == dt.datetime(2026, 4, 1, 7, 0, 0, 500_000, dt.UTC)
    assert (case.model_extra or {})["mood"] == "fine"
    assert read_case().retired_at is None
    assert read_case(addedAt="2026-03-01T12:00:00.123456789Z").added_at.microsecond == 123_456
    assert read_case().expert is None


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"id": 7}, "id"),
        ({"projectId": None}, "projectId"),
        ({"addedAt": 1772366400}, "addedAt"),
        ({"addedAt": "2026-03-01T12:00:00"}, "addedAt"),
        ({"addedAt": "yesterday"}, "addedAt"),
        ({"expect": []}, "expect"),
        ({"expert": "yes"}, "expert"),
        ({"retired": True}, "retired"),
        ({"addedBy": {"kind": "user"}}, "addedBy.id"),
    ],
)
def test_a_case_of_another_shape_is_told_by_its_field(more: dict[str, Any], field: str) -> None:
    """A member of another type must not be coerced, and the problem must name it without its value."""
    with pytest.raises(ValidationError) as caught:
        read_case(**more)
    assert first_problem(caught.value).startswith(f"{field}: ")
    assert "yesterday" not in first_problem(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (None, None, None, None)),
        ("<html>", (None, None, None, None)),
        ("[]", (None, None, None, None)),
        ("{}", (None, None, None, None)),
        ('{"error":"busy"}', (None, None, None, None)),
        ('{"error":{}}', (None, None, None, None)),
        ('{"error":{"code":"c"}}', ("c", None, None, None)),
        ('{"error":{"code":5,"message":"m"}}', (None, "m", None, None)),
        ('{"error":{"code":"c","message":null,"details":[],"requestId":7}}', ("c", None, None, None)),
        (
            '{"error":{"code":"c","details":{"maxBytes":3},"requestId":"r","new":1},"x":2}',
            ("c", None, {"maxBytes": 3}, "r"),
        ),
        ('\ufeff{"error":{"code":"c","message":"m"}}', ("c", "m", None, None)),
        ("[" * 100_000, (None, None, None, None)),
    ],
)
def test_an_error_is_read_as_far_as_it_can_be(text: str, expected: tuple[Any, ...]) -> None:
    """One member of the wrong type must not take the others with it, and no body must raise."""
    body = ErrorBody.read(text.encode())
    assert (body.code, body.message, body.details, body.request_id) == expected
