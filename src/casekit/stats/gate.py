"""A promotion rule tried out on data: what it decides, and how far that decision is luck of the draw."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from narwhals.typing import IntoFrame
from numpy.typing import NDArray

from casekit.stats.clusters import Clusters, finite
from casekit.stats.comparison import pair_sides
from casekit.stats.frames import TEXT, Weights, check_seed, check_whole, quoted
from casekit.stats.intervals import FEW_CASES

__all__ = ["gate"]

Floats = NDArray[np.float64]

LARGEST = sys.float_info.max
EPSILON = 1e-9  # room for float rounding, as the server has it
BATCH = 4_000_000  # numbers drawn at a time, so that memory stays bounded


@dataclass(frozen=True)
class Evidence:
    """Yes rate, weight and cases of one side: one value, or one per resample; NaN where undefined or too large."""

    rate: Floats
    weight: Floats
    m: Floats


@dataclass(frozen=True)
class Check:
    """One condition of the rule: its value must reach the limit."""

    name: str
    value: Floats
    limit: float

    @property
    def passed(self) -> NDArray[np.bool_]:
        """Whether it holds; a value that is not there does not reach any limit."""
        reached: NDArray[np.bool_] = self.value + EPSILON >= self.limit
        return reached


def gate(
    before: IntoFrame,
    after: IntoFrame,
    *,
    min_cases: int | None = None,
    min_weight: float | None = None,
    min_candidate: float | None = None,
    max_drop: float | None = None,
    weights: Weights = "recorded",
    n_resamples: int = 2000,
    seed: int | None = None,
) -> pd.DataFrame:
    """Rehearse a promotion rule on the weighted yes share: its verdict, and how often it would pass on such data.

    Parameters
    ----------
    before, after
        Items of the version that is live (the baseline) and of the candidate, as in ``CaseSet.items``, in any engine
        that `yes_rates` takes. Not changed.
    min_cases
        Least number of cases with weight; asked of the baseline too when ``max_drop`` is given.
    min_weight
        Least sum of weights; asked of the baseline too when ``max_drop`` is given.
    min_candidate
        Least yes rate of the candidate, in [0, 1].
    max_drop
        Most that the candidate's yes rate may lie below the baseline's, 0 or more.
    weights
        ``"recorded"``, ``"expert"`` or ``"count"``, as for `yes_rates`.
    n_resamples
        Number of times the runs are drawn again, with replacement, from those with weight in either version.
    seed
        Seed of the draws; ``None`` draws afresh.

    Returns
    -------
    pd.DataFrame
        One row per condition asked for, and last ``verdict``, which passes when all do:

        - ``check`` name: ``min_cases``, ``min_weight``, ``baseline_min_cases``, ``baseline_min_weight``,
          ``min_candidate``, ``max_drop``, ``verdict``.
        - ``value`` what the data have (for max_drop: candidate less baseline) and ``limit`` what it must reach, within
          1e-9; NaN for the verdict, and a value is NaN without weight, and where weights are too large to add up.
        - ``passed`` whether it does; a missing value never does.
        - ``pass_share`` share of the resamples that pass, in [0, 1]; NaN without a run to draw. Near 0 or 1 the verdict
          would hold on other runs of the same kind; near 0.5 it is a coin's.
        - ``n_cases`` runs drawn from; ``few_cases`` whether they are fewer than 10, too few to trust the share;
          ``n_resamples``, ``weights``.

    Raises
    ------
    KeyError
        A needed column is missing.
    ValueError
        No condition is given, an argument is out of range, or an item's weights contradict each other.

    Notes
    -----
    The server checks more before it promotes (that the comparison is whole, recent, of the very version, approved):
    this is the part that the figures decide.

    Examples
    --------
    >>> items = pd.DataFrame({"case_id": [f"c{i}" for i in range(12)], "key": "a", "yes": 1, "no": 0,
    ...     "yes_weight": 1.0, "total_weight": 1.0})
    >>> gate(items, items, min_cases=10, max_drop=0.02, seed=1)[["check", "value", "limit", "passed"]]
                    check  value  limit  passed
    0           min_cases   12.0  10.00    True
    1  baseline_min_cases   12.0  10.00    True
    2            max_drop    0.0  -0.02    True
    3             verdict    NaN    NaN    True
    """
    limits = {"min_cases": min_cases, "min_weight": min_weight, "min_candidate": min_candidate, "max_drop": max_drop}
    asked = {name: _limit(name, limit) for name, limit in limits.items() if limit is not None}
    if not asked:
        raise ValueError(f"A rule needs at least one condition: give one of {', '.join(limits)}.")
    check_whole("n_resamples", n_resamples)
    check_seed(seed)
    clusters = pair_sides(before, after, [], weights)
    runs = _runs(clusters)
    whole = _checks(*_evidence(runs, np.ones((1, runs.shape[1]))), asked)
    names = [check.name for check in whole]
    passed = np.array([bool(check.passed[0]) for check in whole])
    shares = _pass_shares(runs, asked, n_resamples, np.random.default_rng(seed))
    m = runs.shape[1]
    rows: dict[str, Any] = {
        "check": pd.Series([*names, "verdict"], dtype=TEXT),
        "value": [*(float(check.value[0]) for check in whole), np.nan],
        "limit": [*(check.limit for check in whole), np.nan],
        "passed": [*passed, bool(passed.all())],
        "pass_share": shares,
        "n_cases": m,
        "few_cases": m < FEW_CASES,
        "n_resamples": n_resamples,
    }
    return pd.DataFrame(rows).assign(weights=pd.Series(weights, index=range(len(names) + 1), dtype=TEXT))


def _limit(name: str, limit: float) -> float:
    """Refuse what is no limit."""
    share = name == "min_candidate"
    if isinstance(limit, bool) or not isinstance(limit, Real) or not 0 <= limit <= (1 if share else LARGEST):
        raise ValueError(f"{name}={quoted(limit)} must be {'in [0, 1]' if share else '0 or more'}.")
    return float(limit)


def _runs(clusters: Clusters) -> Floats:
    """Sums of the runs with weight, one column each; in an order that the rows' order has no part in."""
    sums = clusters.sums
    table = np.array([sums[name] for name in ("y_before", "x_before", "y_after", "x_after")])
    table = table[:, (table[1] > 0) | (table[3] > 0)]
    return table[:, np.lexsort(table)]


def _evidence(runs: Floats, draws: Floats) -> tuple[Evidence, Evidence]:
    """What drawn runs show of the version before, and of the one after."""
    units = np.frexp(runs[1::2].max(axis=1, initial=0.0))[1]  # drawn often, a large weight must not overflow
    y_before, x_before, y_after, x_after = np.ldexp(runs, -np.repeat(units, 2)[:, np.newaxis])
    return _side(y_before, x_before, draws, units[0]), _side(y_after, x_after, draws, units[1])


def _side(y: Floats, x: Floats, draws: Floats, unit: int) -> Evidence:
    yes, total = draws @ y, draws @ x
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        rate = np.where(total > 0, yes / total, np.nan)
        return Evidence(rate, finite(np.ldexp(total, unit)), draws @ (x > 0).astype(np.float64))


def _checks(before: Evidence, after: Evidence, asked: dict[str, float]) -> list[Check]:
    values = {
        "min_cases": (after.m, before.m),
        "min_weight": (after.weight, before.weight),
        "min_candidate": (after.rate, None),
        "max_drop": (after.rate - before.rate, None),
    }
    checks = []
    for name, limit in asked.items():
        value, baseline_value = values[name]
        checks.append(Check(name, value, -limit if name == "max_drop" else limit))
        # "No drop" from a baseline of two cases says nothing: its evidence is asked for as well.
        if baseline_value is not None and "max_drop" in asked:
            checks.append(Check(f"baseline_{name}", baseline_value, limit))
    return checks


def _pass_shares(runs: Floats, asked: dict[str, float], n_resamples: int, rng: np.random.Generator) -> Floats:
    m = runs.shape[1]
    if m == 0:
        return np.full(len(_checks(*_evidence(runs, np.ones((1, 0))), asked)) + 1, np.nan)
    counts: list[Floats] = []
    for size in _batches(n_resamples, max(1, BATCH // m)):
        draws = rng.multinomial(m, np.full(m, 1 / m), size=size).astype(np.float64)
        passed = np.array([check.passed for check in _checks(*_evidence(runs, draws), asked)])
        counts.append(np.append(passed.sum(axis=1), passed.all(axis=0).sum()).astype(np.float64))
    return np.asarray(np.sum(counts, axis=0) / n_resamples, dtype=np.float64)


def _batches(total: int, size: int) -> Iterator[int]:
    for start in range(0, total, size):
        yield min(size, total - start)
