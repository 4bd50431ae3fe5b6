"""Filters: cases kept and left out, and the rows below them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from documents_strategy import Document, cases, page
from hypothesis import given, settings
from hypothesis import strategies as st

from casekit.caseset import CaseSet
from casekit.errors import ConfigError
from casekit.report import PullReport
from casekit.schema import TABLES, empty_tables
from casekit.source import LeftOut, Source
from casekit.wire import Reader, joined

Made = Callable[..., CaseSet]
Doc = Callable[..., dict[str, Any]]


def ids(cases_: CaseSet, table: str = "cases") -> list[str]:
    """Ids of the cases, or of the cases that rows belong to."""
    found: list[str] = cases_.arrow(table)["case_id"].to_pylist()
    return found


FILTERS: dict[str, Callable[[CaseSet], CaseSet]] = {
    "without_erased": lambda c: c.without_erased(),
    "only_experts": lambda c: c.only_experts(),
    "where": lambda c: c.where(lambda frame: frame["subject_kind"] == "agent"),
    "where_list": lambda c: c.where((c.cases["case_id"].str.len() % 2 == 0).tolist()),
}


def equal(one: CaseSet, other: CaseSet) -> bool:
    """Whether two CaseSets have the same rows."""
    return all(one.arrow(name).equals(other.arrow(name)) for name in TABLES)


@given(cases(plain=False, most=5), st.sampled_from(sorted(FILTERS)), st.sampled_from(sorted(FILTERS)))
@settings(deadline=None, max_examples=30)
def test_filters_are_idempotent_and_commute(given_cases: list[Document], one: str, two: str) -> None:
    """A filter twice is a filter once, two filters commute, and every child row has its case."""
    whole = CaseSet(joined(Reader.corrections("acme.a", "1.0.0", PullReport()).groups([page(given_cases)])))
    first, second = FILTERS[one], FILTERS[two]
    once = first(whole)
    assert equal(first(once), once)
    assert equal(second(once), first(second(whole)))
    for table in TABLES:
        assert set(ids(once, table)) <= set(ids(once))
    out = once.left_out[-1]
    assert (out.cases, out.items) == (len(whole) - len(once), len(whole.items) - len(once.items))
    by_id = {document["caseId"]: document for document in whole.documents()}
    assert [by_id[case_id] for case_id in ids(once)] == list(once.documents())
    assert first(once).left_out[-1].cases == 0


def test_filters_of_nothing() -> None:
    """Filters of an empty CaseSet give an empty CaseSet."""
    empty = CaseSet(empty_tables())
    more: list[Callable[[CaseSet], CaseSet]] = [lambda c: c.without_retired(), lambda c: c.active(empty)]
    for work in (*FILTERS.values(), *more):
        assert len(work(empty)) == 0


def test_erased_cases_are_left_out_and_counted(frozen: Made, case: Doc, item: Doc) -> None:
    """Only an erasure leaves a case out: a null output does not, and an absent mark is none."""
    cases_ = frozen(case("a", erased=True), case("b", erased=False, items=[item()]), case("c", output=None))
    kept = cases_.without_erased()
    assert ids(kept) == ["b", "c"]
    assert kept.left_out == (LeftOut("without_erased", 1, 0),)
    assert str(kept.left_out[0]) == "without_erased: 1 case, 0 items"
    assert ids(cases_) == ["a", "b", "c"]
    assert kept.source is cases_.source


def test_retired_cases_are_left_out_by_id(frozen: Made, live: Made, case: Doc, item: Doc) -> None:
    """A frozen case is left out when the live test set says it is retired; what it does not list is kept and told."""
    cases_ = frozen(case("a", items=[item()]), case("b"), case("x"), case("y"))
    kept = cases_.without_retired(live("-a", "b", "-z"))
    assert ids(kept) == ["b", "x", "y"]
    assert kept.left_out == (LeftOut("without_retired", 1, 1, ("x", "y")),)
    assert str(kept.left_out[0]) == "without_retired: 1 case, 1 item (2 not in the live list, kept)"


def test_a_live_set_knows_its_retired_cases(live: Made) -> None:
    """A live test set needs no other to leave its retired cases out."""
    assert ids(live("a", "-b", "c").without_retired()) == ["a", "c"]
    assert ids(live("a", "-b", "c").active()) == ["a", "c"]


def test_a_frozen_set_needs_a_live_one(frozen: Made, live: Made) -> None:
    """Without a live test set, or with one that is none, nothing is left out in silence."""
    works: list[Callable[[], CaseSet]] = [frozen("a").without_retired, frozen("a").active]
    works.append(lambda: frozen("a").without_retired(frozen("b")))
    for work in works:
        with pytest.raises(ConfigError, match="does not know which cases are retired"):
            work()
    assert ids(frozen("a").without_retired(live())) == ["a"]


def test_active_is_both(frozen: Made, live: Made, case: Doc) -> None:
    """Active cases are neither erased nor retired; both steps are counted."""
    kept = frozen(case("a", erased=True), case("b"), case("c")).active(live("-b", "c"))
    assert ids(kept) == ["c"]
    assert [(out.filter, out.cases) for out in kept.left_out] == [("without_erased", 1), ("without_retired", 1)]


def test_only_experts(frozen: Made, case: Doc, item: Doc) -> None:
    """A case is kept for its mark, an expert's weight, or an expert's correction or reason; 0 and unknown are none."""
    correction = {"correctionId": "c", "calls": [], "notCalled": []}
    reason = {"verdict": "no", "reason": "r"}
    cases_ = frozen(
        case("mark", expert=True),
        case("no-mark", expert=False),
        case("weight", items=[item(), item("l", expert={"yesWeight": 0, "totalWeight": 2})]),
        case("zero", items=[item(expert={"yesWeight": 0, "totalWeight": 0})]),
        case("unknown", items=[item()]),
        case("correction", corrections=[{**correction, "expert": True}]),
        case("no-correction", corrections=[{**correction, "expert": False}, correction]),
        case("reason", items=[item(reasons=[{**reason, "expert": True}])]),
        case("no-reason", items=[item(reasons=[reason])]),
    )
    kept = cases_.only_experts()
    assert ids(kept) == ["mark", "weight", "correction", "reason"]
    assert len(kept.items) == 3


def test_cases_of_several_versions_are_told_apart(frozen: Made, case: Doc, item: Doc) -> None:
    """The same id in two versions is two cases: a filter takes the rows of the one and leaves those of the other."""
    tables = joined(
        [
            frozen(case("a", erased=True, items=[item("old")])).tables,  # type: ignore[list-item]
            frozen(case("a", items=[item("new")]), version="2.0.0").tables,  # type: ignore[list-item]
        ]
    )
    kept = CaseSet(tables, Source()).without_erased()
    assert kept.items["key"].tolist() == ["new"]
    assert kept.items["version"].tolist() == ["2.0.0"]


# ---------------------------------------------------------------- masks


@pytest.fixture
def three(frozen: Made) -> CaseSet:
    """Three cases."""
    return frozen("a", "b", "c")


@pytest.mark.parametrize(
    "mask",
    [
        [True, False, True],
        (True, False, True),
        np.array([True, False, True]),
        np.array([True, None, True], dtype=object),
        pd.array([True, pd.NA, True], dtype="boolean"),
        pd.Series([True, False, True]),
        pd.Series([True, None, True], dtype="boolean"),
        pd.Series([True, True, False], index=[0, 2, 1]),
        [1, 0, 1],
        lambda frame: frame["case_id"] != "b",
        lambda frame: [True, False, True],
    ],
)
def test_masks_of_every_kind(three: CaseSet, mask: Any) -> None:
    """A mask may be a list, an array, a Series in any order, or a function; a missing value keeps nothing."""
    kept = three.where(mask)
    assert ids(kept) == ["a", "c"]
    assert kept.left_out == (LeftOut("where", 1, 0),)


def test_an_empty_mask_fits_no_cases(frozen: Made) -> None:
    """Of no case, a mask without values is right."""
    masks: list[Any] = [[], np.array([]), pd.Series([], dtype=bool), pd.Series([], dtype=object)]
    for mask in masks:
        assert len(frozen().where(mask)) == 0


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ([True, False], "the mask has 2 values for 3 cases"),
        ([], "the mask has 0 values for 3 cases"),
        (pd.Series([True, False, True], index=[1, 2, 3]), "index is not that of the cases frame"),
        (pd.Series([True, False, True], index=[0, 0, 1]), "index is not that"),
        (pd.Series([True, False, True], index=["a", "b", "c"]), "index is not that"),
        (pd.Series([True, False]), "index is not that"),
        (["a", "b", "c"], "one truth value per case, which this list has not"),
        ([2, 0, 1], "one truth value per case"),
        ([0.5, 0, 1], "one truth value per case"),
        (pd.Series(["x", "y", "z"]), "one truth value per case, which this Series has not"),
        (pd.DataFrame({"x": [True] * 3}), "one truth value per case, which this DataFrame has not"),
        (np.ones((3, 3), dtype=bool), "one truth value per case"),
        (True, "one truth value per case, which this bool has not"),
        (None, "one truth value per case"),
        ("abc", "one truth value per case"),
    ],
)
def test_masks_that_do_not_fit(three: CaseSet, mask: Any, message: str) -> None:
    """A mask of another length, index or kind is an error that says which."""
    with pytest.raises(ConfigError, match=message):
        three.where(mask)


def test_a_mask_function_cannot_change_the_cases(three: CaseSet) -> None:
    """A function is given a frame of its own."""

    def mask(frame: pd.DataFrame) -> pd.Series[bool]:
        frame["case_id"] = "changed"
        return frame["case_id"] == "changed"

    assert ids(three.where(mask)) == ["a", "b", "c"]
