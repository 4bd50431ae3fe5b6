"""Yes rates and weights where there is little or nothing to say, and where the input is wrong."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from casekit.stats import agreement, expert_agreement, expert_weights, rank_keys, yes_rates

MakeItems = Callable[[list[dict[str, Any]]], pd.DataFrame]
Engines = Callable[[pd.DataFrame], dict[str, Any]]

DTYPES = {
    "rate": "float64",
    "low": "float64",
    "high": "float64",
    "se": "float64",
    "n_cases": "int64",
    "n_items": "int64",
    "n_corrections": "int64",
    "weight": "float64",
    "n_eff": "float64",
    "deff": "float64",
    "few_cases": "bool",
    "n_zero_weight": "int64",
    "n_unknown_expert": "int64",
    "weights": "str",
    "method": "str",
    "level": "float64",
    "reason": "str",
}


def one(frame: pd.DataFrame) -> Any:
    """Take the only row."""
    assert len(frame) == 1
    return frame.iloc[0]


def row(case: str, yes: int, no: int, weight: float = 1.0, **more: Any) -> dict[str, Any]:
    """Make an item with every correction at one weight."""
    base = {"case_id": case, "item_no": 0, "key": "a", "yes": yes, "no": no, "yes_weight": yes * weight}
    return {**base, "total_weight": (yes + no) * weight, **more}


def kinds(frame: pd.DataFrame) -> dict[str, str]:
    """Name the dtypes of a frame, text being ``str`` whatever pandas calls it."""
    text = pd.StringDtype(na_value=np.nan)
    return {str(name): "str" if dtype == text else str(dtype) for name, dtype in frame.dtypes.items()}


def test_no_rows(t1: pd.DataFrame, engines: Engines) -> None:
    """No items make one row without a rate, or no rows by a key, with the same columns in every engine."""
    empty = t1.iloc[:0]
    for frame in (empty, *engines(empty).values()):
        rates = yes_rates(frame)
        assert kinds(rates) == DTYPES
        assert np.isnan(one(rates)["rate"])
        assert one(rates)[["n_cases", "n_items", "weight"]].tolist() == [0, 0, 0]
        assert one(rates)["reason"] == "no items"
        by_key = yes_rates(frame, by="key")
        assert kinds(by_key) == {"key": "str", **DTYPES}
        assert len(by_key) == 0
        assert one(expert_weights(frame))["reason"] == "no items"
        assert len(expert_weights(frame, by="key")) == 0


@pytest.mark.parametrize("method", ["wilson", "wald", "jackknife", "bootstrap"])
def test_schema_never_depends_on_rows(method: Any, t1: pd.DataFrame) -> None:
    """The columns and dtypes are the same for every method and any rows."""
    assert kinds(yes_rates(t1, method=method)) == DTYPES
    assert kinds(yes_rates(t1.iloc[:0], method=method)) == DTYPES


@pytest.mark.parametrize("method", ["wilson", "wald", "jackknife", "bootstrap"])
def test_one_case_has_a_rate_and_no_interval(method: Any, make_items: MakeItems) -> None:
    """A single run says nothing about other runs: standard error and interval are missing, never 0."""
    rates = one(yes_rates(make_items([row("c1", 3, 1)]), method=method))
    assert rates["rate"] == 0.75
    assert rates[["se", "low", "high", "n_eff", "deff"]].isna().all()
    assert rates["reason"] == "one case"
    assert rates["few_cases"]


def test_zero_weight_is_left_out_and_counted(make_items: MakeItems) -> None:
    """An item that nobody's weight is on makes no case and no rate, and is counted."""
    items = make_items([row("c1", 1, 0), row("c2", 1, 1), row("c3", 2, 2, weight=0.0)])
    rates = one(yes_rates(items))
    assert rates[["n_cases", "n_items", "n_zero_weight", "n_corrections"]].tolist() == [2, 2, 1, 3]
    assert rates["rate"] == pytest.approx(2 / 3)


def test_nothing_but_zero_weight(make_items: MakeItems) -> None:
    """With no weight at all the rate is missing, never 0."""
    items = make_items([row("c1", 1, 0, weight=0.0), row("c2", 0, 1, weight=0.0)])
    rates = one(yes_rates(items))
    assert np.isnan(rates["rate"])
    assert rates["reason"] == "no weight"
    shares = one(expert_weights(items))
    assert shares[["expert_share", "hhi", "gini", "top_share", "effective_cases", "kish_low"]].isna().all()
    assert shares["reason"] == "no weight"


def test_unknown_experts_are_counted_never_zero(make_items: MakeItems) -> None:
    """Items of older servers have no experts' rate: left out with experts alone, counted always."""
    known = row("c1", 1, 1, expert_yes_weight=1.0, expert_total_weight=1.0)
    items = make_items([known, {**known, "case_id": "c2"}, row("c3", 1, 0)])
    experts = one(yes_rates(items, weights="expert"))
    assert experts[["n_items", "n_zero_weight", "n_unknown_expert"]].tolist() == [2, 0, 1]
    assert one(yes_rates(items))["n_unknown_expert"] == 1
    shares = one(expert_weights(items))
    assert shares[["expert_weight", "other_weight", "expert_share", "share_low", "other_no_weight"]].isna().all()
    assert shares["weight"] == 5
    assert shares["reason"] == "expert weights unknown for 1 of 3 items"


def test_nothing_known_of_experts(make_items: MakeItems) -> None:
    """A set built before experts were marked has no experts' rate, and the reason says which kind of nothing it is."""
    rates = one(yes_rates(make_items([row("c1", 1, 0), row("c2", 0, 1)]), weights="expert"))
    assert np.isnan(rates["rate"])
    assert rates["reason"] == "expert weights unknown"
    assert rates["n_unknown_expert"] == 2


def test_experts_who_corrected_nothing(make_items: MakeItems) -> None:
    """Experts' weight known to be 0 is zero weight, not unknown, and their share is 0."""
    none = {"expert_yes_weight": 0.0, "expert_total_weight": 0.0}
    items = make_items([row("c1", 1, 0, **none), row("c2", 0, 1, **none)])
    rates = one(yes_rates(items, weights="expert"))
    assert rates["reason"] == "no weight"
    assert rates[["n_zero_weight", "n_unknown_expert"]].tolist() == [2, 0]
    shares = one(expert_weights(items))
    assert shares["expert_share"] == 0
    assert 0 < shares["share_high"] < 1


def test_missing_key_is_a_group_of_its_own(make_items: MakeItems, engines: Engines) -> None:
    """Items without the key make a group, last, in every engine."""
    items = make_items([row("c1", 1, 0, region="south"), row("c2", 0, 1), row("c3", 1, 0, region="north")])
    for frame in (items, *engines(items).values()):
        rates = yes_rates(frame, by="region")
        assert rates["region"].tolist()[:2] == ["north", "south"]
        assert pd.isna(rates["region"].tolist()[2])
        assert rates["rate"].tolist() == [1, 1, 0]


def test_nan_and_null_keys_are_one_group(engines: Engines) -> None:
    """A number that is missing is one group, whether an engine calls it null or NaN."""
    items = pd.DataFrame({"case_id": ["c1", "c2", "c3"], "yes": 1, "no": 0, "score": [0.5, np.nan, np.nan]})
    nulls = pa.table({**items.to_dict("list"), "score": pa.array([0.5, None, float("nan")])})
    for frame in (items, nulls, *engines(items).values()):
        rates = yes_rates(frame, by="score", weights="count")
        assert rates["n_items"].tolist() == [1, 2]
        assert np.isnan(rates["score"].tolist()[1])


def test_one_item_with_39_corrections(make_items: MakeItems) -> None:
    """Many corrections of one item are one case: a rate, and no interval that would look sure."""
    rates = one(yes_rates(make_items([row("c1", 30, 9)])))
    assert rates["n_corrections"] == 39
    assert rates["rate"] == pytest.approx(30 / 39)
    assert np.isnan(rates["low"])
    beside = one(yes_rates(make_items([row("c1", 30, 9), row("c2", 0, 1)])))
    assert beside["low"] < 0.2
    assert beside["high"] > 0.8


def test_a_tie_is_half(make_items: MakeItems) -> None:
    """As much weight for yes as for no in each run: a rate of one half, and no variation to take an error from."""
    rates = one(yes_rates(make_items([row("c1", 1, 1), row("c2", 2, 2, weight=3.0)])))
    assert rates["rate"] == 0.5
    assert rates["se"] == 0
    assert rates["n_eff"] == rates["n_corrections"] == 6
    assert rates["low"] < 0.5 < rates["high"]
    wald = one(yes_rates(make_items([row("c1", 1, 1), row("c2", 2, 2, weight=3.0)]), method="wald"))
    assert wald["low"] == wald["high"] == 0.5
    assert wald["reason"] == "no variation between cases"


def test_thirds_have_no_variation_either(make_items: MakeItems) -> None:
    """Rounding of 1/3 is no variation between runs: the standard error is exactly 0."""
    rates = one(yes_rates(make_items([row(f"c{i}", 1, 2, weight=w) for i, w in enumerate([1.0, 0.1, 7.0])])))
    assert rates["se"] == 0
    assert rates["n_eff"] == 9


def test_the_same_run_is_one_cluster(make_items: MakeItems) -> None:
    """Two cases of one run are one cluster; without a run id the case is the run."""
    items = make_items([row("c1", 1, 0, run_id="r1"), row("c2", 0, 1, run_id="r1"), row("r1", 1, 0), row("c4", 1, 0)])
    assert one(yes_rates(items))["n_cases"] == 2
    assert one(yes_rates(items.drop(columns="run_id")))["n_cases"] == 4


def test_expert_corrections_are_their_ids(make_items: MakeItems, engines: Engines) -> None:
    """With experts alone the corrections are the experts' ids; an item without ids is one correction."""
    items = make_items([row(f"c{i}", 2, 2, 3.0, expert_yes_weight=3.0, expert_total_weight=6.0) for i in range(3)])
    items["expert_correction_ids"] = pd.Series([["x", "y"], None, []], dtype=object)
    for frame in (items, *engines(items).values()):
        assert one(yes_rates(frame, weights="expert"))["n_corrections"] == 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"yes_weight": 5.0},
        {"yes_weight": -1.0},
        {"total_weight": np.nan},
        {"total_weight": np.inf, "yes_weight": 1.0},
        {"yes": -1},
    ],
)
def test_contradicting_weights_name_the_item(wrong: dict[str, Any], make_items: MakeItems, engines: Engines) -> None:
    """Weights that cannot be are refused in every engine, naming the case and the item."""
    items = make_items([row("c1", 1, 0), {**row("c2", 1, 1, key="the-item"), **wrong}])
    for frame in (items, *engines(items).values()):
        with pytest.raises(ValueError, match=r"Case 'c2', item 'the-item'.*contradict.*There are 1 such"):
            yes_rates(frame)
        with pytest.raises(ValueError, match="Case 'c2', item 'the-item'"):
            expert_weights(frame)


@pytest.mark.parametrize(
    "wrong",
    [
        {"expert_yes_weight": 2.0, "expert_total_weight": 1.0},
        {"expert_yes_weight": 0.0, "expert_total_weight": 3.0},
        {"expert_yes_weight": 0.0, "expert_total_weight": 1.5},
    ],
)
def test_experts_cannot_outweigh_everyone(wrong: dict[str, float], make_items: MakeItems) -> None:
    """Experts' weights above their total, everyone's, or everyone's no are refused."""
    items = make_items([row("c1", 1, 1, **wrong)])
    with pytest.raises(ValueError, match="Case 'c1', item 'a'"):
        yes_rates(items, weights="expert")
    with pytest.raises(ValueError, match="Case 'c1', item 'a'"):
        expert_agreement(items)


def test_rounding_is_no_contradiction(make_items: MakeItems) -> None:
    """A yes weight above the total by rounding alone counts as all of it."""
    items = make_items([row("c1", 3, 0, yes_weight=0.1 + 0.2, total_weight=0.3), row("c2", 1, 0)])
    assert one(yes_rates(items))["rate"] == 1


def test_negative_counts_are_refused_everywhere(make_items: MakeItems) -> None:
    """Statistics of counts refuse a negative count too."""
    items = make_items([row("c1", -1, 2)])
    for statistic in (agreement, rank_keys):
        with pytest.raises(ValueError, match="Case 'c1', item 'a'"):
            statistic(items)
    with pytest.raises(ValueError, match="Case 'c1', item 'a'"):
        yes_rates(items, weights="count")


def test_unknown_column_suggests_the_nearest(t1: pd.DataFrame) -> None:
    """A misspelt column names the right one."""
    with pytest.raises(KeyError, match="no column 'keys'; did you mean 'key'"):
        yes_rates(t1, by="keys")
    with pytest.raises(KeyError, match="no column 'expert_total_weight'"):
        yes_rates(t1.drop(columns="expert_total_weight"), weights="expert")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"weights": "experts"}, "weights='experts' is not known; choose one of 'recorded', 'expert', 'count'"),
        ({"method": "normal"}, "method='normal' is not known; choose one of 'wilson', 'wald'"),
        ({"level": 95}, "level=95 must lie between 0 and 1"),
        ({"level": 0}, "level=0 must lie between 0 and 1"),
        ({"n_resamples": 0}, "n_resamples=0 must be a whole number from 1"),
        ({"by": ["key", "key"]}, "names 'key' twice"),
        ({"by": [1]}, "must be a column name"),
        ({"by": "weight"}, "has a column 'weight' of its own"),
    ],
)
def test_bad_arguments_name_the_choices(wrong: dict[str, Any], message: str, t1: pd.DataFrame) -> None:
    """An argument that cannot be used is refused in a sentence that says what can."""
    with pytest.raises(ValueError, match=message):
        yes_rates(t1, **wrong)


def test_text_in_a_weight_column_is_refused(t1: pd.DataFrame) -> None:
    """A weight column of text is named; so is one that mixes types."""
    with pytest.raises(ValueError, match="Column 'yes_weight' holds String; it must hold numbers"):
        yes_rates(t1.assign(yes_weight="1"))
    mixed = t1.assign(yes_weight=pd.Series([1, "x"] * 8, dtype=object))
    with pytest.raises(ValueError, match="Column 'yes_weight' mixes values of several types"):
        yes_rates(mixed)


def test_input_is_not_changed(t1: pd.DataFrame) -> None:
    """A statistic leaves the analyst's frame as it was."""
    before = t1.copy(deep=True)
    yes_rates(t1, by="key")
    expert_weights(t1, by="key")
    pd.testing.assert_frame_equal(t1, before)


def test_categories_and_string_views_are_text(make_items: MakeItems) -> None:
    """Categories of polars and Arrow's string views are keys like any text."""
    items = make_items([row("c1", 1, 0, region="south"), row("c2", 0, 1), row("c3", 1, 0, region="north")])
    expected = yes_rates(items, by="region")
    table = pa.Table.from_pandas(items, preserve_index=False)
    views = table.set_column(table.column_names.index("region"), "region", table["region"].cast(pa.string_view()))
    pd.testing.assert_frame_equal(yes_rates(views, by="region"), expected)
    categories = pl.DataFrame(table).with_columns(pl.col("region").cast(pl.Categorical))
    pd.testing.assert_frame_equal(yes_rates(categories, by="region"), expected)


def test_one_case_that_outweighs_all_others(make_items: MakeItems) -> None:
    """Where the rest weighs nothing beside one run, leaving that run out leaves nothing: no jackknife error."""
    items = make_items([row("c1", 1, 1, 1e20), row("c2", 1, 0), row("c3", 0, 1)])
    rates = one(yes_rates(items, method="jackknife"))
    assert np.isnan(rates["se"])
    assert rates["reason"] == "one case outweighs all others"


def test_a_bootstrap_without_spread_is_no_interval(make_items: MakeItems) -> None:
    """When every resample has the same rate there is no interval, however many runs."""
    rates = one(yes_rates(make_items([row(f"c{i}", 1, 1) for i in range(12)]), method="bootstrap", seed=1))
    assert rates["rate"] == 0.5
    assert rates[["se", "low", "high"]].isna().all()
    assert rates["reason"] == "no variation between cases"


def test_keys_of_any_type(make_items: MakeItems) -> None:
    """Numbers, booleans, times and categories are keys; counts stay whole numbers though one is missing."""
    items = make_items([row("c1", 1, 0), row("c2", 0, 1), row("c3", 1, 1)])
    items = items.assign(
        number=pd.array([2, 1, None], dtype="Int64"),
        flag=pd.array([True, False, None], dtype="boolean"),
        day=pd.to_datetime(["2026-01-02", "2026-01-01", "NaT"]),
        kind=pd.Categorical(["b", "a", None]),
    )
    for name, first in (("number", 1), ("flag", False), ("day", pd.Timestamp("2026-01-01")), ("kind", "a")):
        rates = yes_rates(items, by=name)
        assert rates[name].tolist()[0] == first
        assert pd.isna(rates[name].tolist()[2])
        assert rates["rate"].tolist() == [0, 1, 0.5]
    assert str(yes_rates(items, by="number")["number"].dtype) == "Int64"


def test_concentration_of_weight(make_items: MakeItems) -> None:
    """One run of three with half of the weight: shares 1/2, 1/4, 1/4."""
    shares = one(expert_weights(make_items([row("c1", 2, 0), row("c2", 1, 0), row("c3", 0, 1), row("c4", 1, 0, 0.0)])))
    assert shares["hhi"] == pytest.approx(3 / 8)
    assert shares["effective_cases"] == pytest.approx(8 / 3)
    assert shares["top_share"] == 0.5
    assert shares["gini"] == pytest.approx(1 / 6)
    assert shares[["n_cases", "n_items"]].tolist() == [3, 4]
