"""Overviews of a CaseSet: the summary per test set and version, and the contested items."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from documents_strategy import Document, page
from hypothesis import given, settings
from hypothesis import strategies as st

from casekit.caseset import CaseSet
from casekit.errors import ConfigError
from casekit.report import PullReport
from casekit.schema import TABLES, empty_tables
from casekit.stats import expert_weights, yes_rates
from casekit.wire import Reader, joined

Made = Callable[..., CaseSet]
Doc = Callable[..., dict[str, Any]]

KEYS = ["test_set_id", "version", "subject_kind", "subject_id", "subject_version"]
MTBENCH = Path(__file__).parents[2] / "data" / "mtbench"


def together(*sets: CaseSet) -> CaseSet:
    """One CaseSet of several."""
    return CaseSet({name: pa.concat_tables([one.arrow(name) for one in sets]) for name in TABLES})


def read(documents: list[Document], version: str = "1.0.0") -> CaseSet:
    """A CaseSet of some documents."""
    return CaseSet(joined(Reader.corrections("acme.a", version, PullReport()).groups([page(documents)])))


@st.composite
def items(draw: st.DrawFn) -> dict[str, Any]:
    """An item whose weights can be, in quarters, so that their sums are exact; experts' may be unknown."""
    yes, no = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    parts = [draw(st.integers(0, 8)) / 4 if said else 0 for said in (yes, no, yes, no)]
    made: dict[str, Any] = {"yes": yes, "no": no, "yesWeight": parts[0] + parts[2], "totalWeight": sum(parts)}
    if draw(st.booleans()):
        made["expert"] = {"yesWeight": parts[0], "totalWeight": parts[0] + parts[1]}
    said = [{"verdict": "yes", "reason": "r"}] * draw(st.integers(0, yes))
    return {"key": draw(st.sampled_from("abc")), "reasons": said, **made}


@st.composite
def documents(draw: st.DrawFn) -> list[Document]:
    """Some cases of two versions of an agent; an erased one has no items."""
    found = []
    for number in range(draw(st.integers(0, 4))):
        erased = draw(st.booleans())
        subject = {"kind": "agent", "id": "acme.a", "version": draw(st.sampled_from(["1.0.0", "1.1.0"]))}
        mine = [] if erased else draw(st.lists(items(), max_size=3))
        case = {"caseId": f"c{number}", "subject": subject, "input": None, "output": None, "items": mine}
        found.append({**case, "erased": True} if erased else case)
    return found


# ---------------------------------------------------------------- summary


def test_a_summary_of_nothing_has_its_columns() -> None:
    """Dtypes do not depend on the rows."""
    empty = CaseSet(empty_tables()).summary()
    assert len(empty) == 0
    full = read([]).summary()
    assert list(empty.columns[:5]) == KEYS
    assert empty.dtypes.equals(full.dtypes)


def test_a_summary_has_a_row_per_version_of_what_ran(frozen: Made, case: Doc, item: Doc) -> None:
    """Cases, erased ones, items, corrections and weights are counted apart for each subject version, sorted."""
    newer = {"kind": "agent", "id": "acme.a", "version": "1.1.0"}
    expert = {"yesWeight": 1, "totalWeight": 2}
    cases_ = frozen(
        case("a", subject=newer, items=[item(yes=1, no=1, yesWeight=1, totalWeight=3, expert=expert)]),
        case("b", items=[item(yes=3, no=1, yesWeight=2, totalWeight=5), item("l", yesWeight=0, totalWeight=0)]),
        case("c", erased=True),
    )
    found = cases_.summary().set_index("subject_version")
    assert list(found.index) == ["1.0.0", "1.1.0"]
    assert found["n_cases"].tolist() == [2, 1]
    assert found["n_erased"].tolist() == [1, 0]
    assert found["n_retired"].isna().all()
    assert found["n_items"].tolist() == [1, 1]
    assert found["n_zero_weight"].tolist() == [1, 0]
    assert found["n_corrections"].tolist() == [4, 2]
    assert found["yes_weight"].tolist() == [2, 1]
    assert found["total_weight"].tolist() == [5, 3]
    assert found["yes_rate"].tolist() == [2 / 5, 1 / 3]
    assert found["n_unknown_expert"].tolist() == [2, 0]
    assert np.isnan(found["expert_total_weight"].iloc[0])
    assert np.isnan(found["expert_yes_weight"].iloc[0])
    assert found[["expert_yes_weight", "expert_total_weight", "expert_yes_rate"]].iloc[1].tolist() == [1, 2, 0.5]
    assert found[["first_added_at", "last_updated_at"]].isna().all(axis=None)


def test_no_items_are_no_weight_and_no_rate(frozen: Made) -> None:
    """A frozen set without items has weight 0, which is known, and no rate, which is not."""
    row = frozen("a").summary().iloc[0]
    assert row[["n_items", "n_corrections", "yes_weight", "total_weight"]].tolist() == [0, 0, 0, 0]
    assert row[["expert_yes_weight", "expert_total_weight", "n_unknown_expert"]].tolist() == [0, 0, 0]
    assert row[["yes_rate", "yes_low", "yes_high", "expert_yes_rate"]].isna().all()


def test_a_live_test_set_has_no_evidence(live: Made, frozen: Made) -> None:
    """Of live cases what concerns items is missing; retired ones and times are told, beside a frozen set."""
    found = together(frozen("a"), live("x", "-y", "-z")).summary()
    assert found["test_set_id"].fillna("live").tolist() == ["acme.a", "live"]
    assert found["n_retired"].tolist() == [pd.NA, 2]
    row = found.iloc[1]
    assert row["n_cases"] == 3
    assert row[["n_items", "n_corrections", "yes_weight", "total_weight", "expert_total_weight"]].isna().all()
    assert row["first_added_at"] == row["last_updated_at"] == pd.Timestamp("2025-01-02T03:04:05Z")


def test_contradicting_weights_are_refused(frozen: Made, case: Doc, item: Doc) -> None:
    """A summary makes no rate of weights that yes_rates refuses."""
    with pytest.raises(ValueError, match="contradict each other"):
        frozen(case("a", items=[item(yesWeight=2, totalWeight=1)])).summary()


def test_a_summary_says_what_the_statistics_say() -> None:
    """On real data the figures are those of yes_rates and expert_weights."""
    pages = [path.read_bytes() for path in sorted(MTBENCH.glob("page-*.json"))]
    real = CaseSet(joined(Reader.corrections("real", "1.0.0", PullReport()).groups(pages)))
    row = real.summary().iloc[0]
    rates, experts = (yes_rates(real.items, weights=weights).iloc[0] for weights in ("recorded", "expert"))
    names = {"rate": "yes_rate", "low": "yes_low", "high": "yes_high", "weight": "total_weight"}
    names |= {name: name for name in ("n_items", "n_corrections", "n_zero_weight", "n_unknown_expert")}
    assert {name: row[mine] for name, mine in names.items()} == {name: rates[name] for name in names}
    assert (row["expert_yes_rate"], row["expert_total_weight"]) == (experts["rate"], experts["weight"])
    assert row["expert_total_weight"] == expert_weights(real.items)["expert_weight"].iloc[0]
    assert row["n_cases"] == len(real)


@given(documents(), documents())
@settings(deadline=None, max_examples=40)
def test_a_summary_adds_up(one: list[Document], two: list[Document]) -> None:
    """Whatever the cases, rows are the groups of cases, and their counts and weights those of the whole."""
    whole = together(read(one), read(two, "2.0.0"))
    found, all_items = whole.summary(), whole.items
    assert found["n_cases"].sum() == len(whole)
    assert found["n_erased"].sum() == whole.cases["erased"].fillna(False).sum()
    assert (found["n_items"] + found["n_zero_weight"]).sum() == len(all_items)
    assert len(found) == len(whole.cases[KEYS].drop_duplicates())
    for name in ("yes_weight", "total_weight", "expert_yes_weight", "expert_total_weight"):
        assert found[name].sum() == all_items[name].sum()
    assert found["n_unknown_expert"].sum() == all_items["expert_total_weight"].isna().sum()
    assert (found["yes_rate"].isna() == (found["total_weight"] == 0)).all()
    known = found.dropna(subset="yes_rate")
    np.testing.assert_allclose(known["yes_rate"], known["yes_weight"] / known["total_weight"], rtol=1e-12)


# ---------------------------------------------------------------- contested


def test_nothing_is_contested() -> None:
    """Without items, with all yes, with all no, with one correction: no rows, all columns."""
    empty = CaseSet(empty_tables()).contested()
    assert len(empty) == 0
    assert list(empty.columns[-2:]) == ["yes_rate", "reasons"]
    assert not {"correction_ids", "expert_correction_ids"} & set(empty.columns)


def test_one_voice_is_no_dispute(frozen: Made, case: Doc, item: Doc) -> None:
    """An item that all agree on is not contested, however many they are."""
    items = [item("y", yes=9, no=0), item("n", yes=0, no=9, yesWeight=0), item("one", yes=1, no=0)]
    found = frozen(case("a", items=items)).contested()
    assert len(found) == 0
    assert found.dtypes.drop("reasons").equals(CaseSet(empty_tables()).contested().dtypes.drop("reasons"))


def test_the_most_even_come_first(frozen: Made, case: Doc, item: Doc) -> None:
    """By nearness of the weighted share to one half, then by corrections, then in order; no weight comes last."""
    items = [
        item("nobody's", yes=5, no=5, yesWeight=0, totalWeight=0),
        item("third", yes=1, no=2, yesWeight=1, totalWeight=3),
        item("half", yes=1, no=1, yesWeight=1, totalWeight=2),
        item("two thirds, more", yes=4, no=2, yesWeight=4, totalWeight=6),
        item("half again", yes=1, no=1, yesWeight=5, totalWeight=10),
        item("half, more", yes=2, no=2, yesWeight=1.5, totalWeight=3),
    ]
    found = frozen(case("a", items=items)).contested()
    order = ["half, more", "half", "half again", "two thirds, more", "third", "nobody's"]
    assert found["key"].tolist() == order
    np.testing.assert_array_equal(found["yes_rate"], [0.5, 0.5, 0.5, 4 / 6, 1 / 3, np.nan])
    assert frozen(case("a", items=items)).contested(2)["key"].tolist() == order[:2]
    assert len(frozen(case("a", items=items)).contested(0)) == 0


def test_reasons_stand_newest_first(frozen: Made, case: Doc, item: Doc) -> None:
    """Each item has its own reasons, as the server lists them; of a same id in another version none."""
    said = [
        {"verdict": "no", "reason": "newest", "expert": True, "correctorGroupId": "g"},
        {"verdict": "yes", "reason": "oldest"},
    ]
    split = item(yes=1, no=1, yesWeight=1, totalWeight=2, reasons=said)
    silent = item("l", yes=1, no=1, yesWeight=1, totalWeight=2)
    both = together(frozen(case("a", items=[split, silent])), frozen(case("a", items=[silent]), version="2.0.0"))
    found = both.contested()
    assert found["reasons"].tolist() == [
        [
            {"verdict": "no", "reason": "newest", "corrector_group_id": "g", "expert": True},
            {"verdict": "yes", "reason": "oldest", "corrector_group_id": None, "expert": None},
        ],
        [],
        [],
    ]
    assert found["version"].tolist() == ["1.0.0", "1.0.0", "2.0.0"]


def test_erased_cases_are_not_contested(frozen: Made, case: Doc, item: Doc) -> None:
    """Even where a server left items on an erased case, they are not shown."""
    split = item(yes=1, no=1, yesWeight=1, totalWeight=2)
    cases_ = frozen(case("a", erased=True, items=[split]), case("b", items=[split]))
    assert cases_.contested()["case_id"].tolist() == ["b"]


@pytest.mark.parametrize("n", [-1, 1.5, True, None, "ten", np.float64(2)])
def test_n_is_a_whole_number(frozen: Made, n: Any) -> None:
    """Anything else is refused, and told how it looks."""
    with pytest.raises(ConfigError, match="a whole number from 0, not"):
        frozen("a").contested(n)
    three: Any = np.int64(3)
    assert len(frozen("a").contested(three)) == 0


def test_weights_that_cannot_be_are_refused(frozen: Made, case: Doc, item: Doc) -> None:
    """No share is made of a contested item's weights that contradict each other."""
    with pytest.raises(ValueError, match="item 'k' has weights that contradict each other"):
        frozen(case("a", items=[item(yes=1, no=1, yesWeight=1e300, totalWeight=1e-300)])).contested()


@given(documents(), st.integers(0, 4))
@settings(deadline=None, max_examples=40)
def test_contested_items_are_items(made: list[Document], n: int) -> None:
    """Each row is an item with both verdicts, with its reasons, and a smaller n is a head of a larger one."""
    whole = read(made)
    found = whole.contested(1000)
    both = whole.items[(whole.items["yes"] > 0) & (whole.items["no"] > 0)]
    assert sorted(zip(found["case_id"], found["item_no"], strict=True)) == sorted(
        zip(both["case_id"], both["item_no"], strict=True)
    )
    reasons = both.merge(whole.reasons, on=["case_id", "item_no"])
    assert sum(map(len, found["reasons"])) == len(reasons)
    nearness = (found["yes_rate"] - 0.5).abs().round(12)  # 1/3 and 2/3 are as near, but for their last digit
    assert nearness.fillna(1).is_monotonic_increasing
    pd.testing.assert_frame_equal(whole.contested(n), found.head(n))
