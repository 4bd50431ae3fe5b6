"""Items' keys ranked by how often people said yes, with few-sample keys drawn towards the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoFrame
from numpy.typing import NDArray
from scipy import optimize, stats

from casekit.stats.clusters import Rows, cluster_of, collect_clusters
from casekit.stats.frames import TEXT, check_choice, check_column, check_level, group_names, whole_numbers
from casekit.stats.intervals import NOTHING
from casekit.stats.weights import MEASURES, open_items, refuse_contradictions

__all__ = ["rank_keys"]

Floats = NDArray[np.float64]

LEAST_KEYS = 5  # keys with two corrections that a prior needs
LEAST_CASES = 2  # cases that a test of a key needs
BOUNDS = [(-20.0, 20.0), (-5.0, 11.5)]  # logit of the mean; log of the strength: at e^11.5 keys do not differ
NO_GAIN = 1e-4  # log-likelihood; a beta prior that gains less says that keys do not differ
COLUMNS = (
    "rank",
    "rate",
    "shrunk_rate",
    "low",
    "high",
    "rest_rate",
    "difference",
    "p_value",
    "q_value",
    "n_cases",
    "n_items",
    "n_yes",
    "n_corrections",
    "n_keys",
    "n_tested",
    "prior_mean",
    "prior_strength",
    "level",
    "reason",
)


@dataclass(frozen=True)
class Prior:
    """Beta distribution of the keys' yes rates; ``reason`` says why there is none."""

    a: float = np.nan
    b: float = np.nan
    reason: str | None = None


def rank_keys(
    items: IntoFrame, *, key: str = "key", level: float = 0.95, adjust: Literal["bh", "by"] = "bh"
) -> pd.DataFrame:
    """Rank keys by a cautious yes rate: the lower bound of a rate drawn towards all keys' rate.

    Counts, not weights, are used: a weight is not a number of trials. The keys' rates are taken to follow a beta
    distribution, fitted by maximum likelihood to yes_i of n_i (beta-binomial); a key's shrunk rate is its posterior
    mean (yes_i + a) / (n_i + a + b), with the posterior's equal-tailed interval. A key with few corrections cannot come
    first or last by luck.

    Parameters
    ----------
    items
        One row per item with ``case_id``, ``yes``, ``no`` and the key, in any engine that `yes_rates` takes. Not
        changed.
    key
        Column that names what is ranked.
    level
        Confidence of the intervals, in (0, 1).
    adjust
        How p-values are adjusted for the number of keys tested: ``"bh"`` Benjamini-Hochberg, ``"by"``
        Benjamini-Yekutieli, which holds under any dependence.

    Returns
    -------
    pd.DataFrame
        One row per key, best first (by ``low``, then key), a missing key being one of its own; then:

        - ``rank`` from 1 by ``low``, equal ones sharing the better rank; missing without a bound.
        - ``rate`` raw yes share, NaN without corrections; ``shrunk_rate``, ``low``, ``high`` in [0, 1].
        - ``rest_rate`` of all other keys, ``difference`` rate - rest_rate in [-1, 1], ``p_value`` of no difference
          (the key against the rest as `compare` does it, runs being clusters; a key that is all yes or all no has no
          spread of its own, and gets that of one vote a run at the rest's rate), NaN for a key in fewer than 2 runs;
          ``q_value`` the p-value adjusted: keys with q below 0.05 hold 5 % false ones at most, on average.
        - ``n_cases`` runs with corrections, ``n_items``, ``n_yes``, ``n_corrections`` of the key; ``n_keys`` and
          ``n_tested`` how many keys there are and how many were tested.
        - ``prior_mean`` a / (a + b) and ``prior_strength`` a + b, in corrections. ``level`` as asked.
        - ``reason`` why there is no bound: fewer than 5 keys with two corrections; all verdicts the same; or "keys do
          not differ beyond chance", when the shrunk rate is all keys' pooled rate.

    Raises
    ------
    KeyError
        A needed column is missing.
    ValueError
        An argument is not known or out of range, or a count is negative or missing.

    References
    ----------
    .. [1] Efron, Morris (1975), "Data Analysis Using Stein's Estimator and its Generalizations", JASA 70(350),
       doi:10.1080/01621459.1975.10479864.
    .. [2] Benjamini, Hochberg (1995), "Controlling the False Discovery Rate", JRSS B 57(1),
       doi:10.1111/j.2517-6161.1995.tb02031.x.

    Examples
    --------
    >>> items = pd.DataFrame({"case_id": [f"c{i}" for i in range(10)], "key": list("abcdefghij"),
    ...     "yes": [0, 2, 3, 5, 9, 7, 1, 4, 12, 6], "no": [3, 3, 1, 1, 1, 7, 0, 0, 8, 2]})
    >>> rank_keys(items)[["key", "rank", "rate", "shrunk_rate", "low"]].head(3).round(2)
      key  rank  rate  shrunk_rate   low
    0   e     1  0.90         0.76  0.58
    1   h     2  1.00         0.74  0.52
    2   d     3  0.83         0.71  0.50
    """
    check_level(level)
    check_choice("adjust", adjust, ("bh", "by"))
    check_column("key", key)
    opened = open_items(items, weights="count", columns=group_names(key, taken=COLUMNS))
    own, run = "__key", "__run"
    frame = opened.frame.with_columns(nw.col(key).alias(own), cluster_of(opened.dtypes).alias(run))
    rows = Rows(frame, dict(frame.collect_schema()), opened.steps)
    parts = collect_clusters(rows, [own, run], {name: MEASURES[name] for name in ("y", "x", "bad")})
    sums = parts.sums
    refuse_contradictions(items, opened, float(sums["bad"].sum()))
    table = parts.groups.iloc[parts.code].reset_index(drop=True).assign(**sums)
    table["runs"] = (table["x"] > 0).astype(float)
    keyed = table.groupby(own, dropna=False, sort=True)
    totals = keyed[["y", "x", "rows", "runs"]].sum().reset_index()
    yes, n = totals["y"].to_numpy(float), totals["x"].to_numpy(float)
    prior = fit_prior(yes, n)
    tail = (1 - level) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(n > 0, yes / n, np.nan)
        pooled = yes.sum() / n.sum() if n.sum() > 0 else np.nan
    fitted = prior.reason is None
    shrunk = (yes + prior.a) / (n + prior.a + prior.b) if fitted else np.full(len(n), np.nan)
    shrunk = np.full(len(n), pooled) if prior.reason == SAME else shrunk
    low = stats.beta.ppf(tail, yes + prior.a, n - yes + prior.b) if fitted else np.full(len(n), np.nan)
    high = stats.beta.isf(tail, yes + prior.a, n - yes + prior.b) if fitted else np.full(len(n), np.nan)
    code, run_code = (g.ngroup().to_numpy().astype(np.intp) for g in (keyed, table.groupby(run, dropna=False)))
    rest, p = _against_rest(table, code, run_code, yes, n)
    tested = ~np.isnan(p)
    q = np.full(len(p), np.nan)
    if tested.any():
        q[tested] = stats.false_discovery_control(p[tested], method=adjust)
    result = (
        totals[[own]]
        .set_axis([key], axis=1)
        .assign(
            rank=pd.Series(low).rank(method="min", ascending=False).astype("Int64"),
            rate=rate,
            shrunk_rate=shrunk,
            low=low,
            high=high,
            rest_rate=rest,
            difference=rate - rest,
            p_value=p,
            q_value=q,
            n_cases=totals["runs"].astype("int64"),
            n_items=totals["rows"].astype("int64"),
            n_yes=whole_numbers(yes),
            n_corrections=whole_numbers(n),
            n_keys=len(totals),
            n_tested=int(tested.sum()),
            prior_mean=prior.a / (prior.a + prior.b) if fitted else np.nan,
            prior_strength=prior.a + prior.b,
            level=float(level),
            reason=pd.Series(prior.reason, index=totals.index, dtype=TEXT),
        )
    )
    return result.sort_values("low", ascending=False, kind="stable", na_position="last").reset_index(drop=True)


SAME = "keys do not differ beyond chance"


def fit_prior(yes: Floats, n: Floats) -> Prior:
    """Fit a beta distribution to the rates behind counts by maximum likelihood of the beta-binomial.

    Parameters
    ----------
    yes, n
        Counts per key; keys without corrections say nothing.
    """
    if np.count_nonzero(n >= 2) < LEAST_KEYS:
        return Prior(reason=f"fewer than {LEAST_KEYS} keys with two corrections")
    if yes.sum() == 0 or yes.sum() == n.sum():
        return Prior(reason="all verdicts are the same")
    pairs, times = np.unique(np.column_stack([yes, n])[n > 0], axis=0, return_counts=True)
    k, size = pairs.T

    def loss(theta: Floats) -> float:
        mean, strength = 1 / (1 + np.exp(-theta[0])), np.exp(theta[1])
        return -float(times @ stats.betabinom.logpmf(k, size, mean * strength, (1 - mean) * strength))

    pooled = yes.sum() / n.sum()
    start = np.array([np.log(pooled / (1 - pooled)), np.log(10.0)])
    rough = optimize.minimize(loss, start, method="L-BFGS-B", bounds=BOUNDS)
    found = optimize.minimize(
        loss, rough.x, method="Nelder-Mead", bounds=BOUNDS, options={"xatol": 1e-9, "fatol": 1e-12}
    )
    even = -float(times @ stats.binom.logpmf(k, size, pooled))
    if even - found.fun < NO_GAIN:
        return Prior(reason=SAME)
    mean, strength = 1 / (1 + np.exp(-found.x[0])), np.exp(found.x[1])
    return Prior(float(mean * strength), float((1 - mean) * strength))


def _against_rest(
    table: pd.DataFrame, code: NDArray[np.intp], run: NDArray[np.intp], yes: Floats, n: Floats
) -> tuple[Floats, Floats]:
    """Rate of all other keys, and the p-value of no difference: linearised over all runs.

    A run without the key adds ((y - R·x) / X)² of the rest; their sum is the one over all runs less the one over the
    runs with the key.
    """
    y, x = table["y"].to_numpy(), table["x"].to_numpy()
    size = len(n)
    run_y, run_x = (np.bincount(run, weights=values) for values in (y, x))
    m = np.count_nonzero(run_x > 0)
    cases = np.bincount(code, weights=(x > 0).astype(np.float64), minlength=size)
    rest_y, rest_x = yes.sum() - yes, n.sum() - n
    with np.errstate(divide="ignore", invalid="ignore"):
        rate, rest = np.where(n > 0, yes / n, np.nan), np.where(rest_x > 0, rest_y / rest_x, np.nan)
        overall = yes.sum() / n.sum() if n.sum() > 0 else np.nan
        residual = run_y - overall * run_x
        shift = rest - overall
        everywhere = np.sum(residual**2) - 2 * shift * np.sum(residual * run_x) + shift**2 * np.sum(run_x**2)
        own = (run_y[run] - rest[code] * run_x[run]) ** 2
        without = np.maximum(everywhere - np.bincount(code, weights=own, minlength=size), 0.0) / rest_x**2
        u = (y - rate[code] * x) / n[code] - (run_y[run] - y - rest[code] * (run_x[run] - x)) / rest_x[code]
        spread = without + np.bincount(code, weights=u * u, minlength=size)
        v = m / (m - 1) * spread if m > 1 else np.full(size, np.nan)
        v = np.where((yes == 0) | (yes == n), v + rest * (1 - rest) / cases, v)
        known = (cases >= LEAST_CASES) & (v > NOTHING * NOTHING)
        p = np.where(known, 2 * stats.t.sf(np.abs(rate - rest) / np.sqrt(v), m - 1), np.nan)
    return rest, p
