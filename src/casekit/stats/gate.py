"""A promotion rule tried out on data: what it decides, and how far that decision is luck of the draw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from narwhals.typing import IntoFrame
from numpy.typing import NDArray

from casekit.stats.clusters import Clusters
from casekit.stats.comparison import pair_sides
from casekit.stats.frames import TEXT, Weights
from casekit.stats.intervals import FEW_CASES

__all__ = ["gate"]

Floats = NDArray[np.float64]

EPSILON = 1e-9  # room for float rounding, as the server has it
BATCH = 4_000_000  # numbers drawn at a time, so that memory stays bounded


@dataclass(frozen=True)
class Evidence:
    """Yes weight, total weight and cases of each side: one value, or one per resample."""

    y_before: Floats
    x_before: Floats
    m_before: Floats
    y_after: Floats
    x_after: Floats
    m_after: Floats


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
          1e-9; NaN for the verdict, and a value is NaN without weight.
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
    asked = {name: float(limit) for name, limit in limits.items() if limit is not None}
    if not asked:
        raise ValueError(f"A rule needs at least one condition: give one of {', '.join(limits)}.")
    for name, limit in asked.items():
        if not 0 <= limit < np.inf or (name == "min_candidate" and limit > 1):
            raise ValueError(f"{name}={limit!r} must be {'in [0, 1]' if name == 'min_candidate' else '0 or more'}.")
    if n_resamples < 1:
        raise ValueError(f"n_resamples={n_resamples!r} must be at least 1.")
    clusters = pair_sides(before, after, [], weights)
    runs = _runs(clusters)
    whole = _checks(_evidence(runs, np.ones((1, runs.shape[1]))), asked)
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


def _runs(clusters: Clusters) -> Floats:
    """Sums of the runs with weight, one column each; in an order that the rows' order has no part in."""
    sums = clusters.sums
    table = np.array([sums[name] for name in ("y_before", "x_before", "y_after", "x_after")])
    table = table[:, (table[1] > 0) | (table[3] > 0)]
    return table[:, np.lexsort(table)]


def _evidence(runs: Floats, draws: Floats) -> Evidence:
    y_before, x_before, y_after, x_after = runs
    return Evidence(
        y_before=draws @ y_before,
        x_before=draws @ x_before,
        m_before=draws @ (x_before > 0).astype(np.float64),
        y_after=draws @ y_after,
        x_after=draws @ x_after,
        m_after=draws @ (x_after > 0).astype(np.float64),
    )


def _checks(found: Evidence, asked: dict[str, float]) -> list[Check]:
    with np.errstate(divide="ignore", invalid="ignore"):
        baseline = np.where(found.x_before > 0, found.y_before / found.x_before, np.nan)
        candidate = np.where(found.x_after > 0, found.y_after / found.x_after, np.nan)
    values = {
        "min_cases": (found.m_after, found.m_before),
        "min_weight": (found.x_after, found.x_before),
        "min_candidate": (candidate, None),
        "max_drop": (candidate - baseline, None),
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
        return np.full(len(_checks(_evidence(runs, np.ones((1, 0))), asked)) + 1, np.nan)
    counts: list[Floats] = []
    for size in _batches(n_resamples, max(1, BATCH // m)):
        draws = rng.multinomial(m, np.full(m, 1 / m), size=size).astype(np.float64)
        passed = np.array([check.passed for check in _checks(_evidence(runs, draws), asked)])
        counts.append(np.append(passed.sum(axis=1), passed.all(axis=0).sum()).astype(np.float64))
    return np.asarray(np.sum(counts, axis=0) / n_resamples, dtype=np.float64)


def _batches(total: int, size: int) -> Iterator[int]:
    for start in range(0, total, size):
        yield min(size, total - start)
