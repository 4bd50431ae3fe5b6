"""The rehearsal of a promotion rule."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from casekit.stats import gate, yes_rates


def checks(frame: pd.DataFrame) -> dict[str, Any]:
    """Take the rows by name."""
    return {line["check"]: line for _, line in frame.iterrows()}


def test_each_condition_and_the_verdict(t1: pd.DataFrame) -> None:
    """Each condition asked for has a row with its value, and the verdict is all of them."""
    found = checks(gate(t1, t1, min_cases=8, min_weight=40, min_candidate=0.61, max_drop=0.0, seed=1))
    assert list(found) == [
        "min_cases",
        "baseline_min_cases",
        "min_weight",
        "baseline_min_weight",
        "min_candidate",
        "max_drop",
        "verdict",
    ]
    assert found["min_cases"][["value", "limit", "passed"]].tolist() == [8, 8, True]
    assert found["min_weight"][["value", "limit", "passed"]].tolist() == [40, 40, True]
    assert found["min_candidate"]["value"] == pytest.approx(yes_rates(t1)["rate"][0])
    assert not found["min_candidate"]["passed"]
    assert found["max_drop"][["value", "passed"]].tolist() == [0, True]
    assert not found["verdict"]["passed"]


def test_baseline_evidence_is_asked_with_max_drop_alone(t1: pd.DataFrame) -> None:
    """Without max_drop nothing is asked of the baseline."""
    assert list(checks(gate(t1.iloc[:0], t1, min_cases=8))) == ["min_cases", "verdict"]
    found = checks(gate(t1.iloc[:0], t1, min_cases=8, max_drop=0.5))
    assert not found["baseline_min_cases"]["passed"]
    assert np.isnan(found["max_drop"]["value"])
    assert not found["max_drop"]["passed"]


def test_the_limit_itself_passes_within_rounding() -> None:
    """A value a rounding error below the limit passes, one clearly below does not."""
    items = pd.DataFrame({"case_id": [f"c{i}" for i in range(10)], "key": "a", "yes": 1, "no": 0})
    items = items.assign(yes_weight=[0.1] * 7 + [0.0] * 3, total_weight=0.1)
    assert gate(items, items, min_candidate=0.7)["passed"].tolist() == [True, True]
    assert gate(items, items, min_candidate=0.7 + 1e-8)["passed"].tolist() == [False, False]


def test_pass_shares_say_how_sure_a_verdict_is(t1: pd.DataFrame) -> None:
    """A limit at the rate itself is a coin's, a low one is safe; a seed gives the same shares, rows in any order."""
    found = gate(t1, t1, min_candidate=0.6, seed=3)
    assert 0.3 < found["pass_share"][0] < 0.8
    assert gate(t1, t1, min_candidate=0.1, seed=3)["pass_share"].tolist()[0] > 0.99
    mixed = t1.sample(frac=1, random_state=1)
    pd.testing.assert_frame_equal(gate(mixed, t1, min_candidate=0.6, seed=3), found)


def test_paired_versions_never_drop_by_chance(t1: pd.DataFrame) -> None:
    """The same runs on both sides are drawn together: no drop in any resample."""
    found = checks(gate(t1, t1, max_drop=0.0, seed=1))
    assert found["max_drop"]["pass_share"] == 1


def test_no_evidence_fails(t1: pd.DataFrame) -> None:
    """Nothing to go by: no condition is met, and there is nothing to draw from."""
    found = gate(t1.iloc[:0], t1.iloc[:0], min_cases=0, min_candidate=0.0)
    assert found["passed"].tolist() == [True, False, False]
    assert found["pass_share"].isna().all()
    assert found["few_cases"].all()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({}, "at least one condition"),
        ({"min_candidate": 1.5}, r"min_candidate=1.5 must be in \[0, 1\]"),
        ({"max_drop": -0.1}, "max_drop=-0.1 must be 0 or more"),
        ({"min_weight": float("nan")}, "min_weight=nan must be 0 or more"),
        ({"min_cases": 1, "n_resamples": 0}, "n_resamples=0 must be a whole number from 1"),
        ({"min_cases": 1, "weights": "all"}, "weights='all' is not known"),
    ],
)
def test_bad_arguments_are_refused(wrong: dict[str, Any], message: str, t1: pd.DataFrame) -> None:
    """An argument that cannot be used is refused in a sentence that says what can."""
    with pytest.raises(ValueError, match=message):
        gate(t1, t1, **wrong)
