"""Weights and counts of any size: what must not change with the unit, and what is missing where sums are too large."""

from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casekit import stats
from casekit.stats import clusters
from casekit.stats.frames import TOO_LARGE, whole_numbers

WEIGHTS = ["yes_weight", "total_weight", "expert_yes_weight", "expert_total_weight"]
IN_WEIGHTS = {"weight", "kish_low", "kish_high"}
ENGINES: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "polars": pl.from_pandas,
    "duckdb": lambda frame: duckdb.from_arrow(pa.Table.from_pandas(frame, preserve_index=False)),
}


def made_items(seed: int = 1, rows: int = 60) -> pd.DataFrame:
    """Items of 25 cases in three groups, with weights that are no multiples of a power of two."""
    rng = np.random.default_rng(seed)
    yes, no = rng.integers(0, 4, rows), rng.integers(0, 4, rows)
    weight = rng.choice([0.0, 0.1, 1.0, 3.7], rows)
    return pd.DataFrame(
        {
            "case_id": [f"c{number}" for number in rng.integers(0, 25, rows)],
            "key": [f"k{number}" for number in range(rows)],
            "pointer": "/x",
            "group": [f"g{number % 3}" for number in range(rows)],
            "rank": rng.integers(0, 9, rows),
            "yes": yes,
            "no": no,
            "yes_weight": yes * weight,
            "total_weight": (yes + no) * weight,
            "expert_yes_weight": np.minimum(yes, 1) * weight,
            "expert_total_weight": (np.minimum(yes, 1) + np.minimum(no, 1)) * weight,
        }
    )


def times(items: pd.DataFrame, factor: Any) -> pd.DataFrame:
    """The same items with all weights in another unit."""
    return items.assign(**{name: items[name] * factor for name in WEIGHTS})


def all_statistics(items: Any, later: Any, ranked: Any, by: str | None) -> Iterator[tuple[str, pd.DataFrame]]:
    """Every statistic of items that weights play a part in."""
    for method in ("wilson", "wald", "jackknife", "bootstrap"):
        yield method, stats.yes_rates(items, by=by, method=method, seed=1, n_resamples=30)
    yield "experts", stats.yes_rates(items, by=by, weights="expert")
    yield "expert_weights", stats.expert_weights(items, by=by)
    yield "expert_agreement", stats.expert_agreement(items, by=by)
    yield "precision_at_k", stats.precision_at_k(ranked, items, k=5, by=by)
    yield "coverage", stats.coverage(ranked, items, by=by)
    yield "rank_rates", stats.rank_rates(ranked, items)
    yield "compare", stats.compare(items, later, by=by)
    yield "gate", stats.gate(items, later, min_cases=3, min_candidate=0.4, max_drop=0.02, seed=1, n_resamples=30)
    yield "item_agreement", stats.item_agreement(items)


def results(items: pd.DataFrame, later: pd.DataFrame, engine: str, by: str | None) -> dict[str, pd.DataFrame]:
    """The statistics' results in an engine, without the columns that are in the unit of the weights."""
    ranked = items[["case_id", "key", "pointer", "rank", "group"]].assign(own_key=True, place=items["rank"])
    native, native_later, native_ranked = (ENGINES[engine](frame) for frame in (items, later, ranked))
    found = all_statistics(native, native_later, native_ranked, by)
    return {name: frame[[c for c in map(str, frame) if not unit(c)]] for name, frame in found}


def unit(column: str) -> bool:
    """Whether a column's numbers are sums of weights, or bounds that need squares of single items' weights."""
    return column in IN_WEIGHTS or column.startswith("weight_") or column.endswith("_weight")


def same(found: dict[str, pd.DataFrame], expected: dict[str, pd.DataFrame], *, exact: bool = False) -> None:
    """Compare results, but for rounding or to the last bit."""
    for name, frame in expected.items():
        room: dict[str, Any] = {"check_exact": True} if exact else {"rtol": 1e-9, "atol": 1e-12}
        pd.testing.assert_frame_equal(found[name], frame, obj=name, **room)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("factor", [1e-300, 1e-200, 1e150])
def test_the_unit_of_weights_is_nothing(engine: str, factor: float) -> None:
    """Rates, errors, intervals and effective numbers are the same in any unit of the weights, in every engine."""
    items, later = made_items(1), made_items(2)
    expected = results(items, later, "pandas", None)
    same(results(times(items, factor), times(later, factor), engine, None), expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_groups_may_have_units_of_their_own(engine: str) -> None:
    """A group of tiny weights beside one of huge weights has the figures that it has alone."""
    items, later = made_items(1), made_items(2)
    expected = results(items, later, "pandas", "group")
    units = {"g0": 1e-250, "g1": 1e200, "g2": 1.0}
    mixed, mixed_later = (times(frame, frame["group"].map(units)) for frame in (items, later))
    found = results(mixed, mixed_later, engine, "group")
    for name in ("rank_rates", "gate", "item_agreement"):  # not by group
        del expected[name], found[name]
    same(found, expected)


@given(power=st.integers(-900, 900), seed=st.integers(0, 99))
@settings(max_examples=8, deadline=None)
def test_a_power_of_two_changes_no_digit(power: int, seed: int) -> None:
    """Weights times a power of two give the same results to the last bit."""
    items, later = made_items(seed), made_items(seed + 100)
    factor = 2.0**power
    found = results(times(items, factor), times(later, factor), "arrow", "group")
    same(found, results(items, later, "arrow", "group"), exact=True)


def test_the_same_frames_give_the_same_digits() -> None:
    """Asked again of Arrow frames in many pieces, every statistic is equal to the last bit, however threads ran."""
    items, later = (in_pieces(made_items(seed, 30_000)) for seed in (1, 2))
    ranked = items.append_column("own_key", pc.is_valid(items["key"])).append_column("place", items["rank"])
    first = dict(all_statistics(items, later, ranked, "group"))
    for _ in range(2):
        same(dict(all_statistics(items, later, ranked, "group")), first, exact=True)


def in_pieces(frame: pd.DataFrame, rows: int = 300) -> pa.Table:
    """An Arrow table of many short pieces, which threads may take in any order."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return pa.concat_tables([table.slice(start, rows) for start in range(0, len(frame), rows)])


@pytest.mark.parametrize("engine", ENGINES)
def test_sums_beyond_a_float_are_missing(engine: str) -> None:
    """Where weights add up to more than a float holds, what rests on the sum is missing, with its reason."""
    items = times(made_items(), 4e306)
    items["other"] = np.where(items["group"] == "g0", "small", "large")
    items.loc[items["other"] == "small", WEIGHTS] /= 4e306
    native = ENGINES[engine](items)
    rates = stats.yes_rates(native, by="other").set_index("other")
    assert rates.loc["large", ["rate", "low", "high", "se", "weight", "n_eff"]].isna().all()
    assert rates["reason"].fillna("none").to_dict() == {"small": "none", "large": TOO_LARGE}
    assert (rates["n_cases"] > 9).all()
    assert rates.loc["small", ["rate", "low", "high", "se", "weight", "n_eff"]].notna().all()
    shares = stats.expert_weights(native, by="other").set_index("other")
    numbers = ["weight", "expert_share", "effective_cases", "hhi", "gini", "top_share", "kish_low", "kish_high"]
    assert shares.loc["large", numbers].isna().all()
    assert shares.loc["large", "reason"] == TOO_LARGE
    change = stats.compare(native, native, by="other").set_index("other")
    assert change.loc["large", ["before_rate", "weight_before", "difference"]].isna().all()
    assert change.loc["large", "reason"] == TOO_LARGE
    gap = stats.expert_agreement(native, by="other").set_index("other")
    assert gap["other_weight"].isna().to_dict() == {"small": False, "large": True}
    assert gap.loc["large", "reason"] == TOO_LARGE
    rule = stats.gate(native, native, min_weight=1.0, min_candidate=0.1, n_resamples=5, seed=1).set_index("check")
    assert rule["value"].isna()["min_weight"]
    assert not rule["passed"]["min_weight"]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("factor", [1e-150, 1e-145, 1e160])
def test_kish_is_missing_where_squares_are_lost(engine: str, factor: float) -> None:
    """Bounds that need squares of single items' weights are missing where these leave a float's range, never wrong."""
    shares = stats.expert_weights(ENGINES[engine](times(made_items(), factor)))
    assert shares[["kish_low", "kish_high"]].isna().all(axis=None)
    assert shares["effective_cases"].notna().all()


def test_squares_near_the_bounds_are_sure() -> None:
    """Just inside the bounds for squares, Kish's bounds are what they are in an ordinary unit."""
    least, most = clusters.SQUARED
    items = made_items()
    expected = stats.expert_weights(items)[["kish_low", "kish_high"]]
    for factor in (least, most / 1e3):
        found = stats.expert_weights(times(items, factor))[["kish_low", "kish_high"]]
        pd.testing.assert_frame_equal(found, expected, rtol=1e-9)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("count", [2**53 + 1, 2**63 - 1])
def test_counts_of_any_size_are_taken(engine: str, count: int) -> None:
    """Counts that no float holds exactly are taken at the nearest one, in every statistic and engine."""
    items = made_items()
    items["yes"] = items["yes"].where(items.index % 7 > 0, count)
    assert results(items, items, engine, "group").keys() == results(made_items(), made_items(), "pandas", None).keys()
    native = ENGINES[engine](items)
    rates = stats.yes_rates(native, weights="count")
    expected = items["yes"].astype(float).sum() / (items["yes"].astype(float) + items["no"]).sum()
    assert rates["rate"][0] == pytest.approx(expected, rel=1e-12)
    total = sum(map(int, items["yes"] + items["no"].astype(object)))
    if total < 2**63:
        assert rates["n_corrections"][0] == pytest.approx(total, rel=1e-12)
    else:
        assert rates["n_corrections"].isna().all()
    agreed = stats.agreement(native)
    assert agreed["pairs"][0] == pytest.approx(1.0)
    assert agreed["n_pairs"].isna().all()
    assert stats.item_agreement(native)["yes_share"].max() == 1.0
    assert len(stats.rank_keys(native)) == len(items)


def test_whole_numbers_are_missing_rather_than_wrong() -> None:
    """A count that 64 bits do not hold is missing; the others stay, and without such a one nothing is nullable."""
    assert whole_numbers(np.array([0.0, 5.0])).dtype == np.int64
    assert list(whole_numbers(np.array([2.0**63, 5.0]))) == [pd.NA, 5]


@pytest.mark.parametrize("factor", [1.0, 1e-200, 1e200])
def test_rounding_goes_by_the_items_weight(factor: float) -> None:
    """What sums of weights may differ by goes by their size: no tie, change or contradiction comes of the unit."""
    items = pd.DataFrame({"case_id": ["c1", "c2", "c3"], "key": "a", "yes": 2, "no": 1, "yes_weight": [0.3, 0.6, 0.3]})
    items["total_weight"] = [0.1 + 0.2, 0.9, 0.6]
    items["expert_yes_weight"] = [0.3, 0.5, 0.2]
    items["expert_total_weight"] = [0.3, 0.5, 0.3]
    items = times(items, factor)
    found = stats.expert_agreement(items).iloc[0]
    assert found[["n_both", "n_agree", "n_disagree", "n_tie"]].tolist() == [2, 0, 2, 0]
    assert stats.compare(items, items.assign(total_weight=[0.3 * factor, 0.9 * factor, 0.6 * factor]))[
        "n_items_changed"
    ].tolist() == [0]
    assert stats.compare(items, times(items, 1.001))["n_items_changed"].tolist() == [3]


def test_a_count_that_moved_by_one_has_changed() -> None:
    """However large a count is, another one is a change, as far as floats tell them apart."""
    items = made_items(rows=1).assign(yes=10**12)
    assert stats.compare(items, items.assign(yes=10**12 + 1))["n_items_changed"].tolist() == [1]
