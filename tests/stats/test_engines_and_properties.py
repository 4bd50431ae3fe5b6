"""What must hold whatever the items are, and in whatever engine."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from casekit.stats import agreement, expert_agreement, expert_weights, yes_rates

Engines = Callable[[pd.DataFrame], dict[str, Any]]

# Sums that are not exact may come in another order: this is what their rounding may amount to.
SAME = 1e-12

bounded = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def item_frames(draw: st.DrawFn, *, unknown: bool = True, least: int = 0) -> pd.DataFrame:
    """Draw items made of corrections, each with a verdict, a group's weight, and perhaps an expert."""
    rows = []
    for number in range(draw(st.integers(least, 14))):
        corrections = draw(
            st.lists(st.tuples(st.booleans(), st.sampled_from([0.0, 0.5, 1.0, 3.0]), st.booleans()), max_size=4)
        )
        yes = [c for c in corrections if c[0]]
        experts = [c for c in corrections if c[2]]
        known = not unknown or draw(st.integers(0, 5)) > 0
        row = {
            "case_id": f"c{draw(st.integers(0, 5))}",
            "item_no": number,
            "key": draw(st.sampled_from(["a", "b", None])),
        }
        row |= {"yes": len(yes), "no": len(corrections) - len(yes)}
        row |= {"yes_weight": sum(c[1] for c in yes), "total_weight": sum(c[1] for c in corrections)}
        row |= {"expert_yes_weight": sum(c[1] for c in experts if c[0]) if known else np.nan}
        rows.append(row | {"expert_total_weight": sum(c[1] for c in experts) if known else np.nan})
    names = ["case_id", "item_no", "key", "yes", "no", "yes_weight", "total_weight"]
    names += ["expert_yes_weight", "expert_total_weight"]
    text = pd.StringDtype(na_value=np.nan)
    kinds: dict[str, Any] = {"case_id": text, "key": text, "item_no": "int64", "yes": "int64", "no": "int64"}
    kinds |= dict.fromkeys(names[5:], "float64")
    return pd.DataFrame({name: [row[name] for row in rows] for name in names}).astype(kinds)


def assert_same(found: pd.DataFrame, expected: pd.DataFrame) -> None:
    """Compare two results but for rounding."""
    pd.testing.assert_frame_equal(found, expected, rtol=SAME, atol=SAME)


@given(items=item_frames(), weights=st.sampled_from(["recorded", "expert", "count"]))
@settings(bounded, max_examples=12)
def test_engines_agree(items: pd.DataFrame, weights: Any, engines: Engines) -> None:
    """Every engine gives the same numbers, by nothing, by one key and by two."""
    for by in (None, "key", ["key", "case_id"]):
        rates, shares = yes_rates(items, by=by, weights=weights), expert_weights(items, by=by)
        for native in engines(items).values():
            assert_same(yes_rates(native, by=by, weights=weights), rates)
            assert_same(expert_weights(native, by=by), shares)


@given(items=item_frames())
@settings(bounded, max_examples=12)
def test_engines_agree_on_agreement(items: pd.DataFrame, engines: Engines) -> None:
    """Every engine gives the same agreement, between corrections and between experts and others."""
    expected = agreement(items, by="key"), expert_agreement(items, by="key")
    for native in engines(items).values():
        pd.testing.assert_frame_equal(agreement(native, by="key"), expected[0], rtol=1e-9, atol=1e-9)
        pd.testing.assert_frame_equal(expert_agreement(native, by="key"), expected[1], rtol=1e-9, atol=1e-9)


@given(items=item_frames(), method=st.sampled_from(["wilson", "jackknife", "wald"]))
@bounded
def test_interval_holds_the_rate(items: pd.DataFrame, method: Any) -> None:
    """0 ≤ low ≤ rate ≤ high ≤ 1 for Wilson; for the others low ≤ rate ≤ high; missing all together or not at all."""
    rates = yes_rates(items, by="key", method=method)
    rates = rates[rates["low"].notna()]
    assert rates["high"].notna().all()
    assert (rates["low"] <= rates["rate"] + SAME).all()
    assert (rates["rate"] <= rates["high"] + SAME).all()
    if method == "wilson":
        assert ((rates["low"] >= 0) & (rates["low"] <= rates["rate"])).all()
        assert ((rates["high"] <= 1) & (rates["rate"] <= rates["high"])).all()


@given(items=item_frames(), factor=st.sampled_from([0.25, 3.0, 0.1, 1e6]))
@bounded
def test_scaling_all_weights_changes_no_rate(items: pd.DataFrame, factor: float) -> None:
    """Weights have no unit: multiplied all alike, every rate, error and share stays."""
    names = ["yes_weight", "total_weight", "expert_yes_weight", "expert_total_weight"]
    scaled = items.assign(**{name: items[name] * factor for name in names})
    assert_same(yes_rates(scaled, by="key").drop(columns="weight"), yes_rates(items, by="key").drop(columns="weight"))
    unitless = ["expert_share", "share_se", "effective_cases", "top_share", "hhi", "gini", "kish_low", "kish_high"]
    assert_same(expert_weights(scaled)[unitless], expert_weights(items)[unitless])


@given(items=item_frames(), seed=st.integers(0, 99))
@bounded
def test_order_of_rows_is_nothing(items: pd.DataFrame, seed: int) -> None:
    """Rows in another order give the same, resampling included."""
    mixed = items.sample(frac=1, random_state=seed)
    for method in ("wilson", "jackknife"):
        assert_same(yes_rates(mixed, by="key", method=method), yes_rates(items, by="key", method=method))
    assert_same(expert_weights(mixed, by="key"), expert_weights(items, by="key"))


@given(items=item_frames(least=1), cut=st.integers(0, 14), weights=st.sampled_from(["recorded", "expert", "count"]))
@bounded
def test_parts_add_up(items: pd.DataFrame, cut: int, weights: Any) -> None:
    """Split anywhere, the counts and weights of the parts add up to the whole's, and all items are accounted for."""
    additive = ["n_items", "n_corrections", "weight", "n_zero_weight", "n_unknown_expert"]
    whole = yes_rates(items, weights=weights).iloc[0]
    parts = [yes_rates(part, weights=weights).iloc[0] for part in (items.iloc[:cut], items.iloc[cut:])]
    for name in additive:
        assert parts[0][name] + parts[1][name] == pytest.approx(whole[name], abs=SAME)
    counted = whole["n_items"] + whole["n_zero_weight"] + (whole["n_unknown_expert"] if weights == "expert" else 0)
    assert counted == len(items)


@given(items=item_frames(), cut=st.integers(0, 14))
@bounded
def test_splitting_a_frame_and_putting_it_together_changes_nothing(items: pd.DataFrame, cut: int) -> None:
    """Items that come in two files are the same items."""
    again = pd.concat([items.iloc[cut:], items.iloc[:cut]])
    assert_same(yes_rates(again, by="key"), yes_rates(items, by="key"))


@given(items=item_frames(unknown=False))
@bounded
def test_everyone_is_experts_and_others(items: pd.DataFrame) -> None:
    """R = E·R_e + (1 - E)·R_o, and weights add up, in every group."""
    shares = expert_weights(items, by="key").set_index("key")
    sides = expert_agreement(items, by="key").set_index("key")
    rates = yes_rates(items, by="key").set_index("key")
    assert (shares["expert_weight"] + shares["other_weight"]).tolist() == pytest.approx(shares["weight"].tolist())
    share = shares["expert_share"]
    mixed = share * sides["expert_rate"].fillna(0) + (1 - share) * sides["other_rate"].fillna(0)
    assert mixed.tolist() == pytest.approx(rates["rate"].tolist(), abs=SAME, nan_ok=True)


@given(items=item_frames())
@bounded
def test_kish_bounds_are_in_order(items: pd.DataFrame) -> None:
    """The bounds of Kish's effective number are in order and at most the number of corrections."""
    shares = expert_weights(items, by="key").dropna(subset="kish_low")
    assert (shares["kish_low"] <= shares["kish_high"] + SAME).all()
    assert (shares["kish_high"] <= shares["n_corrections"]).all()
    assert ((shares["gini"] >= -SAME) & (shares["gini"] < 1)).all()
    assert ((shares["hhi"] > 0) & (shares["hhi"] <= 1 + SAME)).all()


@given(items=item_frames())
@bounded
def test_agreement_is_within_its_range(items: pd.DataFrame) -> None:
    """Shares of agreement are in [0, 1], coefficients at most 1, intervals around them."""
    found = agreement(items, by="key")
    for name in ("percent", "pairs", "ac1", "alpha", "fleiss", "brennan_prediger"):
        values = found[name].dropna()
        assert (values <= 1 + SAME).all()
        assert (values >= {"percent": 0, "pairs": 0, "fleiss": -np.inf}.get(name, -1) - SAME).all()
        held = found.dropna(subset=f"{name}_low")
        assert (held[f"{name}_low"] <= held[name] + SAME).all()
        assert (held[name] <= held[f"{name}_high"] + SAME).all()


def test_bootstrap_does_not_depend_on_order(t1: pd.DataFrame) -> None:
    """With a seed the bootstrap gives the same, rows in any order, and another interval with another seed."""
    many = pd.concat([t1.assign(case_id=t1["case_id"] + copy, run_id=None) for copy in "xyz"], ignore_index=True)
    found = yes_rates(many, method="bootstrap", seed=5)
    mixed = yes_rates(many.sample(frac=1, random_state=2), method="bootstrap", seed=5)
    pd.testing.assert_frame_equal(mixed, found)
    assert found["low"][0] < 0.6 < found["high"][0]
    assert found["se"][0] == pytest.approx(yes_rates(many)["se"][0], rel=0.15)
    assert yes_rates(many, method="bootstrap", seed=6)["low"][0] != found["low"][0]


def test_bootstrap_refuses_few_cases(t1: pd.DataFrame) -> None:
    """Below ten runs percentiles cover far too little: no interval, and the reason says so."""
    found = yes_rates(t1, method="bootstrap").iloc[0]
    assert found[["se", "low", "high"]].isna().all()
    assert found["reason"] == "fewer than 10 cases: too few to resample"
