from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casekit.calls import made_calls
from casekit.caseset import CaseSet
from casekit.errors import LimitError
from casekit.stats.grading import grade_decisions

Frozen = Callable[..., CaseSet]
COUNTS = ["n_expected", "n_called", "n_matched", "n_made"]
LISTS = ["missing_calls", "other_args", "forbidden_calls", "extra_calls"]


def wrong(*should_call: tuple[str, Any], must_not_call: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """Return a case whose decisions were wrong."""
    calls = [{"tool": tool, "args": args} for tool, args in should_call]
    decisions = {"verdict": "wrong", "shouldCall": calls, "mustNotCall": list(must_not_call)}
    return {"caseId": "c", "expect": {"decisions": decisions}} | more


def right(*tools: str, **more: Any) -> dict[str, Any]:
    """Return a case whose decisions were right, and which called some tools."""
    output = {"toolCalls": [{"tool": tool, "arguments": {"n": n}} for n, tool in enumerate(tools)]}
    return {"caseId": "c", "output": output, "expect": {"decisions": {"verdict": "right"}}} | more


def calls(*made: tuple[str | None, str | None], case_id: str = "c", **more: Any) -> pd.DataFrame:
    """Return calls of one run, their arguments as JSON text; none at all says that the run made none."""
    rows = made or ((None, None),)
    frame = pd.DataFrame({"case_id": case_id, "tool_id": [t for t, _ in rows], "arguments_json": [a for _, a in rows]})
    return frame.assign(**more)


def only(graded: pd.DataFrame) -> dict[str, Any]:
    """Return the one row of a result, None for missing."""
    assert len(graded) == 1
    cells = {str(name): cell for name, cell in graded.iloc[0].items()}
    return {name: None if not isinstance(cell, list) and pd.isna(cell) else cell for name, cell in cells.items()}


# ---------------------------------------------------------------- wrong


def test_an_empty_set_has_all_columns_and_no_rows(frozen: Frozen) -> None:
    """No cases are no rows, whatever was asked, and no column's type depends on the rows."""
    none = grade_decisions(frozen(), calls().iloc[:0])
    some = grade_decisions(frozen(wrong(("a", {}))), calls(("a", "{}")), source="corrections")
    assert len(none) == 0
    assert none.dtypes.to_dict() == some.dtypes.to_dict()


def test_a_wrong_case_passes_when_every_call_is_made_and_none_forbidden(frozen: Frozen) -> None:
    """Order and further calls do not matter."""
    expected = frozen(wrong(("a", {"x": 1}), ("b", {}), must_not_call=["c"]))
    row = only(grade_decisions(expected, calls(("b", None), ("d", "{}"), ("a", '{"x": 1, "y": 2}'))))
    assert (row["verdict"], row["reason"]) == ("pass", None)
    assert [row[name] for name in COUNTS] == [2, 2, 2, 3]
    assert [row[name] for name in LISTS] == [[], [], [], []]


def test_a_failure_says_what_was_amiss(frozen: Frozen) -> None:
    """Missing, with other arguments (the fields of the nearest call), and forbidden: each is named once."""
    expected = frozen(wrong(("a", {"x": 1, "y": 2}), ("b", {}), ("b", {"z": 1}), must_not_call=["c", "d", "c"]))
    near, far = ("a", '{"x": 1, "y": 9}'), ("a", '{"x": 9, "y": 9}')
    made = calls(far, near, ("a", '{"x": 8, "y": 8}'), ("c", None))
    row = only(grade_decisions(expected, made))
    assert row["reason"] == "not called: b; other arguments: a (y); forbidden but called: c"
    assert [row[name] for name in COUNTS] == [3, 1, 0, 4]
    assert [row[name] for name in LISTS] == [["b"], ["a"], ["c"], []]


def test_a_run_without_calls_is_graded_but_a_case_without_a_run_is_not(frozen: Frozen) -> None:
    """A row without a tool says that the run made no call; no row at all says nothing."""
    expected = frozen(
        wrong(("a", {}), caseId="should"),
        wrong(must_not_call=["a"], caseId="must-not"),
        wrong(("a", {}), caseId="no-run"),
    )
    graded = grade_decisions(expected, pd.concat([calls(case_id="should"), calls(case_id="must-not")]))
    assert graded["verdict"].fillna("missing").tolist() == ["fail", "pass", "missing"]
    assert graded["reason"].iloc[2] == "no row in made"
    assert graded["n_made"].tolist() == [0, 0, pd.NA]
    assert graded["missing_calls"].tolist() == [["a"], [], None]


def test_several_calls_of_one_tool_each_need_a_match(frozen: Frozen) -> None:
    """One made call answers only the expected calls whose arguments it has."""
    expected = frozen(wrong(("a", {"x": 1}), ("a", {"x": 2})))
    row = only(grade_decisions(expected, calls(("a", '{"x": 2}'))))
    assert (row["verdict"], row["n_called"], row["n_matched"], row["other_args"]) == ("fail", 2, 1, ["a"])
    assert only(grade_decisions(expected, calls(("a", '{"x": 2}'), ("a", '{"x": 1}'))))["verdict"] == "pass"


EQUAL = [
    ("1", "1.0"),
    ("1e2", "100"),
    ("-0", "0.0"),
    ("9007199254740993", "9007199254740993.0"),
    ("1e400", "10e399"),
    ('{"a": 1, "b": [1, {"c": null}]}', '{"b": [1.0, {"c": null}], "a": 1}'),
    ('"\\u00e9"', '"é"'),
    ("null", "null"),
    ("[]", "[]"),
]
DIFFERENT = [
    ("1", "true"),
    ("0", "false"),
    ("1", '"1"'),
    ("9007199254740993", "9007199254740992"),
    ("0.1", "0.1000000000000000055511151231257827"),
    ("1e400", "1e401"),
    ("[1, 2]", "[2, 1]"),
    ("[1]", "[1, 2]"),
    ('{"a": 1}', '{"a": 1, "b": 2}'),
    ("null", '""'),
    ("{}", "[]"),
    ('"a"', '"A"'),
]


@pytest.mark.parametrize(("wanted", "sent"), [*EQUAL, *DIFFERENT])
def test_arguments_are_equal_as_json_values(wanted: str, sent: str) -> None:
    """By value and exactly, nested too, in both directions."""
    for one, other in ((wanted, sent), (sent, wanted)):
        row = only(grade_decisions(by_hand(f'{{"x": {one}}}'), calls(("a", f'{{"x": {other}}}'))))
        assert row["verdict"] == ("pass" if (wanted, sent) in EQUAL else "fail")


def by_hand(args_json: str | None) -> Any:
    """Return a set with one wrong case that should call ``a`` with the given text as arguments."""
    key = {"test_set_id": ["s"], "version": ["1.0.0"], "case_id": ["c"]}
    case = {"subject_kind": ["agent"], "subject_id": ["acme.a"], "subject_version": ["1"], "expert": [None]}
    rest = {"erased": [False], "retired": [None], "answer_verdict": [None], "must_not_call": [None]}
    call = {"source": ["expect"], "correction_no": [None], "tool": ["a"], "args_json": [args_json]}
    return SimpleNamespace(
        cases=pd.DataFrame(key | case | rest | {"decisions_verdict": ["wrong"]}),
        expected_calls=pd.DataFrame(key | call),
    )


@pytest.mark.parametrize("sent", [None, "null", "[1]", '"x"', "{}", '{"y": 1}'])
def test_arguments_left_out_are_not_compared_but_those_asked_for_must_be_there(sent: str | None) -> None:
    """Absent arguments, or others than an object, have no field; ``{}`` or none asks only for the call."""
    assert only(grade_decisions(by_hand('{"x": 1}'), calls(("a", sent))))["verdict"] == "fail"
    for nothing in ("{}", None):
        assert only(grade_decisions(by_hand(nothing), calls(("a", sent))))["verdict"] == "pass"


@pytest.mark.parametrize("text", ["{x}", "NaN", '{"x": Infinity}', '{"x": 1e99999999999999999999}'])
def test_arguments_that_cannot_be_compared_are_an_error_that_names_the_case(text: str) -> None:
    """Nothing is guessed, and no word of the text is shown."""
    with pytest.raises(
        ValueError, match=r"Arguments of case 'c': (the text is not JSON|a number's exponent)"
    ) as caught:
        grade_decisions(by_hand('{"x": 1}'), calls(("a", text)))
    assert text not in str(caught.value)


def test_expected_arguments_that_are_no_object_are_an_error() -> None:
    """The contract has fields to compare, and nothing else to ask for."""
    with pytest.raises(ValueError, match="case 'c': the expected arguments are no JSON object"):
        grade_decisions(by_hand("[1]"), calls(("a", "[1]")))


def test_arguments_that_nest_too_deep_are_an_error_that_names_the_case() -> None:
    """A stack that runs out is no crash."""
    deep = '{"x":' + "[" * 100_000 + "]" * 100_000 + "}"
    with pytest.raises(LimitError, match="Arguments of case 'c' nest too deep"):
        grade_decisions(by_hand(deep), calls(("a", deep)))


# ---------------------------------------------------------------- right


def test_a_right_case_passes_when_the_same_tools_are_called(frozen: Frozen) -> None:
    """By name, in any order, however often, whatever the arguments."""
    expected = frozen(right("a", "b", "a"))
    row = only(grade_decisions(expected, calls(("b", None), ("a", '{"n": 99}'))))
    assert (row["verdict"], row["n_expected"], row["n_called"], row["n_matched"]) == ("pass", 2, 2, 2)


def test_a_right_case_fails_for_a_tool_too_few_or_too_many(frozen: Frozen) -> None:
    """Both are named apart."""
    row = only(grade_decisions(frozen(right("a", "b")), calls(("a", None), ("c", None))))
    assert row["reason"] == "not called: b; not called by the corrected run: c"
    assert [row[name] for name in LISTS] == [["b"], [], [], ["c"]]


def test_a_right_case_without_calls_asks_for_none(frozen: Frozen) -> None:
    """A corrected run that called nothing is repeated by one that calls nothing."""
    expected = frozen(right())
    assert only(grade_decisions(expected, calls()))["verdict"] == "pass"
    assert only(grade_decisions(expected, calls(("a", None))))["verdict"] == "fail"


def test_a_right_case_whose_calls_are_not_known_is_not_graded(frozen: Frozen) -> None:
    """Text as output, or a flow cut short, does not tell the tools."""
    cut = {"flow": {"calls": [{"runId": "r", "toolId": "a"}], "steps": [], "truncated": True}}
    expected = frozen(right(caseId="text", output="done"), right("a", caseId="cut", context=cut))
    graded = grade_decisions(expected, pd.concat([calls(("a", None), case_id=c) for c in ("text", "cut")]))
    assert graded["verdict"].isna().all()
    assert graded["reason"].tolist() == [
        "calls of the corrected run not known",
        "not all calls of the corrected run were kept",
    ]


# ---------------------------------------------------------------- what is not graded


def test_what_is_not_graded_has_a_row_that_says_why(frozen: Frozen) -> None:
    """Erased, without a verdict on decisions, with one of a newer server, asking for nothing: none is a failure."""
    expected = frozen(
        {"caseId": "erased", "erased": True, "input": None, "output": None},
        {"caseId": "plain"},
        {"caseId": "answer", "expect": {"answer": {"verdict": "wrong", "why": "too long"}}},
        {"caseId": "newer", "expect": {"decisions": {"verdict": "unsure"}}},
        wrong(caseId="empty"),
    )
    made = pd.concat([calls(("a", None), case_id=c) for c in expected.cases["case_id"]])
    graded = grade_decisions(expected, made).set_index("case_id")
    assert graded["verdict"].isna().all()
    assert graded["reason"].to_dict() == {
        "erased": "erased",
        "plain": "no verdict on decisions",
        "answer": "no verdict on decisions",
        "newer": "decisions verdict 'unsure' is not known",
        "empty": "no call asked for and none forbidden",
    }
    assert graded.loc["answer", "answer"] == "wrong"
    assert graded["n_expected"].isna().all()


def test_a_retired_case_is_not_graded() -> None:
    """No test run checks a retired case."""
    expected = by_hand("{}")
    expected.cases["retired"] = True
    assert only(grade_decisions(expected, calls(("a", None))))["reason"] == "retired"


def test_experts_only_grades_cases_marked_as_an_experts(frozen: Frozen) -> None:
    """Not marked and not an expert's are both left out, with the reason."""
    expected = frozen(
        wrong(("a", {}), caseId="yes", expert=True),
        wrong(("a", {}), caseId="no", expert=False),
        wrong(("a", {}), caseId="unknown"),
    )
    made = pd.concat([calls(("a", None), case_id=c) for c in ("yes", "no", "unknown")])
    assert grade_decisions(expected, made)["verdict"].tolist() == ["pass"] * 3
    graded = grade_decisions(expected, made, experts_only=True)
    assert graded["verdict"].fillna("missing").tolist() == ["pass", "missing", "missing"]
    assert graded["reason"].iloc[1:].tolist() == ["not an expert's case"] * 2


@pytest.mark.parametrize(
    ("case", "made", "verdict"),
    [
        (wrong(("a", {})), [("a", None)], "pass"),
        (wrong(("a", {})), [("b", None)], None),
        (wrong(("a", {"x": 1})), [("a", "{}")], None),
        (wrong(must_not_call=["b"]), [("a", None)], None),
        (wrong(must_not_call=["a"]), [("a", None)], "fail"),
        (right("a"), [("a", None)], None),
        (right("a"), [("b", None)], "fail"),
    ],
)
def test_a_run_cut_short_is_judged_only_by_what_is_sure(
    frozen: Frozen, case: dict[str, Any], made: list[tuple[str | None, str | None]], verdict: str | None
) -> None:
    """Calls that were not kept might have passed or failed it."""
    row = only(grade_decisions(frozen(case), calls(*made, truncated=True)))
    assert row["verdict"] == verdict
    assert (row["reason"] == "not all calls of the run were kept") is (verdict is None)


# ---------------------------------------------------------------- corrections


def corrected(*corrections: tuple[bool | None, list[tuple[str, Any]], list[str]], **more: Any) -> dict[str, Any]:
    """Return a case with corrections: expert's or not, calls to make, tools not to call."""
    entries = []
    for number, (expert, should, must_not) in enumerate(corrections):
        entry: dict[str, Any] = {"correctionId": f"cor-{number}", "notCalled": must_not}
        entry["calls"] = [{"tool": tool, "args": args} for tool, args in should]
        entries.append(entry if expert is None else entry | {"expert": expert})
    return {"caseId": "c", "corrections": entries} | more


def test_a_case_passes_when_each_of_its_corrections_does(frozen: Frozen) -> None:
    """Every correction is checked by itself, and the counts say how many passed."""
    expected = frozen(corrected((True, [("a", {})], []), (None, [("b", {"x": 1})], ["c"])))
    passed = only(grade_decisions(expected, calls(("a", None), ("b", '{"x": 1}')), source="corrections"))
    assert [passed[name] for name in ("verdict", "n_corrections", "n_graded", "n_passed")] == ["pass", 2, 2, 2]
    failed = only(grade_decisions(expected, calls(("a", None), ("b", "{}"), ("c", None)), source="corrections"))
    assert [failed[name] for name in ("verdict", "n_corrections", "n_graded", "n_passed")] == ["fail", 2, 2, 1]
    assert failed["reason"] == "other arguments: b (x); forbidden but called: c"
    assert [failed[name] for name in COUNTS] == [2, 2, 1, 3]


def test_corrections_that_contradict_each_other_cannot_both_pass(frozen: Frozen) -> None:
    """One asks for what the other forbids: the case fails either way."""
    expected = frozen(corrected((True, [("a", {})], []), (True, [], ["a"])))
    for made in (calls(("a", None)), calls()):
        row = only(grade_decisions(expected, made, source="corrections"))
        assert (row["verdict"], row["n_passed"]) == ("fail", 1)


def test_experts_only_leaves_out_the_corrections_of_others(frozen: Frozen) -> None:
    """They are counted, and a case with none of an expert's is not graded."""
    expected = frozen(
        corrected((True, [("a", {})], []), (None, [("b", {})], [])), corrected((False, [("a", {})], []), caseId="other")
    )
    made = pd.concat([calls(("a", None)), calls(("a", None), case_id="other")])
    graded = grade_decisions(expected, made, source="corrections", experts_only=True)
    assert graded["verdict"].fillna("missing").tolist() == ["pass", "missing"]
    assert graded[["n_corrections", "n_graded", "n_passed"]].values.tolist() == [[2, 1, 1], [1, 0, 0]]
    assert graded["reason"].iloc[1] == "no expert's corrections"


def test_a_correction_that_asks_for_nothing_is_counted_and_not_graded(frozen: Frozen) -> None:
    """It neither passes nor fails a case; alone it leaves the case ungraded."""
    nothing: tuple[bool, list[tuple[str, Any]], list[str]] = (True, [], [])
    expected = frozen(
        corrected(nothing, (True, [("a", {})], [])), corrected(nothing, caseId="alone"), {"caseId": "none"}
    )
    made = pd.concat([calls(("a", None), case_id=c) for c in ("c", "alone", "none")])
    graded = grade_decisions(expected, made, source="corrections")
    assert graded["verdict"].fillna("missing").tolist() == ["pass", "missing", "missing"]
    assert graded["reason"].iloc[1:].tolist() == [
        "no call asked for and none forbidden",
        "no corrections with decisions",
    ]
    assert graded[["n_corrections", "n_graded", "n_passed"]].values.tolist() == [[2, 1, 1], [1, 0, 0], [0, 0, 0]]


def test_a_run_cut_short_fails_a_case_only_by_a_correction_that_is_sure(frozen: Frozen) -> None:
    """One sure failure decides; otherwise one that is not sure leaves the case ungraded."""
    expected = frozen(corrected((True, [("z", {})], []), (True, [], ["a"])))
    made = calls(("a", None), truncated=True)
    assert only(grade_decisions(expected, made, source="corrections"))["verdict"] == "fail"
    made = calls(("b", None), truncated=True)
    assert only(grade_decisions(expected, made, source="corrections"))["verdict"] is None


# ---------------------------------------------------------------- matching runs to cases


def test_calls_of_cases_that_nobody_expects_are_counted(frozen: Frozen) -> None:
    """They stand below the cases, with their number of calls."""
    graded = grade_decisions(frozen(wrong(("a", {}))), pd.concat([calls(("a", None)), calls(("a", None), case_id="x")]))
    assert graded["case_id"].tolist() == ["c", "x"]
    assert graded["reason"].iloc[1] == "not among the expected cases"
    assert graded[["n_made", "n_expected"]].iloc[1].tolist() == [1, pd.NA]


def test_made_tells_test_sets_apart_where_the_case_id_does_not(frozen: Frozen) -> None:
    """Without test set and version, a case id of two sets is an error; with them, each run finds its case."""
    sets = [frozen(wrong(("a", {})), version=version) for version in ("1.0.0", "2.0.0")]
    both = CaseSet({name: pa.concat_tables([s.arrow(name) for s in sets]) for name in sets[0].tables})
    with pytest.raises(ValueError, match="Case 'c' stands in several test sets: made needs test_set_id and version"):
        grade_decisions(both, calls(("a", None)))
    made = calls(("a", None), test_set_id="acme.set", version="2.0.0")
    assert grade_decisions(both, made)["verdict"].fillna("missing").tolist() == ["missing", "pass"]
    assert grade_decisions(both, calls(case_id="x"))["reason"].tolist()[:2] == ["no row in made"] * 2


def test_the_same_case_twice_is_refused(frozen: Frozen) -> None:
    """It would count double."""
    one = frozen(wrong(("a", {})))
    twice = CaseSet({name: pa.concat_tables([table, table]) for name, table in one.tables.items()})
    with pytest.raises(ValueError, match="stands twice"):
        grade_decisions(twice, calls())


def test_a_missing_column_is_named() -> None:
    """The message has the nearest name there is."""
    with pytest.raises(KeyError, match="made has no column 'arguments_json'"):
        grade_decisions(by_hand("{}"), pd.DataFrame({"case_id": ["c"], "tool": ["a"], "arguments": ["{}"]}))
    expected = by_hand("{}")
    expected.cases = expected.cases.rename(columns={"decisions_verdict": "decision_verdict"})
    with pytest.raises(
        KeyError, match=r"expected\.cases has no column 'decisions_verdict'; did you mean 'decision_verdict'"
    ):
        grade_decisions(expected, calls())
    with pytest.raises(ValueError, match="source='expected' is not known"):
        grade_decisions(by_hand("{}"), calls(), source="expected")  # type: ignore[arg-type]


def test_arguments_as_objects_are_refused() -> None:
    """A dict in a frame may have lost digits or gained fields: JSON text is asked for."""
    made = calls(("a", None))
    made["arguments_json"] = pd.Series([{"x": 1}], dtype=object)
    with pytest.raises(ValueError, match="'arguments_json' holds dict; it must hold text"):
        grade_decisions(by_hand("{}"), made)


@pytest.mark.parametrize("engine", [pl.from_pandas, lambda f: pl.from_pandas(f).lazy(), pa.Table.from_pandas])
def test_calls_come_in_any_engine(engine: Callable[[pd.DataFrame], Any], airline: CaseSet) -> None:
    """Polars, lazy or not, and Arrow give the grades that pandas gives."""
    made = made_calls(airline)
    pd.testing.assert_frame_equal(grade_decisions(airline, engine(made)), grade_decisions(airline, made))


def test_neither_frame_is_changed(airline: CaseSet) -> None:
    """A statistic copies."""
    expected = SimpleNamespace(
        **{name: getattr(airline, name) for name in ("cases", "expected_calls", "recorded_calls")}
    )
    made = made_calls(airline)
    before = [expected.cases.copy(), expected.expected_calls.copy(), made.copy()]
    grade_decisions(expected, made)
    for then, now in zip(before, [expected.cases, expected.expected_calls, made], strict=True):
        pd.testing.assert_frame_equal(then, now)


# ---------------------------------------------------------------- real runs


@pytest.mark.parametrize("source", ["expect", "corrections"])
def test_the_airline_runs_have_the_grades_counted_elsewhere(
    airline: CaseSet, airline_expected: dict[str, Any], source: Any
) -> None:
    """Of 116 wrong runs 63 called every tool, 19 with the arguments, 83 nothing forbidden, 3 all of it; run by run."""
    graded = grade_decisions(airline, made_calls(airline), source=source)
    runs = graded[graded["decisions"] == "wrong"].set_index("case_id")
    assert len(runs) == airline_expected["wrong_cases"]
    assert runs["n_expected"].sum() == airline_expected["expected_calls_in_wrong_cases"]
    for count, name in [
        ((runs["n_called"] == runs["n_expected"]).sum(), "wrong_runs_with_every_shouldCall_name_called"),
        ((runs["n_matched"] == runs["n_expected"]).sum(), "wrong_runs_with_every_shouldCall_matched_by_args"),
        ((runs["forbidden_calls"].map(len) == 0).sum(), "wrong_runs_with_no_mustNotCall_called"),
        ((runs["verdict"] == "pass").sum(), "wrong_runs_passing_the_decisions_check_in_full"),
    ]:
        assert count == airline_expected[name], name
    detail = {
        str(case).removeprefix("corr-tau-airline-"): {
            "shouldCall": run["n_expected"],
            "matched_with_args": run["n_matched"],
            "mustNotCall_called": sorted(run["forbidden_calls"]),
        }
        for case, run in runs.iterrows()
    }
    assert detail == airline_expected["wrong_runs_detail"]


def test_a_run_repeats_itself(airline: CaseSet) -> None:
    """Each of the 84 right runs passes when its own calls are graded."""
    graded = grade_decisions(airline, made_calls(airline))
    assert graded.loc[graded["decisions"] == "right", "verdict"].value_counts().to_dict() == {"pass": 84}


# ---------------------------------------------------------------- properties

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)
ARGS = st.dictionaries(st.sampled_from("xyz"), VALUES, max_size=3)
CALLS = st.lists(st.tuples(st.sampled_from("abcd"), ARGS), max_size=4)


def plain_same(one: Any, other: Any) -> bool:
    """Equality of JSON values, by what Python's own values of them are."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return set(one) == set(other) and all(plain_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(plain_same(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


@settings(max_examples=60, deadline=None)
@given(should=CALLS, must_not=st.lists(st.sampled_from("abcd"), max_size=2), made=CALLS)
def test_the_grade_is_that_of_the_rule_written_out(
    should: list[tuple[str, Any]], must_not: list[str], made: list[tuple[str, Any]]
) -> None:
    """For any expectations: some made call has each expected call's tool and fields, and none is forbidden."""
    key: dict[str, Any] = {"test_set_id": "s", "version": "1.0.0", "case_id": "c"}
    expected = by_hand("{}")
    expected.cases["must_not_call"] = [must_not]
    rows = [key | {"source": "expect", "correction_no": None, "tool": t, "args_json": json.dumps(a)} for t, a in should]
    expected.expected_calls = pd.DataFrame(rows, columns=expected.expected_calls.columns)
    row = only(grade_decisions(expected, calls(*((tool, json.dumps(args)) for tool, args in made))))
    matched = [
        any(t == tool and all(n in sent and plain_same(v, sent[n]) for n, v in args.items()) for t, sent in made)
        for tool, args in should
    ]
    called = {tool for tool, _ in made}
    if not should and not must_not:
        assert row["verdict"] is None
        return
    assert row["verdict"] == ("pass" if all(matched) and not called & set(must_not) else "fail")
    assert (row["n_matched"], row["n_called"]) == (sum(matched), sum(tool in called for tool, _ in should))
    assert set(row["forbidden_calls"]) == called & set(must_not)


@settings(max_examples=40, deadline=None)
@given(made=CALLS, shuffled=st.randoms(use_true_random=False))
def test_the_order_of_calls_changes_no_verdict(made: list[tuple[str, Any]], shuffled: Any) -> None:
    """Any order of a run's calls, and of their members, has the same verdict."""
    other = [(tool, dict(reversed(args.items()))) for tool, args in shuffled.sample(made, len(made))]
    first, second = (
        only(grade_decisions(by_hand('{"x": 1, "y": true}'), calls(*((t, json.dumps(a)) for t, a in run))))
        for run in (made, other)
    )
    assert [first[name] for name in ("verdict", *COUNTS)] == [second[name] for name in ("verdict", *COUNTS)]
