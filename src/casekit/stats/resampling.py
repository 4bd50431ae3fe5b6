"""Standard errors of a pooled ratio by leaving clusters out or drawing them again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from casekit.stats.clusters import Clusters, scaled

__all__ = ["bootstrap_ratio", "jackknife_ratio", "leave_one_out"]

Floats = NDArray[np.float64]
BATCH = 4_000_000  # numbers drawn at a time, so that memory stays bounded
ROUNDING = 1e-14  # an estimate that moves by less has not moved


def jackknife_ratio(y: Floats, x: Floats) -> float:
    """Find the standard error of Σy / Σx, leaving out one cluster at a time (JK1, centred at the full ratio).

    NaN where one cluster holds all the weight there is. For two clusters or more.
    """
    m = len(x)
    ratio = y.sum() / x.sum()
    rest = x.sum() - x
    if np.any(rest <= 0):
        return np.nan
    left = (y.sum() - y) / rest
    return float(np.sqrt((m - 1) / m * np.sum((left - ratio) ** 2)))


def bootstrap_ratio(
    y: Floats, x: Floats, *, level: float, n_resamples: int, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Find the standard error and percentile interval of Σy / Σx over resampled clusters.

    Clusters are put in order first, so that the draw does not depend on the order of rows.
    """
    y, x = (scaled(values, x.sum()) for values in (y, x))  # drawn often, a large weight must not overflow
    order = np.lexsort((y, x))
    result = stats.bootstrap(
        (y[order], x[order]),
        lambda a, b, axis: a.sum(axis=axis) / b.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=n_resamples,
        batch=max(1, BATCH // len(x)),
        confidence_level=level,
        method="percentile",
        random_state=rng,
    )
    interval = result.confidence_interval
    return float(result.standard_error), float(interval.low), float(interval.high)


def leave_one_out(
    clusters: Clusters,
    function: Callable[[dict[str, Floats]], dict[str, Floats]],
    whole: dict[str, Floats],
    *,
    kept: str,
) -> dict[str, Floats]:
    """Find jackknife standard errors of functions of sums, leaving out one cluster at a time (centred at the whole).

    SE = √((m - 1) / m · Σ (left out - whole)²) over the m clusters of a group whose sum ``kept`` is above 0; NaN for
    m < 2, and where the function is undefined without one of them.

    Parameters
    ----------
    clusters
        Sums per cluster.
    function
        From sums to estimates, elementwise.
    whole
        The estimates of each group, all clusters in.
    kept
        Name of the sum that says whether a cluster counts.
    """
    totals = {name: clusters.total(values) for name, values in clusters.sums.items()}
    in_use = clusters.sums[kept] > 0
    m = clusters.total(in_use.astype(np.float64))
    left = function({name: totals[name][clusters.code] - values for name, values in clusters.sums.items()})
    errors = {}
    for name, estimate in whole.items():
        off = np.where(in_use, left[name] - estimate[clusters.code], 0.0)
        off[np.abs(off) <= ROUNDING] = 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            errors[name] = np.where(m >= 2, np.sqrt((m - 1) / m * clusters.total(off * off)), np.nan)
    return errors
