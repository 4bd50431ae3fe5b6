from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casekit.server import LocalServer
from casekit.server.rules import canonical, resolves

AGENT_CASES = "/v1/agents/acme.drafting/test-set/cases"
JSON = {"Content-Type": "application/json"}


def body(**members: Any) -> dict[str, Any]:
    """Return a body for run-1."""
    return {"runId": "run-1", **members}


def items(*members: dict[str, Any]) -> dict[str, Any]:
    """Return a body with items, each with a verdict unless it has one."""
    return body(items=[{"verdict": "right", **member} for member in members])


def calls(*made: dict[str, Any], **members: Any) -> dict[str, Any]:
    """Return a body that expects calls."""
    return body(decisions="wrong", shouldCall=list(made), **members)


WRONG_BODIES = {
    "no object": [],
    "no runId": {"answer": "right"},
    "runId null": {"runId": None, "answer": "right"},
    "runId a number": {"runId": 1, "answer": "right"},
    "runId empty": {"runId": "", "answer": "right"},
    "no part": body(),
    "evidence alone": body(why="so"),
    "no item": body(items=[]),
    "decisions null": body(decisions=None, answer="right"),
    "decisions unknown": body(decisions="maybe"),
    "decisions a boolean": body(decisions=True),
    "decisions wrong without evidence": body(decisions="wrong"),
    "decisions wrong with empty evidence": body(decisions="wrong", shouldCall=[], mustNotCall=[]),
    "decisions right with shouldCall": body(decisions="right", shouldCall=[{"tool": "t"}]),
    "decisions right with empty shouldCall": body(decisions="right", shouldCall=[]),
    "decisions right with mustNotCall": body(decisions="right", mustNotCall=["t"]),
    "shouldCall without decisions": body(answer="right", shouldCall=[{"tool": "t"}]),
    "mustNotCall without decisions": body(answer="right", mustNotCall=["t"]),
    "shouldCall null": body(decisions="wrong", shouldCall=None, mustNotCall=["t"]),
    "shouldCall no list": body(decisions="wrong", shouldCall={"tool": "t"}),
    "shouldCall of 51": calls(*[{"tool": f"t{n}"} for n in range(51)]),
    "mustNotCall of 51": body(decisions="wrong", mustNotCall=[f"t{n}" for n in range(51)]),
    "a tool in both": calls({"tool": "a"}, {"tool": "b"}, mustNotCall=["c", "b"]),
    "a call without a tool": calls({"args": {}}),
    "a tool that is empty": calls({"tool": ""}),
    "a tool of 201 characters": calls({"tool": "t" * 201}),
    "a forbidden tool that is empty": body(decisions="wrong", mustNotCall=[""]),
    "a forbidden tool of 201 characters": body(decisions="wrong", mustNotCall=["t" * 201]),
    "a forbidden tool that is a number": body(decisions="wrong", mustNotCall=[1]),
    "args null": calls({"tool": "t", "args": None}),
    "args a list": calls({"tool": "t", "args": []}),
    "args text": calls({"tool": "t", "args": "{}"}),
    "args of 101 fields": calls({"tool": "t", "args": {f"f{n}": 0 for n in range(101)}}),
    "args of 4,001 characters": calls({"tool": "t", "args": {"a": "x" * (4_001 - 8)}}),
    "answer null": body(answer=None, decisions="right"),
    "answer unknown": body(answer="RIGHT"),
    "answer wrong without evidence": body(answer="wrong"),
    "answer right with why": body(answer="right", why="so"),
    "answer right with shouldSay": body(answer="right", shouldSay="so"),
    "why without answer": body(decisions="right", why="so"),
    "why null": body(answer="wrong", shouldSay="so", why=None),
    "why a number": body(answer="wrong", why=1),
    "items null": body(answer="right", items=None),
    "items no list": body(items={"key": "k", "verdict": "right"}),
    "an item without a key": items({}),
    "an item's key empty": items({"key": ""}),
    "an item's key a number": items({"key": 1}),
    "an item's key twice": items({"key": "a"}, {"key": "b"}, {"key": "a", "verdict": "wrong"}),
    "an item without a verdict": body(items=[{"key": "k"}]),
    "an item's verdict unknown": items({"key": "k", "verdict": "yes"}),
    "an item's pointer null": items({"key": "k", "pointer": None}),
    "an item's pointer a number": items({"key": "k", "pointer": 0}),
    "an item's rank text": items({"key": "k", "rank": "1"}),
    "an item's rank a boolean": items({"key": "k", "rank": True}),
    "an item's rank a fraction": items({"key": "k", "rank": 1.5}),
    "an item's rank null": items({"key": "k", "rank": None}),
}

WRONG_TEXTS = {
    "empty": b"",
    "no JSON": b"runId=run-1",
    "cut short": b'{"runId":"run-1","answer":"right"',
    "two values": b'{"runId":"run-1","answer":"right"}{}',
    "a byte order mark": b'\xef\xbb\xbf{"runId":"run-1","answer":"right"}',
    "not UTF-8": b'{"runId":"run-1","answer":"wrong","why":"\xff"}',
    "not UTF-8 in args": b'{"runId":"run-1","decisions":"wrong","shouldCall":[{"tool":"t","args":{"a":"\xff"}}]}',
    "not UTF-8 in an unknown member": b'{"runId":"run-1","answer":"right","more":"\xff"}',
    "NaN in args": b'{"runId":"run-1","decisions":"wrong","shouldCall":[{"tool":"t","args":{"a":NaN}}]}',
    "a control character": b'{"runId":"run-1","decisions":"wrong","shouldCall":[{"tool":"t","args":{"a":"\n"}}]}',
    "deep nesting": b'{"runId":"run-1","answer":"right","more":' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "deep nesting in args": b'{"runId":"run-1","decisions":"wrong","shouldCall":[{"tool":"t","args":{"a":'
    + b"[" * 50_000 + b"]" * 50_000 + b"}}]}",
    "deep nesting that can just be read": b'{"runId":"run-1","decisions":"wrong","shouldCall":[{"tool":"t","args":{"a":'
    + b"[" * 700 + b"]" * 700 + b"}}]}",
    "a rank of 5,000 digits": b'{"runId":"run-1","items":[{"key":"k","verdict":"right","rank":' + b"1" * 5_000 + b"}]}",
    "a rank out of range": b'{"runId":"run-1","items":[{"key":"k","verdict":"right","rank":1e999}]}',
    "a lone surrogate": b'{"runId":"run-1","answer":"wrong","why":"\\ud800"}',
}  # fmt: skip

GOOD_BODIES = {
    "decisions right": (body(decisions="right"), {"decisions": {"verdict": "right"}}),
    "a call without args": (
        calls({"tool": "t"}),
        {"decisions": {"verdict": "wrong", "shouldCall": [{"tool": "t", "args": {}}]}},
    ),
    "an empty list beside evidence": (
        body(decisions="wrong", shouldCall=[], mustNotCall=["t", "t"]),
        {"decisions": {"verdict": "wrong", "shouldCall": [], "mustNotCall": ["t", "t"]}},
    ),
    "answer wrong with why": (body(answer="wrong", why=""), {"answer": {"verdict": "wrong", "why": ""}}),
    "answer wrong with both": (
        body(answer="wrong", shouldSay="a\u0000b", why="é✓"),
        {"answer": {"verdict": "wrong", "shouldSay": "a\u0000b", "why": "é✓"}},
    ),
    "all parts": (
        items({"key": "k"}) | {"decisions": "right", "answer": "right"},
        {
            "decisions": {"verdict": "right"},
            "answer": {"verdict": "right"},
            "items": [{"key": "k", "verdict": "right"}],
        },
    ),
    "an item with everything": (
        items({"key": "k", "pointer": "/matches/1/id", "rank": 0, "verdict": "wrong"}),
        {"items": [{"key": "k", "pointer": "/matches/1/id", "rank": 0, "verdict": "wrong"}]},
    ),
    "an item at the whole output": (
        items({"key": "k", "pointer": ""}),
        {"items": [{"key": "k", "pointer": "", "verdict": "right"}]},
    ),
    "a rank that is a whole number with a point": (
        items({"key": "k", "rank": 2.0}, {"key": "l", "rank": -(2**70)}),
        {"items": [{"key": "k", "rank": 2, "verdict": "right"}, {"key": "l", "rank": -(2**70), "verdict": "right"}]},
    ),
    "no items beside another part": (body(answer="right", items=[]), {"answer": {"verdict": "right"}}),
    "an unknown member": (body(answer="right", colour="red"), {"answer": {"verdict": "right"}}),
    "the largest sizes": (
        calls(*[{"tool": "t" * 200, "args": {}}] * 50, mustNotCall=["u" * 200] * 50),
        {
            "decisions": {
                "verdict": "wrong",
                "shouldCall": [{"tool": "t" * 200, "args": {}}] * 50,
                "mustNotCall": ["u" * 200] * 50,
            }
        },
    ),
}


@pytest.mark.parametrize("sent", WRONG_BODIES.values(), ids=WRONG_BODIES)
def test_a_body_that_breaks_a_rule_is_400_and_adds_nothing(api: httpx.Client, sent: Any) -> None:
    """A body that breaks any documented rule is refused as bad-input, and no case is added."""
    answer = api.post(AGENT_CASES, json=sent)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad-input")
    assert api.get(AGENT_CASES).json()["data"] == []


@pytest.mark.parametrize("sent", WRONG_TEXTS.values(), ids=WRONG_TEXTS)
def test_a_body_that_is_no_json_is_400_and_adds_nothing(api: httpx.Client, sent: bytes) -> None:
    """A body that is not one JSON value in UTF-8, or cannot be read whole, is refused as bad-input."""
    answer = api.post(AGENT_CASES, content=sent, headers=JSON)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad-input")
    assert api.get(AGENT_CASES).json()["data"] == []


@pytest.mark.parametrize(("sent", "expect"), GOOD_BODIES.values(), ids=GOOD_BODIES)
def test_a_body_within_the_rules_becomes_what_it_says(api: httpx.Client, sent: Any, expect: Any) -> None:
    """A body within the rules is added, and ``expect`` says the same: what was absent stays absent."""
    answer = api.post(AGENT_CASES, json=sent)
    assert answer.status_code == 201
    assert answer.json()["expect"] == expect


def test_args_come_back_byte_for_byte(api: httpx.Client) -> None:
    """Numbers, escapes and the order of fields in args are given back as they were sent."""
    args = rb'{"z":1.10,"a":12345678901234567890123,"e":1E5,"t":"\u00e9\/\ud83d\ude00","n":[-0.0,{"x":1e999}],"":null}'
    sent = b'{"runId":"run-1","decisions":"wrong","shouldCall":[{"tool":"t","args": ' + args + b" }]}"
    answer = api.post(AGENT_CASES, content=sent, headers=JSON)
    assert answer.status_code == 201
    assert b'{"tool":"t","args":' + args + b"}" in answer.content.replace(b": ", b":").replace(b" }", b"}")
    assert args in api.get(AGENT_CASES).content


@pytest.mark.parametrize(
    ("args", "length"),
    [
        ('{"a":"' + "x" * (4_000 - 8) + '"}', 4_000),
        ('{ "a" : "' + "✓" * (4_000 - 8) + '" }', 4_000),
        ('{"a":[' + ", ".join(["1.0"] * 1_995 + ["10.0"]) + "]}", 4_000),
        ('{"a":"' + r"\u0041" * (4_000 - 8) + '"}', 4_000),
    ],
)
def test_args_are_measured_in_canonical_json(api: httpx.Client, args: str, length: int) -> None:
    """Spaces, escapes and digits that mean nothing do not count towards the 4,000 characters."""
    assert len(canonical(json.loads(args, parse_int=float))) == length
    sent = f'{{"runId":"run-1","decisions":"wrong","shouldCall":[{{"tool":"t","args":{args}}}]}}'
    assert api.post(AGENT_CASES, content=sent.encode(), headers=JSON).status_code == 201


def test_100_args_are_taken(api: httpx.Client) -> None:
    """A call may have exactly 100 args."""
    assert api.post(AGENT_CASES, json=calls({"tool": "t", "args": {f"f{n}": 0 for n in range(100)}})).status_code == 201


@pytest.mark.parametrize(
    "sent", [{}, {"reason": None}, {"reason": ""}, {"reason": "x" * 4_001}, {"reason": 1}, [], "x"]
)
def test_a_retirement_needs_a_reason_of_1_to_4000_characters(server: LocalServer, api: httpx.Client, sent: Any) -> None:
    """A reason that is missing, empty, too long or no text is refused, and the case is not retired."""
    case = {"id": "case-1", "projectId": "00000000-0000-4000-8000-00000000000a"}
    server.add_agent_case("acme.drafting", case)
    answer = api.post(f"{AGENT_CASES}/case-1/retire", json=sent)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad-input")
    assert api.get(AGENT_CASES).json()["data"] == [case]


@pytest.mark.parametrize("reason", ["x", "✓" * 4_000, " ", "\U0001f600" * 4_000])
def test_a_reason_is_counted_in_characters(server: LocalServer, api: httpx.Client, reason: str) -> None:
    """A reason of 1 to 4,000 characters is kept as it is, whatever the characters' size."""
    server.add_agent_case("acme.drafting", {"id": "case-1", "projectId": "00000000-0000-4000-8000-00000000000a"})
    answer = api.post(f"{AGENT_CASES}/case-1/retire", json={"reason": reason})
    assert answer.json()["retired"]["reason"] == reason


# The examples of RFC 6901, section 5, and what leads nowhere.
RFC_6901 = {"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5, 'k"l': 6, " ": 7, "m~n": 8}
LEADS = ["", "/foo", "/foo/0", "/", "/a~1b", "/c%d", "/e^f", "/g|h", "/i\\j", '/k"l', "/ ", "/m~0n"]
LEADS_NOWHERE = ["foo", "/bar", "/foo/2", "/foo/-", "/foo/-1", "/foo/00", "/foo/01", "/foo/1.0", "/foo/٠", "/foo/",
                 "/a/b", "/m~n", "/m~2n", "/m~", "/foo/0/0", "//", "#/foo", "/foo/" + "9" * 5_000]  # fmt: skip


@pytest.mark.parametrize("pointer", LEADS)
def test_a_pointer_that_leads_to_a_value_resolves(pointer: str) -> None:
    """A JSON Pointer to any value, null and zero included, resolves."""
    assert resolves(pointer, RFC_6901)


@pytest.mark.parametrize("pointer", LEADS_NOWHERE)
def test_a_pointer_that_leads_nowhere_does_not(pointer: str) -> None:
    """A malformed pointer, or one to nothing, does not resolve."""
    assert not resolves(pointer, RFC_6901)


@pytest.mark.parametrize("pointer", LEADS_NOWHERE)
def test_an_item_that_is_not_in_the_output_is_400(server: LocalServer, api: httpx.Client, pointer: str) -> None:
    """An item whose pointer resolves to nothing in the run's output is refused, and named."""
    server.add_run("acme.drafting", "run-2", output=RFC_6901)
    sent = items({"key": "a", "pointer": "/foo"}, {"key": "b", "pointer": pointer}) | {"runId": "run-2"}
    answer = api.post(AGENT_CASES, json=sent)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "item-not-found")
    assert answer.json()["error"]["details"] == {"path": "/items/1/pointer"}


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(JSON_VALUES)
def test_canonical_json_is_the_same_value(value: Any) -> None:
    """Canonical JSON reads back as the value it was made of."""
    assert json.loads(canonical(value)) == value


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "0"), (-0.0, "0"),
     (1e20, "100000000000000000000"), (1e21, "1e+21"), (1e-6, "0.000001"), (0.000015, "0.000015"),
     (1e-7, "1e-7"), (-2.5e-10, "-2.5e-10"), (0.1, "0.1"), (5e-324, "5e-324"), (float("inf"), "null")],
)  # fmt: skip
def test_canonical_numbers_are_those_of_rfc_8785(number: float, text: str) -> None:
    """Numbers have the shortest form that RFC 8785 gives them."""
    assert canonical(number) == text
