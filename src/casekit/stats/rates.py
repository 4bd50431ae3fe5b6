"""How often people said yes: the pooled weighted share of "yes", with its interval."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import pandas as pd
from narwhals.typing import IntoFrame
from numpy.typing import NDArray

from casekit.stats.clusters import Clusters, Moments, collect_clusters, group_moments, moments_of
from casekit.stats.frames import (
    TEXT,
    TOO_LARGE,
    By,
    Weights,
    check_choice,
    check_level,
    check_seed,
    check_whole,
    group_names,
    whole_numbers,
)
from casekit.stats.intervals import FEW_CASES, linearised, t_quantile, wilson
from casekit.stats.resampling import bootstrap_ratio, jackknife_ratio
from casekit.stats.weights import MEASURES, open_items, refuse_contradictions

__all__ = ["yes_rates"]

Floats: TypeAlias = NDArray[np.float64]
Method: TypeAlias = Literal["wilson", "wald", "jackknife", "bootstrap"]
METHODS = ("wilson", "wald", "jackknife", "bootstrap")
RATIO = {"r": ("y", "x")}
FLAT = "no variation between cases"
COLUMNS = (
    "rate",
    "low",
    "high",
    "se",
    "n_cases",
    "n_items",
    "n_corrections",
    "weight",
    "n_eff",
    "deff",
    "few_cases",
    "n_zero_weight",
    "n_unknown_expert",
    "weights",
    "method",
    "level",
    "reason",
)


def yes_rates(
    items: IntoFrame,
    *,
    by: By = None,
    weights: Weights = "recorded",
    method: Method = "wilson",
    level: float = 0.95,
    seed: int | None = None,
    n_resamples: int = 2000,
) -> pd.DataFrame:
    """Weighted share of "yes" among the corrections of items, with an interval that knows runs.

    rate R = Σ yes weight / Σ total weight, pooled over the items of a group. Corrections of one run are not
    independent, so the standard error comes from sums per run: v = m / (m - 1) · Σ (y_c - R·x_c)² / X² over the
    m runs with weight, se = √v.

    Parameters
    ----------
    items
        One row per item, as in ``CaseSet.items``: pandas, polars (eager or lazy), Arrow table, DuckDB relation or
        PySpark frame. Needs ``case_id``, ``yes``, ``no`` and the weight columns. Runs are told apart by ``run_id``,
        or by ``case_id`` where that column or value is missing; a run in several versions is one cluster. Not
        changed.
    by
        Column or columns to group by; ``None`` makes one row. A missing key is a group of its own.
    weights
        ``"recorded"``: every correction at its weight. ``"expert"``: experts' corrections alone; an item whose expert
        weights are missing is unknown, left out and counted. ``"count"``: each verdict once.
    method
        ``"wilson"``: Wilson's score interval at the effective number of corrections, with Student's t at m - 1
        degrees of freedom. ``"wald"``: R ± t·se, which may leave [0, 1]. ``"jackknife"``: R ± t·se, se by leaving out
        one run at a time. ``"bootstrap"``: percentiles over resampled runs, from 10 runs on.
    level
        Confidence of the interval, in (0, 1).
    seed
        Seed of the bootstrap; ``None`` draws a fresh one.
    n_resamples
        Number of bootstrap resamples.

    Returns
    -------
    pd.DataFrame
        One row per group, sorted by the ``by`` columns, missing keys last; then:

        - ``rate`` in [0, 1]; ``low``, ``high`` its interval; ``se`` its standard error. NaN where undefined: no weight,
          or for ``se`` and interval a single run. ``reason`` then says why.
        - ``n_cases`` runs with weight (m); ``n_items`` items with weight; ``n_corrections`` corrections of those
          items. With ``"expert"`` they are the experts' alone, an item without correction ids counted as one.
        - ``weight`` Σ total weight; ``n_eff`` effective number of corrections, R (1 - R) / v, at most
          ``n_corrections``, and m where R is 0 or 1; ``deff`` design effect n_corrections · v / (R (1 - R)), uncapped.
        - ``few_cases`` whether m < 10.
        - ``n_zero_weight`` items left out because nobody's weight is on them; ``n_unknown_expert`` items whose expert
          weights are missing (left out with ``"expert"`` alone). With ``"expert"`` n_items + n_zero_weight +
          n_unknown_expert is the group's number of items, else n_items + n_zero_weight is.
        - ``weights``, ``method``, ``level`` as asked; ``reason`` why a number is missing or an interval has no width.

    Raises
    ------
    KeyError
        A needed column is missing.
    ValueError
        An argument is not known or out of range, or an item's weights contradict each other.

    Notes
    -----
    Erased cases have no items; count them on ``CaseSet.cases``. Sums are exact for weights that are multiples of a
    power of two (whole numbers, halves); otherwise rows in another order change results by less than 1e-12. Weights
    may be of any size; where they add up to more than a float holds (1.8e308), what rests on the sum is NaN. A count
    above 2**53 is taken at the nearest float, and a number of corrections is missing from 2**63 on.
    The interval covers sampling of runs alone: which runs get corrected is not random.

    References
    ----------
    .. [1] Cochran (1977), "Sampling Techniques", 3rd ed., chapter 6.
    .. [2] Franco, Little, Louis, Slud (2019), "Comparative Study of Confidence Intervals for Proportions in Complex
       Sample Surveys", J. Survey Statistics and Methodology 7(3), doi:10.1093/jssam/smy019.
    .. [3] Korn, Graubard (1998), "Confidence intervals for proportions with small expected number of positive
       counts", Survey Methodology 24(2).

    Examples
    --------
    >>> items = pd.DataFrame({"case_id": ["c1", "c1", "c2", "c3"], "yes": [2, 0, 1, 1], "no": [0, 1, 1, 0],
    ...                       "yes_weight": [4.0, 0.0, 1.0, 3.0], "total_weight": [4.0, 1.0, 4.0, 3.0]})
    >>> yes_rates(items)[["rate", "low", "high", "n_cases"]].round(3)
        rate    low   high  n_cases
    0  0.667  0.098  0.974        3
    """
    check_choice("method", method, METHODS)
    check_level(level)
    check_seed(seed)
    check_whole("n_resamples", n_resamples)
    names = group_names(by, taken=COLUMNS)
    opened = open_items(items, weights=weights, columns=names)
    clusters: Clusters | None = None
    if method in ("jackknife", "bootstrap"):
        clusters = collect_clusters(opened, names, MEASURES)
        got = moments_of(clusters, RATIO)
    else:
        got = group_moments(opened, names, MEASURES, RATIO)
    refuse_contradictions(items, opened, float(got["bad"].sum()))
    ratio = linearised(got["y"], got["x"], got["r_e2"], got["r_x2"], got["r_m"], got["n"])
    m = got["r_m"]
    t = t_quantile(m - 1, level)
    se, reasons = ratio.se, _reasons(got, weights)
    if clusters is not None:
        rng = np.random.default_rng(seed)
        se, low, high = _resample(clusters, ratio.rate, t, method, level, n_resamples, rng, reasons)
    elif method == "wilson":
        low, high = wilson(ratio.rate, ratio.n_eff, t)
    else:
        low, high = ratio.rate - t * se, ratio.rate + t * se
    if method != "wilson":
        reasons = [r or (FLAT if s == 0 else None) for r, s in zip(reasons, se, strict=True)]
    whole = got["rows"] - got["items"]
    return got.groups.assign(
        rate=ratio.rate,
        low=low,
        high=high,
        se=se,
        n_cases=m.astype(np.int64),
        n_items=got["items"].astype(np.int64),
        n_corrections=whole_numbers(got["n"]),
        weight=got["x"],
        n_eff=ratio.n_eff,
        deff=ratio.deff,
        few_cases=m < FEW_CASES,
        n_zero_weight=(whole - (got["unknown"] if weights == "expert" else 0)).astype(np.int64),
        n_unknown_expert=got["unknown"].astype(np.int64),
        weights=pd.Series(weights, index=got.groups.index, dtype=TEXT),
        method=pd.Series(method, index=got.groups.index, dtype=TEXT),
        level=float(level),
        reason=pd.Series(reasons, index=got.groups.index, dtype=TEXT),
    )


def _reasons(got: Moments, weights: Weights) -> list[str | None]:
    """Why a rate or its interval is missing, per group."""
    reasons: list[str | None] = []
    for rows, unknown, m, x in zip(got["rows"], got["unknown"], got["r_m"], got["x"], strict=True):
        if rows == 0:
            reasons.append("no items")
        elif m == 0:
            reasons.append("expert weights unknown" if weights == "expert" and unknown == rows else "no weight")
        elif np.isnan(x):
            reasons.append(TOO_LARGE)
        else:
            reasons.append("one case" if m == 1 else None)
    return reasons


def _resample(
    clusters: Clusters,
    rate: Floats,
    t: Floats,
    method: Method,
    level: float,
    n_resamples: int,
    rng: np.random.Generator,
    reasons: list[str | None],
) -> tuple[Floats, Floats, Floats]:
    """Find standard error and interval per group by leaving out or drawing runs; fill in ``reasons``."""
    se, low, high = (np.full(len(rate), np.nan) for _ in range(3))
    for group, y, x in clusters.each("y", "x"):
        if reasons[group]:
            continue
        if method == "jackknife":
            se[group] = jackknife_ratio(y, x)
            low[group], high[group] = rate[group] - t[group] * se[group], rate[group] + t[group] * se[group]
            if np.isnan(se[group]):
                reasons[group] = "one case outweighs all others"
        elif len(x) < FEW_CASES:
            reasons[group] = f"fewer than {FEW_CASES} cases: too few to resample"
        elif rate[group] in (0.0, 1.0):
            reasons[group] = FLAT
        else:
            spread, *ends = bootstrap_ratio(y, x, level=level, n_resamples=n_resamples, rng=rng)
            if spread > 0 and ends[1] > ends[0]:
                se[group], (low[group], high[group]) = spread, ends
            else:
                reasons[group] = FLAT
    return se, low, high
