"""What became of cases and items between two versions: nothing is missed, made up, or counted twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from documents_strategy import Document, cases, page
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from casekit.casediff import CaseDiff, diff
from casekit.caseset import CaseSet
from casekit.errors import ConfigError
from casekit.report import PullReport
from casekit.snapshot import read_snapshot, write_snapshot
from casekit.source import Source
from casekit.stats import compare
from casekit.wire import Reader, joined


def item(key: str = "k", **members: Any) -> Document:
    """An item with one yes."""
    return {"key": key, "yes": 1, "no": 0, "yesWeight": 1, "totalWeight": 1, "reasons": [], **members}


def case(case_id: str, *items: Document, **members: Any) -> Document:
    """A plain case."""
    subject = {"kind": "agent", "id": "acme.a", "version": "1.0.0"}
    return {"caseId": case_id, "subject": subject, "input": None, "output": None, "items": list(items), **members}


def made(*documents: Document, test_set_id: str = "acme.a", version: str = "1.0.0") -> CaseSet:
    """Cases of one version of a test set."""
    tables = joined(Reader.corrections(test_set_id, version, PullReport()).groups([page(list(documents))]))
    return CaseSet(tables, Source(test_sets=((test_set_id, version),)))


def live(agent_id: str, *ids: str, why: str = "w") -> CaseSet:
    """The live test set of an agent."""
    by = {"kind": "user", "id": "reviewer-1"}
    documents = [
        {
            "id": case_id,
            "kind": "hand",
            "projectId": "p",
            "runId": "r",
            "madeOn": "1.0.0",
            "expect": {"answer": {"verdict": "wrong", "why": why}},
            "addedBy": by,
            "addedAt": "2025-01-02T03:04:05Z",
            "updatedAt": "2025-01-02T03:04:05Z",
        }
        for case_id in ids
    ]
    tables = joined(Reader.agent(agent_id, PullReport()).groups([page(documents)]))
    return CaseSet(tables, Source(agent_id=agent_id))


def together(*parts: CaseSet) -> CaseSet:
    """Several sets as one, as they are read from several folders."""
    refs = tuple(ref for part in parts for ref in part.source.test_sets)
    return CaseSet(joined(dict(part.tables) for part in parts), Source(test_sets=refs))


def became(frame: pd.DataFrame, *names: str) -> list[tuple[Any, ...]]:
    """Some columns as rows; a missing value is None."""
    return [tuple(None if pd.isna(v) else v for v in row) for row in frame[list(names)].itertuples(index=False)]


# ---------------------------------------------------------------- nothing, and the same


def test_nothing_against_nothing() -> None:
    """Without cases nothing changed, and all columns are there with their types."""
    empty, full = diff(made(), made()), diff(made(), made(case("c", item())))
    assert (len(empty.cases), len(empty.items), empty.unchanged_cases, empty.unchanged_items) == (0, 0, 0, 0)
    assert empty.cases.dtypes.to_dict() == full.cases.dtypes.to_dict()
    assert empty.items.dtypes.to_dict() == full.items.dtypes.to_dict()
    assert str(full.items.dtypes["yes_before"]) == "Int64"
    assert str(full.items.dtypes["yes_weight_before"]) == "float64"


def test_another_version_alone_is_no_change() -> None:
    """The same cases under another version, in another order, are unchanged to the last one."""
    documents = [case(f"c{n}", item(), item("l"), segments=[{"key": "s", "value": "v"}]) for n in range(5)]
    found = diff(made(*documents), made(*documents[::-1], version="2.0.0"))
    assert (len(found.cases), len(found.items)) == (0, 0)
    assert (found.unchanged_cases, found.unchanged_items) == (5, 10)


def test_one_side_alone() -> None:
    """All cases of the only side are added or removed, with their items and weights."""
    some = made(case("a", item(totalWeight=2.5)), case("b"))
    for found, change, side, other in (
        (diff(made(), some), "added", "after", "before"),
        (diff(some, made()), "removed", "before", "after"),
    ):
        assert became(found.cases, "case_id", "change", "changed_in") == [("a", change, None), ("b", change, None)]
        assert became(found.cases, f"version_{side}", f"n_items_{side}", f"total_weight_{side}") == [
            ("1.0.0", 1, 2.5),
            ("1.0.0", 0, 0.0),
        ]
        assert found.cases[[f"version_{other}", f"n_items_{other}", f"total_weight_{other}"]].isna().all(axis=None)
        assert became(found.items, "case_id", "change", f"total_weight_{side}") == [("a", change, 2.5)]
        assert found.items[[c for c in found.items.columns if c.endswith(f"_{other}")]].isna().all(axis=None)


# ---------------------------------------------------------------- cases


def test_order_is_that_of_the_new_and_then_of_the_old() -> None:
    """Rows stand in the order of the new cases; removed ones follow in the order of the old."""
    old = made(*(case(c, item()) for c in ("x", "b", "y", "a")))
    new = made(case("n"), case("a", item("l")), case("b", item("l")))
    found = diff(old, new)
    assert became(found.cases, "case_id", "change") == [
        ("n", "added"),
        ("a", "changed"),
        ("b", "changed"),
        ("x", "removed"),
        ("y", "removed"),
    ]
    assert became(found.items, "case_id", "key", "change", "case_change") == [
        ("a", "l", "added", "changed"),
        ("b", "l", "added", "changed"),
        ("x", "k", "removed", "removed"),
        ("b", "k", "removed", "changed"),
        ("y", "k", "removed", "removed"),
        ("a", "k", "removed", "changed"),
    ]


def test_erased_is_told_from_removed() -> None:
    """A case cleared since is erased, and its items removed; one that was erased all along is unchanged."""
    gone = {"erased": True}
    old = made(case("a", item(), input="words"), case("b", **gone), case("c", **gone))
    new = made(case("a", **gone), case("b", **gone), case("c", item()), case("d", **gone))
    found = diff(old, new)
    assert became(found.cases, "case_id", "change", "changed_in", "n_items_before", "n_items_after") == [
        ("a", "erased", "cases, items", 1, 0),
        ("c", "changed", "cases, items", 0, 1),
        ("d", "added", None, None, 0),
    ]
    assert became(found.items, "case_id", "case_change", "change") == [
        ("c", "changed", "added"),
        ("a", "erased", "removed"),
    ]
    assert found.unchanged_cases == 1


def test_what_was_erased_before_is_not_erased_again() -> None:
    """An erased case that differs in something else has changed; only the version that cleared it erased it."""
    found = diff(made(case("a", erased=True)), made(case("a", erased=True, runId="r")))
    assert became(found.cases, "change", "changed_in") == [("changed", "cases")]


def test_not_erased_and_absent_differ_and_are_no_erasure() -> None:
    """A server that begins to say ``erased: false`` changes the case, and erases nothing."""
    found = diff(made(case("a")), made(case("a", erased=False)))
    assert became(found.cases, "change", "changed_in") == [("changed", "cases")]


CALL = {"tool": "t", "args": {}}
EXPECT = {"decisions": {"verdict": "wrong", "shouldCall": [CALL]}}


@pytest.mark.parametrize(
    ("members", "tables"),
    [
        ({"input": 1}, "cases"),
        ({"runId": "r"}, "cases, items"),  # items repeats it
        ({"unheardOf": None}, "cases"),
        ({"segments": []}, "cases"),
        ({"subject": {"kind": "agent", "id": "acme.a", "version": "1.0.1"}}, "cases"),
        ({"subject": {"kind": "flow", "id": "acme.b", "version": "1.0.0"}}, "cases"),
        ({"items": [item(yes=2)]}, "items"),
        ({"items": [item(reasons=[{"verdict": "yes", "reason": "R"}])]}, "reasons"),
        ({"items": [item("l", reasons=[{"verdict": "yes", "reason": "R"}])]}, "items, reasons"),
        ({"segments": [{"key": "s", "value": "v"}]}, "segments"),
        ({"corrections": [{"correctionId": "x", "calls": [CALL], "notCalled": []}]}, "corrections, expected_calls"),
        ({"expect": EXPECT}, "cases, expected_calls"),
        ({"expect": {"items": [{"key": "k", "verdict": "right"}]}}, "cases, expected_items"),
        ({"context": {"history": ["m"]}}, "cases, messages"),
        ({"context": {"flow": {"calls": [{"runId": "r", "toolId": "t"}], "steps": []}}}, "cases, recorded_calls"),
    ],
)
def test_the_tables_that_differ_are_named(members: Document, tables: str) -> None:
    """A change is found in the table that it is in, and in no other, whatever other cases stand around it."""
    rest = [case("before", item()), case("after", item(), input="x")]
    old, new = ([rest[0], one, rest[1]] for one in (case("a", item()), {**case("a", item()), **members}))
    found = diff(made(*old), made(*new[::-1], version="2"))
    assert became(found.cases, "case_id", "change", "changed_in") == [("a", "changed", tables)]
    assert found.unchanged_cases == 2


def test_each_case_has_its_own_tables() -> None:
    """Cases that changed in different tables keep theirs, though the two sides list them in other orders."""
    segments = [{"key": "s", "value": "v"}]
    old = made(*(case(c, item()) for c in "abcd"))
    new = made(
        case("c", item(yes=2)), case("d", item()), case("a", item(), segments=segments), case("b", item(), input=1)
    )
    assert became(diff(old, new).cases, "case_id", "changed_in") == [("c", "items"), ("a", "segments"), ("b", "cases")]


# ---------------------------------------------------------------- items


def test_figures_stand_side_by_side() -> None:
    """A changed item has its figures before and after, and the columns that differ by name."""
    expert = {"yesWeight": 2, "totalWeight": 2, "correctionIds": ["x"]}
    old = made(case("a", item(rank=0), item("l"), item("z", yes=0, yesWeight=0, totalWeight=0)))
    new = made(
        case(
            "a",
            item(rank=3, yes=2**53 + 1, yesWeight=3, totalWeight=5, no=2, expert=expert),
            item("l"),
            item("z", yes=0, yesWeight=0, totalWeight=0, correctionIds=[]),
        )
    )
    found = diff(old, new)
    assert became(found.items, "key", "change", "changed_in") == [
        ("k", "changed", "rank, yes, no, yes_weight, total_weight, expert_yes_weight, expert_total_weight, "
                         "expert_correction_ids"),
        ("z", "changed", "correction_ids"),
    ]  # fmt: skip
    row = found.items.iloc[0]
    assert (row["rank_before"], row["rank_after"]) == (0, 3)
    assert (row["yes_before"], row["yes_after"]) == (1, 2**53 + 1)
    assert (row["total_weight_before"], row["total_weight_after"]) == (1.0, 5.0)
    assert np.isnan(row["expert_total_weight_before"])
    assert row["expert_total_weight_after"] == 2.0
    zero = found.items.iloc[1]
    assert (zero["yes_before"], zero["yes_weight_after"]) == (0, 0.0)
    assert zero["rank_before"] is pd.NA
    assert found.unchanged_items == 1


def test_experts_without_weight_are_not_experts_unknown() -> None:
    """Unknown expert weight that becomes 0 is a change, and stays missing on its side."""
    known = {"yesWeight": 0, "totalWeight": 0}
    found = diff(made(case("a", item())), made(case("a", item(expert=known))))
    assert became(found.items, "changed_in", "expert_total_weight_before", "expert_total_weight_after") == [
        ("expert_yes_weight, expert_total_weight", None, 0.0)
    ]


@pytest.mark.parametrize(("one", "other"), [(None, ""), ("/a", "/b"), ("-", None), ("1:-", "-"), (None, "-")])
def test_items_at_other_pointers_are_others(one: str | None, other: str | None) -> None:
    """An item is told by its key and its pointer, and no pointer is no empty one."""
    old, new = ({} if pointer is None else {"pointer": pointer} for pointer in (one, other))
    found = diff(made(case("a", item(**old))), made(case("a", item(**new))))
    assert became(found.items, "pointer", "change") == [(other, "added"), (one, "removed")]


def test_an_item_that_only_moves_in_its_list_is_unchanged() -> None:
    """The case changed, for its list stands in another order; none of its items did."""
    found = diff(made(case("a", item("k"), item("l"))), made(case("a", item("l"), item("k"))))
    assert became(found.cases, "change", "changed_in") == [("changed", "items")]
    assert (len(found.items), found.unchanged_items) == (0, 2)


def test_counts_are_those_of_compare() -> None:
    """Items added, removed and changed are as many as `compare` counts."""
    old = made(case("a", item("1"), item("2"), item("3")), case("b", item("1")), case("c", item("1")))
    new = made(case("a", item("2", yes=3), item("3"), item("4")), case("c", item("1")), case("d", item("1"), item("2")))
    found, counted = diff(old, new), compare(old.items, new.items).iloc[0]
    by_change = found.items["change"].value_counts()
    for change in ("added", "removed", "changed"):
        assert by_change[change] == counted[f"n_items_{change}"]
    assert found.unchanged_items == counted["n_items_common"] - counted["n_items_changed"]


# ---------------------------------------------------------------- what is the same case


def test_a_case_id_in_another_test_set_is_another_case() -> None:
    """Of several test sets on a side, a case is matched within its own."""
    old = together(made(case("x"), test_set_id="a"), made(case("x"), test_set_id="b"))
    new = together(
        made(case("x", input=1), test_set_id="b", version="2"),
        made(case("x"), test_set_id="a", version="3"),
        made(case("x"), test_set_id="c"),
    )
    found = diff(old, new)
    assert became(found.cases, "test_set_id", "change", "version_before", "version_after") == [
        ("b", "changed", "1.0.0", "2"),
        ("c", "added", None, "1.0.0"),
    ]
    assert found.unchanged_cases == 1


def test_live_cases_are_matched_by_their_agent() -> None:
    """A live case is told by agent and id, and has no items to count."""
    old = CaseSet(joined(dict(part.tables) for part in (live("acme.a", "x", "y"), live("acme.b", "x"))))
    new = CaseSet(joined(dict(part.tables) for part in (live("acme.b", "x", why="other"), live("acme.a", "y"))))
    found = diff(old, new)
    assert became(found.cases, "test_set_id", "subject_id", "case_id", "change") == [
        (None, "acme.b", "x", "changed"),
        (None, "acme.a", "x", "removed"),
    ]
    assert found.cases[["n_items_before", "n_items_after", "total_weight_before"]].isna().all(axis=None)
    assert found.unchanged_cases == 1
    assert found.title == "live test sets of acme.a, acme.b → live test sets of acme.a, acme.b"


def test_a_live_case_is_not_the_frozen_one() -> None:
    """The same id in a test set and in an agent's live one are two cases."""
    found = diff(made(case("x")), live("acme.a", "x"))
    assert became(found.cases, "test_set_id", "change") == [(None, "added"), ("acme.a", "removed")]


def test_two_versions_on_a_side_are_refused() -> None:
    """A case that stands twice on a side cannot be matched: the message names it, safely."""
    twice = together(made(case("x\x1b[31m")), made(case("x\x1b[31m"), version="2"))
    message = r"^case 'x\\\\x1b\[31m' of acme.a stands twice in the new cases: give each test set once, in one version$"
    with pytest.raises(ConfigError, match=message):
        diff(made(), twice)
    with pytest.raises(ConfigError, match="in the old cases"):
        diff(twice, made())


def test_an_item_that_stands_twice_is_refused_where_it_matters() -> None:
    """Two items with one key and pointer cannot be told apart when their case differs; else they are as they were."""
    twice = made(case("a", item("k", yes=1), item("k", yes=2)))
    assert diff(twice, twice).unchanged_items == 2
    with pytest.raises(ConfigError, match=r"^case 'a' has two items with the key 'k' in the old cases: leave the case"):
        diff(twice, made(case("a", item("k"))))


def test_rows_out_of_order_are_refused() -> None:
    """Tables whose rows do not belong together are an error, never a wrong answer."""
    some = made(case("a", item()), case("b", item()))
    mixed = CaseSet({**some.tables, "items": some.arrow("items").take(pa.array([1, 0]))})
    with pytest.raises(ConfigError, match=r"^the new cases cannot be compared: rows of items .*; load them again$"):
        diff(some, mixed)


# ---------------------------------------------------------------- snapshots, cards, properties


def test_snapshots_and_chunks_change_nothing(tmp_path: Path) -> None:
    """What is read from folders differs in what the loaded cases differ in, and neither side is changed."""
    old = made(*(case(f"c{n}", item(yes=n), item("l")) for n in range(6)))
    new = made(*(case(f"c{n}", item(yes=n % 2)) for n in range(2, 8)), version="2")
    parts = new.where([True] * 3 + [False] * 3), new.where([False] * 3 + [True] * 3)
    expected = diff(old, new)
    write_snapshot(old, tmp_path / "old")
    write_snapshot(new, tmp_path / "new")
    for one, other in (
        (read_snapshot(tmp_path / "old"), read_snapshot(tmp_path / "new")),
        (old, together(*parts)),
    ):
        found = diff(one, other)
        pd.testing.assert_frame_equal(found.cases, expected.cases)
        pd.testing.assert_frame_equal(found.items, expected.items)
        assert (found.unchanged_cases, found.unchanged_items) == (expected.unchanged_cases, expected.unchanged_items)


def test_the_card_counts_and_escapes() -> None:
    """Text and HTML say the same counts; a hostile name is text in both, and what filters left out is told."""
    hostile = "<script>alert(1)</script>\n"
    old = made(case("a", item(totalWeight=1.5)), case("b", item()), case("z", erased=True), test_set_id=hostile)
    new = made(case("a", item(totalWeight=4)), case("c", item("x", totalWeight=7)), test_set_id=hostile, version="2")
    found = diff(old.without_erased(), new)
    text, html = repr(found), found._repr_html_()
    assert text.splitlines()[1:] == [
        "  cases        1 added, 1 removed, 1 changed, 0 erased, 0 unchanged",
        "  items        1 added, 1 removed, 1 changed, 0 unchanged",
        "  weight       7 added, 1 removed, 1.5 to 4 where changed",
        "  left out     old: without_erased: 1 case, 0 items",
    ]
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    for line in text.splitlines()[1:]:
        assert line.split("  ")[-1].strip() in html
    assert repr(diff(old.without_erased(), new)) == text


def as_text(value: CaseSet) -> dict[str, str]:
    """Each case's document as text."""
    return {document["caseId"]: json.dumps(document) for document in value.documents()}


def told_apart(documents: list[Document]) -> list[Document]:
    """The documents without the second of two items with one key and pointer."""
    return [{**d, "items": list({(i["key"], i.get("pointer")): i for i in d["items"]}.values())} for d in documents]


SIDE = cases(plain=True, most=3).map(told_apart)


# Plain documents leave out weights that the strategy has drawn.
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(first=SIDE, second=SIDE, seed=st.randoms(use_true_random=False))
def test_every_case_and_item_is_accounted_for(first: list[Document], second: list[Document], seed: Any) -> None:
    """Each case of either side is unchanged, or in one row with what became of it; so is each item."""
    shared = [document for document in first if seed.random() < 0.6]
    twins = [{**document, "caseId": other["caseId"]} for document, other in zip(second, first, strict=False)]
    after = {d["caseId"]: d for d in [*twins, *shared, *second] if seed.random() < 0.8}
    old, new = made(*first), made(*after.values(), version="2")
    found: CaseDiff = diff(old, new)
    was, now = as_text(old), as_text(new)
    erased = {d["caseId"]: d.get("erased", False) for d in first}
    expected = {c: "added" for c in now if c not in was} | {c: "removed" for c in was if c not in now}
    for case_id in was.keys() & now.keys():
        if was[case_id] != now[case_id]:
            cleared = after[case_id].get("erased", False) and not erased[case_id]
            expected[case_id] = "erased" if cleared else "changed"
    assert dict(became(found.cases, "case_id", "change")) == expected
    assert len(found.cases) == len(expected)
    assert found.unchanged_cases == len(was.keys() & now.keys()) - sum(
        change in ("changed", "erased") for change in expected.values()
    )
    in_old = {(d["caseId"], i["key"], i.get("pointer")) for d in first for i in d["items"]}
    in_new = {(d["caseId"], i["key"], i.get("pointer")) for d in after.values() for i in d["items"]}
    ids = ("case_id", "key", "pointer")
    by_change = {c: set(became(found.items[found.items["change"] == c], *ids)) for c in ("added", "removed", "changed")}
    assert by_change["added"] == in_new - in_old
    assert by_change["removed"] == in_old - in_new
    assert by_change["changed"] <= in_old & in_new
    assert found.unchanged_items == len(in_old & in_new) - len(by_change["changed"])
    assert len(found.items) == sum(map(len, by_change.values()))
    back = diff(new, old)
    swapped = {"added": "removed", "removed": "added"}
    assert {c: swapped.get(change, "both") for c, change in became(found.cases, "case_id", "change")} == {
        c: change if change in swapped else "both" for c, change in became(back.cases, "case_id", "change")
    }
