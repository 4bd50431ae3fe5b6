"""Two versions compared: what changed, by how much, and how sure that is."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from casekit.stats import compare, expert_agreement, yes_rates

Reference = dict[str, Any]
MakeItems = Callable[[list[dict[str, Any]]], pd.DataFrame]
Engines = Callable[[pd.DataFrame], dict[str, Any]]


def one(frame: pd.DataFrame) -> Any:
    """Take the only row."""
    assert len(frame) == 1
    return frame.iloc[0]


def row(case: str, yes: int, no: int, key: str = "a", **more: Any) -> dict[str, Any]:
    """Make an item with every correction of weight 1."""
    base = {"case_id": case, "item_no": 0, "key": key, "yes": yes, "no": no, "yes_weight": float(yes)}
    return {**base, "total_weight": float(yes + no), **more}


@pytest.fixture
def after(t1: pd.DataFrame) -> pd.DataFrame:
    """T1 without case c3, with a new case c10, and with one more yes on an item of c1."""
    new = t1[t1["case_id"] == "c5"].assign(case_id="c10", run_id="c10")
    frame = pd.concat([t1[t1["case_id"] != "c3"], new], ignore_index=True)
    frame.loc[0, ["yes", "yes_weight", "total_weight"]] = [3, 5.0, 5.0]
    return frame


def test_difference_is_the_contrast_of_two_ratios(reference: Reference, t1: pd.DataFrame) -> None:
    """Others against experts as two versions of the same runs is R's svyratio contrast."""
    entry = reference["T1.R.expert_minus_other"]
    experts = t1.assign(yes_weight=t1["expert_yes_weight"], total_weight=t1["expert_total_weight"])
    others = t1.assign(
        yes_weight=t1["yes_weight"] - t1["expert_yes_weight"],
        total_weight=t1["total_weight"] - t1["expert_total_weight"],
    )
    drop = ["expert_yes_weight", "expert_total_weight"]
    found = one(compare(others.drop(columns=drop), experts.drop(columns=drop)))
    expected = entry["output"]
    assert [found["difference"], found["se"]] == pytest.approx([expected["diff"], expected["se"]], abs=1e-9)
    assert [found["low"], found["high"]] == pytest.approx(expected["ci95_t"], abs=entry["tolerance"])
    assert found["df"] == expected["df"]
    assert found["p_value"] == pytest.approx(one(expert_agreement(t1))["gap_p"], abs=1e-12)


def test_what_came_went_and_changed(t1: pd.DataFrame, after: pd.DataFrame) -> None:
    """Cases and items added, removed and changed are counted, and the weight that moved."""
    found = one(compare(t1, after))
    cases = found[["n_cases", "n_cases_before", "n_cases_after", "n_cases_common", "n_cases_added", "n_cases_removed"]]
    assert cases.tolist() == [9, 8, 8, 7, 1, 1]
    assert found["n_cases_changed"] == 1
    items = found[["n_items", "n_items_before", "n_items_after", "n_items_common", "n_items_added", "n_items_removed"]]
    assert items.tolist() == [18, 16, 17, 15, 2, 1]
    assert found["n_items_changed"] == 1
    assert found[["n_corrections_before", "n_corrections_after"]].tolist() == [28, 33]
    assert found[["weight_before", "weight_after", "weight_added", "weight_removed"]].tolist() == [40, 45, 7, 3]
    assert found[["weight_common_before", "weight_common_after"]].tolist() == [37, 38]
    assert found["expert_share_before"] == 0.45


def test_sides_are_yes_rates(t1: pd.DataFrame, after: pd.DataFrame) -> None:
    """Each side's rate and interval are those of yes_rates, also by key."""
    found = compare(t1, after, by="key")
    for side, frame in (("before", t1), ("after", after)):
        rates = yes_rates(frame, by="key")
        for name in ("rate", "low", "high"):
            assert found[f"{side}_{name}"].tolist() == pytest.approx(rates[name].tolist(), nan_ok=True, abs=1e-12)


def test_common_runs_alone(t1: pd.DataFrame, after: pd.DataFrame) -> None:
    """The common part is the comparison of the runs with weight in both."""
    found = one(compare(t1, after))
    common = set(t1["case_id"]) & set(after["case_id"])
    alone = one(compare(t1[t1["case_id"].isin(common)], after[after["case_id"].isin(common)]))
    names = ["before_rate", "after_rate", "difference", "se", "low", "high"]
    assert [found[f"common_{name}"] for name in names] == pytest.approx([alone[name] for name in names], abs=1e-12)
    assert found["removed_rate"] == 1
    assert found["added_rate"] == pytest.approx(6 / 7)


def test_no_common_run_is_welchs(t1: pd.DataFrame) -> None:
    """Versions without a common run: variances add up, with Welch's degrees of freedom."""
    other = t1.assign(case_id="x" + t1["case_id"], run_id="x" + t1["run_id"], yes_weight=t1["yes_weight"] / 2)
    found = one(compare(t1, other))
    a, b = one(yes_rates(t1)), one(yes_rates(other))
    va, vb = a["se"] ** 2, b["se"] ** 2
    df = (va + vb) ** 2 / (va**2 / 7 + vb**2 / 7)
    half = stats.t.ppf(0.975, df) * np.sqrt(va + vb)
    assert found["method"] == "welch"
    assert found["df"] == pytest.approx(df)
    assert found["high"] - found["difference"] == pytest.approx(half)
    assert found["n_cases_common"] == 0


def test_pairing_is_narrower_than_independence(t1: pd.DataFrame, after: pd.DataFrame) -> None:
    """Runs in both versions cancel: the paired standard error is smaller than that of two samples."""
    found = one(compare(t1, after))
    a, b = one(yes_rates(t1)), one(yes_rates(after))
    assert found["method"] == "paired"
    assert found["se"] < np.hypot(a["se"], b["se"]) / 2


def test_a_column_may_pair_the_runs(t1: pd.DataFrame, after: pd.DataFrame) -> None:
    """Runs with new ids are paired by a column that both versions share."""
    paired = one(compare(t1, after))
    renamed = after.assign(case_id="new-" + after["case_id"], run_id=None, input_hash=after["case_id"])
    found = one(compare(t1.assign(input_hash=t1["case_id"]), renamed, pair_by="input_hash"))
    assert found["method"] == "paired"
    assert found["se"] == pytest.approx(paired["se"], abs=1e-12)
    assert one(compare(t1, renamed))["method"] == "welch"


def test_identical_versions_have_no_interval(t1: pd.DataFrame) -> None:
    """The same sums in every run: the difference is 0 and there is nothing to take an error from."""
    found = one(compare(t1, t1))
    assert found["difference"] == 0
    assert found[["low", "high", "p_value"]].isna().all()
    assert pd.isna(found["method"])
    assert found["reason"] == "identical"
    assert found[["n_cases_changed", "n_items_changed", "n_items_added"]].tolist() == [0, 0, 0]


def test_all_yes_on_both_sides_uses_their_own_intervals(make_items: MakeItems) -> None:
    """Nothing but yes before and after, from other corrections: MOVER on both intervals, flagged, without a p-value."""
    before = make_items([row(f"c{i}", 1, 0) for i in range(6)])
    later = make_items([row(f"c{i}", 2, 0) for i in range(6)])
    found = one(compare(before, later))
    assert found["method"] == "mover"
    assert found["difference"] == 0
    side = 1 - found["before_low"]
    assert [found["low"], found["high"]] == pytest.approx([-side, side])
    assert np.isnan(found["p_value"])


def test_one_side_without_weight(t1: pd.DataFrame) -> None:
    """A side with no items has no rate, and the reason names it."""
    found = one(compare(t1, t1.iloc[:0]))
    assert np.isnan(found["difference"])
    assert found["reason"] == "no weight after"
    assert found[["n_cases_removed", "n_items_removed"]].tolist() == [8, 16]
    assert one(compare(t1.iloc[:0], t1.iloc[:0]))["reason"] == "no weight before and after"
    assert len(compare(t1.iloc[:0], t1.iloc[:0], by="key")) == 0


def test_one_case_on_a_side_has_no_interval(make_items: MakeItems) -> None:
    """One run in all says nothing about others."""
    found = one(compare(make_items([row("c1", 1, 0)]), make_items([row("c1", 0, 1)])))
    assert found["difference"] == -1
    assert np.isnan(found["se"])
    assert found["reason"] == "one case"


def test_erased_cases_need_the_cases(t1: pd.DataFrame, after: pd.DataFrame) -> None:
    """Items alone cannot tell an erased case from a removed one; the cases can."""
    cases = pd.DataFrame({"case_id": [f"c{i}" for i in range(1, 9)], "kind": ["x", "y"] * 4, "erased": None})
    cases["erased"] = cases["erased"].astype("boolean")
    later = cases.assign(erased=cases["case_id"].isin(["c3"]))
    assert pd.isna(one(compare(t1, after))["n_cases_erased"])
    found = one(compare(t1, after, cases=(cases, later)))
    assert found[["n_cases_erased", "n_cases_removed"]].tolist() == [1, 1]
    assert one(compare(t1, after, cases=(later, later)))["n_cases_erased"] == 0
    by_key = compare(t1, after, by="key", cases=(cases, later))
    assert by_key["n_cases_erased"].isna().all()
    kinds = {case: kind for case, kind in zip(cases["case_id"], cases["kind"], strict=True)}
    grouped = [frame.assign(kind=frame["case_id"].map(kinds)) for frame in (t1, after)]
    by_kind = compare(*grouped, by="kind", cases=(cases, later))
    assert by_kind["n_cases_erased"].tolist() == [1, 0, 0]


def test_unknown_experts_have_no_share(t1: pd.DataFrame) -> None:
    """A version whose experts are unknown has no experts' share, and counts its items."""
    old = t1.assign(expert_yes_weight=np.nan, expert_total_weight=np.nan)
    found = one(compare(old, t1))
    assert np.isnan(found["expert_share_before"])
    assert found["expert_share_after"] == 0.45
    assert found[["n_unknown_expert_before", "n_unknown_expert_after"]].tolist() == [16, 0]
    assert found["n_items_changed"] == 16


def test_engines_agree(t1: pd.DataFrame, after: pd.DataFrame, engines: Engines) -> None:
    """Every engine gives the same, also with another on the other side."""
    for weights in ("recorded", "expert", "count"):
        expected = compare(t1, after, by="key", weights=weights)
        for name, native in engines(t1).items():
            found = compare(native, engines(after)[name], by="key", weights=weights)
            pd.testing.assert_frame_equal(found, expected, rtol=1e-12)
            pd.testing.assert_frame_equal(compare(native, after, by="key", weights=weights), expected, rtol=1e-12)


def test_contradictions_name_the_item(t1: pd.DataFrame) -> None:
    """Weights that cannot be are refused on either side."""
    wrong = t1.assign(yes_weight=t1["yes_weight"] + 100)
    for sides in ((wrong, t1), (t1, wrong)):
        with pytest.raises(ValueError, match="Case 'c1', item 'i0'"):
            compare(*sides)


def test_missing_columns_name_the_side(t1: pd.DataFrame) -> None:
    """The side that lacks a column is named."""
    with pytest.raises(KeyError, match="after has no column 'no'"):
        compare(t1, t1.drop(columns="no"))
    with pytest.raises(KeyError, match="before has no column 'key'"):
        compare(t1.drop(columns="key"), t1)
    with pytest.raises(KeyError, match="before has no column 'hash'"):
        compare(t1, t1, pair_by="hash")
