"""Standard errors and intervals of a ratio of sums over clusters, one value per group."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from casekit.stats.frames import EDGE

__all__ = ["FEW_CASES", "Ratio", "linearised", "t_quantile", "wilson"]

Floats = NDArray[np.float64]

FEW_CASES = 10  # clusters; below it an interval is flagged
NOTHING = 1e-13  # relative size below which a residual is rounding, not variation


@dataclass(frozen=True)
class Ratio:
    """A pooled ratio Σy / Σx with its linearised variance, per group; NaN where undefined.

    ``n_eff`` is the effective number of corrections, capped; ``deff`` uses it uncapped.
    """

    rate: Floats
    se: Floats
    n_eff: Floats
    deff: Floats


def linearised(y: Floats, x: Floats, e2: Floats, x2: Floats, m: Floats, n: Floats) -> Ratio:
    """Linearised variance of Σy / Σx over m clusters (Cochran 1977, ch. 6).

    v = m / (m - 1) · Σ (y_c - R·x_c)² / (Σ x_c)². With 0 < R < 1, n_eff = min(R (1 - R) / v, n), and n where
    v is 0; with R at 0 or 1 each cluster is one vote: n_eff = m.

    Parameters
    ----------
    y, x, e2, x2, m, n
        Per group: Σy, Σx, Σ (y - R·x)², Σx², clusters with x > 0, and the corrections behind them; the sums of
        squares as `group_moments` has them.
    """
    whole = np.frexp(x)[0]  # in the unit of the squares
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(x > 0, y / x, np.nan)
        rate = np.where(rate < EDGE, 0.0, np.where(rate > 1 - EDGE, 1.0, rate))
        edge = (rate == 0) | (rate == 1)
        flat = edge | (e2 <= NOTHING * NOTHING * x2)
        v = np.where(flat, 0.0, m / (m - 1) * e2 / (whole * whole))
        v = np.where(m >= 2, v, np.nan)
        raw = rate * (1 - rate) / v
        n_eff = np.where(edge, m, np.where(v == 0, n, np.minimum(raw, n)))
        deff = np.where(edge, np.nan, n * v / (rate * (1 - rate)))
    alone = ~(m >= 2)
    return Ratio(rate, np.sqrt(v), np.where(alone, np.nan, n_eff), np.where(alone, np.nan, deff))


def t_quantile(df: Floats, level: float) -> Floats:
    """Two-sided Student t quantile; NaN where there is no degree of freedom."""
    with np.errstate(invalid="ignore"):
        return np.asarray(stats.t.isf((1 - level) / 2, np.where(df >= 1, df, np.nan)), dtype=np.float64)


def wilson(rate: Floats, n: Floats, z: Floats) -> tuple[Floats, Floats]:
    """Wilson's score interval of a share, with z a normal or a t quantile.

    Exact at the edges: [0, z² / (n + z²)] at rate 0 and [n / (n + z²), 1] at rate 1. NaN where n is not above 0.

    References
    ----------
    .. [1] Brown, Cai, DasGupta (2001), "Interval Estimation for a Binomial Proportion", Statistical Science
       16(2), doi:10.1214/ss/1009213286.
    """
    n = np.where(n > 0, n, np.nan)
    with np.errstate(invalid="ignore"):
        z2 = z * z
        centre = (rate + z2 / (2 * n)) / (1 + z2 / n)
        half = z / (1 + z2 / n) * np.sqrt(rate * (1 - rate) / n + z2 / (4 * n * n))
        low = np.where(rate == 0, 0.0, np.where(rate == 1, n / (n + z2), centre - half))
        high = np.where(rate == 1, 1.0, np.where(rate == 0, z2 / (n + z2), centre + half))
        known = ~np.isnan(centre)
        low = np.where(known, np.clip(np.minimum(low, rate), 0, 1), np.nan)
        high = np.where(known, np.clip(np.maximum(high, rate), 0, 1), np.nan)
    return low, high
