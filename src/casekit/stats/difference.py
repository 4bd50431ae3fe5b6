"""The difference of two pooled ratios whose clusters may be the same, in part the same, or none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from casekit.stats.clusters import Clusters, moments_of
from casekit.stats.frames import TOO_LARGE
from casekit.stats.intervals import NOTHING, Ratio, linearised, t_quantile, wilson

__all__ = ["Difference", "difference"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """Both ratios with their intervals and the second less the first, one value per group.

    ``method`` is "paired", "welch" or "mover" where there is an interval, else missing; ``reason`` why there is none.
    """

    first: Ratio
    first_low: Floats
    first_high: Floats
    second: Ratio
    second_low: Floats
    second_high: Floats
    value: Floats
    se: Floats
    low: Floats
    high: Floats
    df: Floats
    p: Floats
    n_clusters: Floats
    n_common: Floats
    method: list[str | None]
    reason: list[str | None]


def difference(
    clusters: Clusters, first: tuple[str, str, str], second: tuple[str, str, str], *, level: float
) -> Difference:
    """Compare R_B = Σy_B / Σx_B with R_A = Σy_A / Σx_A, runs being clusters.

    Over the M clusters with weight on either side, sums 0 where absent: u_c = (y_B - R_B·x_B) / X_B - (y_A - R_A·x_A) /
    X_A, v = M / (M - 1) · Σ u_c², Student's t at M - 1. Without a common cluster v = v_A + v_B with Welch's degrees of
    freedom. Where v is 0 and one side is at 0 or 1: MOVER on the two intervals.

    Parameters
    ----------
    clusters
        Sums per cluster.
    first, second
        Names of the sums y, x, and of the corrections behind them, of A and of B.
    level
        Confidence of the intervals.

    References
    ----------
    .. [1] Cochran (1977), "Sampling Techniques", 3rd ed., chapter 6.
    .. [2] Zou, Donner (2008), "Construction of confidence limits about effect measures", Statistics in Medicine 27(10),
       doi:10.1002/sim.3095.
    """
    total, sums, code = clusters.total, clusters.sums, clusters.code
    (ya, xa, na), (yb, xb, nb) = first, second
    got = moments_of(clusters, {"a": (ya, xa), "b": (yb, xb)})
    a = linearised(got[ya], got[xa], got["a_e2"], got["a_x2"], got["a_m"], got[na])
    b = linearised(got[yb], got[xb], got["b_e2"], got["b_x2"], got["b_m"], got[nb])
    a_low, a_high = wilson(a.rate, a.n_eff, t_quantile(got["a_m"] - 1, level))
    b_low, b_high = wilson(b.rate, b.n_eff, t_quantile(got["b_m"] - 1, level))
    in_a, in_b = sums[xa] > 0, sums[xb] > 0
    m = total((in_a | in_b).astype(np.float64))
    common = total((in_a & in_b).astype(np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        off_a = np.where(in_a, (sums[ya] - a.rate[code] * sums[xa]) / got[xa][code], 0.0)
        off_b = np.where(in_b, (sums[yb] - b.rate[code] * sums[xb]) / got[xb][code], 0.0)
        scale = got["a_x2"] / np.frexp(got[xa])[0] ** 2 + got["b_x2"] / np.frexp(got[xb])[0] ** 2
        spread = total((off_b - off_a) ** 2)
        paired = np.where(spread <= NOTHING * NOTHING * scale, 0.0, m / (m - 1) * spread)
        va, vb = a.se**2, b.se**2
        welch_df = (va + vb) ** 2 / (va**2 / (got["a_m"] - 1) + vb**2 / (got["b_m"] - 1))
        value = b.rate - a.rate
        v = np.where(common > 0, np.where(m >= 2, paired, np.nan), va + vb)
        df = np.where(common > 0, m - 1, welch_df)
        se = np.sqrt(v)
        moved = v > 0
        half = np.where(moved, t_quantile(np.where(moved, df, np.nan), level) * se, np.nan)
        p = np.where(moved, 2 * stats.t.sf(np.abs(value) / se, df), np.nan)
        mover_low = value - np.sqrt((b.rate - b_low) ** 2 + (a_high - a.rate) ** 2)
        mover_high = value + np.sqrt((b_high - b.rate) ** 2 + (a.rate - a_low) ** 2)
    differs = total(((sums[ya] != sums[yb]) | (sums[xa] != sums[xb])).astype(np.float64))
    edge = np.isin(a.rate, (0.0, 1.0)) | np.isin(b.rate, (0.0, 1.0))
    mover = (v == 0) & (differs > 0) & edge & ~np.isnan(mover_low) & ~np.isnan(mover_high)
    method: list[str | None] = []
    reason: list[str | None] = []
    for i in range(len(value)):
        method.append("mover" if mover[i] else None if not moved[i] else "paired" if common[i] else "welch")
        if method[-1] is not None:
            reason.append(None)
        elif np.isnan(got[xa][i]) or np.isnan(got[xb][i]):
            reason.append(TOO_LARGE)
        elif np.isnan(value[i]):
            lacks = [name for name, x in (("first", got[xa][i]), ("second", got[xb][i])) if not x > 0]
            reason.append(f"no weight on {' and '.join(lacks)} side")
        elif np.isnan(v[i]):
            reason.append("one case")
        else:
            reason.append("identical" if differs[i] == 0 else "no variation between cases")
    low = np.where(mover, mover_low, value - half)
    high = np.where(mover, mover_high, value + half)
    return Difference(
        first=a,
        first_low=a_low,
        first_high=a_high,
        second=b,
        second_low=b_low,
        second_high=b_high,
        value=value,
        se=se,
        low=np.clip(low, -1.0, 1.0),
        high=np.clip(high, -1.0, 1.0),
        df=np.where(moved, df, np.nan),
        p=p,
        n_clusters=m,
        n_common=common,
        method=method,
        reason=reason,
    )
