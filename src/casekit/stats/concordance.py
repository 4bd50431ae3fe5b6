"""Experts against everyone else: the gap between their yes rates, and whether they take the same side of an item."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoFrame
from numpy.typing import NDArray

from casekit.stats.clusters import Rows, collect_clusters, moments_of
from casekit.stats.difference import difference
from casekit.stats.frames import TEXT, TOO_LARGE, By, check_level, group_names, whole_numbers
from casekit.stats.intervals import linearised, t_quantile, wilson
from casekit.stats.resampling import leave_one_out
from casekit.stats.weights import SLACK, open_items, refuse_contradictions, when

__all__ = ["expert_agreement"]

Floats = NDArray[np.float64]

ROUNDING = 1e-12  # of an item's weight: what others' sums, being differences, may be off by
COLUMNS = (
    "expert_rate",
    "other_rate",
    "gap",
    "gap_se",
    "gap_low",
    "gap_high",
    "gap_p",
    "gap_df",
    "gap_method",
    "agreement",
    "agreement_se",
    "agreement_low",
    "agreement_high",
    "kappa",
    "kappa_se",
    "kappa_low",
    "kappa_high",
    "n_cases",
    "n_both_cases",
    "n_items",
    "n_corrections",
    "n_both",
    "n_agree",
    "n_disagree",
    "n_tie",
    "n_both_yes",
    "n_both_no",
    "n_expert_yes",
    "n_other_yes",
    "expert_weight",
    "other_weight",
    "n_unknown_expert",
    "level",
    "reason",
)


def expert_agreement(items: IntoFrame, *, by: By = None, level: float = 0.95) -> pd.DataFrame:
    """Compare experts with all others on the same items.

    Others are everyone less experts. The gap is R_e - R_o, experts' pooled yes rate less the others'; R_e less
    *everyone's* rate would be only (1 - E) · gap, E being the experts' share of weight. On an item that both corrected,
    each side's majority is yes or no, or a tie (yes weight half of the side's, within 1e-9 of it), never broken.

    Parameters
    ----------
    items
        One row per item, as in ``CaseSet.items``, in any engine that `yes_rates` takes. Not changed.
    by
        Column or columns to group by; ``None`` makes one row. A missing key is a group of its own.
    level
        Confidence of the intervals, in (0, 1).

    Returns
    -------
    pd.DataFrame
        One row per group, sorted by the ``by`` columns, missing keys last; then:

        - ``expert_rate``, ``other_rate`` in [0, 1]; ``gap`` in [-1, 1] with ``gap_se``, ``gap_low``, ``gap_high``,
          ``gap_p`` (two-sided), ``gap_df``, and ``gap_method``: "paired" over the runs of both, "welch" when no run has
          both, "mover" when a side is all yes or all no.
        - ``agreement`` items where both majorities are the same / items where neither ties, with a standard error and
          interval as in `yes_rates`; ``kappa`` Cohen's kappa of those, in [-1, 1], with a standard error by leaving out
          one run at a time.
        - ``n_cases`` runs with experts' or others' weight; ``n_both_cases`` runs with both; ``n_items`` items whose
          expert weights are known, ``n_corrections`` theirs; ``n_both`` items that both weigh on = ``n_agree`` +
          ``n_disagree`` + ``n_tie``; ``n_both_yes`` + ``n_both_no`` = n_agree; ``n_expert_yes`` (experts yes, others
          no) + ``n_other_yes`` = n_disagree.
        - ``expert_weight``, ``other_weight`` sums of weights; ``n_unknown_expert`` items whose expert weights are
          missing, left out; ``level``; ``reason`` why something is missing.

        NaN where undefined.

    Raises
    ------
    KeyError
        A needed column is missing.
    ValueError
        An argument is out of range, or an item's weights contradict each other.

    References
    ----------
    .. [1] Cochran (1977), "Sampling Techniques", 3rd ed., chapter 6.
    .. [2] Cohen (1960), "A Coefficient of Agreement for Nominal Scales", Educational and Psychological Measurement
       20(1), doi:10.1177/001316446002000104.

    Examples
    --------
    >>> items = pd.DataFrame({"case_id": ["c1", "c2", "c3"], "yes": [2, 1, 1], "no": [0, 1, 1],
    ...     "yes_weight": [4.0, 3.0, 1.0], "total_weight": [4.0, 4.0, 4.0],
    ...     "expert_yes_weight": [3.0, 3.0, 0.0], "expert_total_weight": [3.0, 3.0, 3.0]})
    >>> expert_agreement(items)[["expert_rate", "other_rate", "agreement", "n_agree", "n_disagree"]].round(3)
       expert_rate  other_rate  agreement  n_agree  n_disagree
    0        0.667       0.667      0.333        1           2
    """
    check_level(level)
    names = group_names(by, taken=COLUMNS)
    opened = open_items(items, weights="expert", columns=names)
    rows = Rows(opened.frame, opened.dtypes, [*opened.steps, *_SIDES])
    known, clear = nw.col("__unknown") == 0, nw.col("__clear") > 0
    expert, other = nw.col("__expert"), nw.col("__other")
    measures = {
        "ye": nw.col("__y"),
        "xe": nw.col("__x"),
        "yo": nw.col("__yo"),
        "xo": nw.col("__xo"),
        "n": when(known, nw.col("__yes") + nw.col("__no")),
        "ne": nw.col("__n"),
        "items": when(known),
        "unknown": nw.col("__unknown"),
        "bad": nw.col("__bad"),
        "tie": nw.col("__both") - nw.col("__clear"),
        "clear": nw.col("__clear"),
        "agree": when(clear & ((expert > 0) == (other > 0))),
        "yy": when(clear & (expert > 0) & (other > 0)),
        "yn": when(clear & (expert > 0) & (other < 0)),
        "ny": when(clear & (expert < 0) & (other > 0)),
        "nn": when(clear & (expert < 0) & (other < 0)),
    }
    clusters = collect_clusters(rows, names, measures)
    refuse_contradictions(items, opened, float(clusters.sums["bad"].sum()))
    got = moments_of(clusters, {"s": ("agree", "clear")})
    gap = difference(clusters, ("yo", "xo", "n"), ("ye", "xe", "ne"), level=level)
    share = linearised(got["agree"], got["clear"], got["s_e2"], got["s_x2"], got["s_m"], got["clear"])
    t = t_quantile(got["s_m"] - 1, level)
    low, high = wilson(share.rate, share.n_eff, t)
    kappa = _kappa(got.values)
    errors = leave_one_out(clusters, _kappa, kappa, kept="clear")
    half = np.where(errors["kappa"] > 0, t * errors["kappa"], np.nan)
    unsure = np.where(got["s_m"] > 1, errors["kappa"], 0.0)
    reasons = [_reason(got.values, gap.reason[i], kappa["kappa"], unsure, i) for i in range(len(got.groups))]
    counts = {
        "n_cases": gap.n_clusters,
        "n_both_cases": gap.n_common,
        "n_items": got["items"],
        "n_corrections": got["n"],
    }
    counts |= {"n_both": got["clear"] + got["tie"], "n_agree": got["agree"], "n_disagree": got["yn"] + got["ny"]}
    counts |= {"n_tie": got["tie"], "n_both_yes": got["yy"], "n_both_no": got["nn"]}
    counts |= {"n_expert_yes": got["yn"], "n_other_yes": got["ny"], "n_unknown_expert": got["unknown"]}
    columns: dict[str, Any] = {
        "expert_rate": gap.second.rate,
        "other_rate": gap.first.rate,
        "gap": gap.value,
        "gap_se": gap.se,
        "gap_low": gap.low,
        "gap_high": gap.high,
        "gap_p": gap.p,
        "gap_df": gap.df,
        "gap_method": pd.Series(gap.method, index=got.groups.index, dtype=TEXT),
        "agreement": share.rate,
        "agreement_se": share.se,
        "agreement_low": low,
        "agreement_high": high,
        "kappa": kappa["kappa"],
        "kappa_se": errors["kappa"],
        "kappa_low": np.clip(kappa["kappa"] - half, -1.0, 1.0),
        "kappa_high": np.clip(kappa["kappa"] + half, -1.0, 1.0),
        **{name: whole_numbers(values) for name, values in counts.items()},
        "expert_weight": got["xe"],
        "other_weight": got["xo"],
        "level": float(level),
        "reason": pd.Series(reasons, index=got.groups.index, dtype=TEXT),
    }
    return got.groups.assign(**{name: columns[name] for name in COLUMNS})


def _others(name: str, experts: str) -> nw.Expr:
    rest = nw.col(f"__{name}") - nw.col(experts)
    return when((rest > ROUNDING * nw.col("__total_weight")) & (nw.col("__unknown") == 0), rest)


# Others' weights, then how far each side is from a tie, then the items on which both take a side.
_SIDES = (
    {"__yo": _others("yes_weight", "__y"), "__xo": _others("total_weight", "__x")},
    {
        "__expert": 2 * nw.col("__y") - nw.col("__x"),
        "__other": 2 * nw.col("__yo") - nw.col("__xo"),
        "__both": when((nw.col("__x") > 0) & (nw.col("__xo") > 0)),
    },
    {
        "__clear": when(
            (nw.col("__expert").abs() > SLACK * nw.col("__x"))
            & (nw.col("__other").abs() > SLACK * nw.col("__xo") + ROUNDING * nw.col("__total_weight")),
            nw.col("__both"),
        )
    },
)


def _kappa(sums: Mapping[str, Floats]) -> dict[str, Floats]:
    """Cohen's kappa of the two sides' majorities; NaN without an item, and when both always say the same one thing."""
    yy, yn, ny, nn = (sums[name] for name in ("yy", "yn", "ny", "nn"))
    n = yy + yn + ny + nn
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = ((yy + yn) * (yy + ny) + (ny + nn) * (yn + nn)) / (n * n)
        kappa = ((yy + nn) / n - chance) / (1 - chance)
        return {"kappa": np.where((n > 0) & (yy < n) & (nn < n), kappa, np.nan)}


def _reason(sums: Mapping[str, Floats], gap: str | None, kappa: Floats, unsure: Floats, i: int) -> str | None:
    if sums["rows"][i] == 0:
        return "no items"
    if sums["unknown"][i] == sums["rows"][i]:
        return "expert weights unknown"
    if np.isnan(sums["xe"][i]) or np.isnan(sums["xo"][i]):
        return TOO_LARGE
    if not sums["xe"][i] > 0 or not sums["xo"][i] > 0:
        return (
            "no weight of experts" if sums["xo"][i] > 0 else "no weight of others" if sums["xe"][i] > 0 else "no weight"
        )
    reasons = [f"gap: {gap}"] if gap else []
    if sums["clear"][i] == 0:
        reasons.append("agreement: no item where both take a side")
    elif sums["s_m"][i] == 1:
        reasons.append("agreement: one case")
    elif np.isnan(kappa[i]):
        reasons.append("kappa: no variation")
    elif np.isnan(unsure[i]):
        reasons.append("kappa: undefined without one of the cases")
    return "; ".join(reasons) or None
