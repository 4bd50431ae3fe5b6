"""Whose weight is behind the verdicts: experts and others, and how few runs hold most of it."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoFrame
from numpy.typing import NDArray

from casekit.stats.clusters import SQUARED, Moments, group_moments
from casekit.stats.frames import TEXT, TOO_LARGE, By, check_level, group_names, whole_numbers
from casekit.stats.intervals import linearised, t_quantile, wilson
from casekit.stats.weights import at_least_one, open_items, refuse_contradictions

__all__ = ["expert_weights"]

COLUMNS = (
    "weight",
    "expert_weight",
    "other_weight",
    "expert_share",
    "share_se",
    "share_low",
    "share_high",
    "yes_weight",
    "no_weight",
    "expert_yes_weight",
    "expert_no_weight",
    "other_yes_weight",
    "other_no_weight",
    "n_cases",
    "n_items",
    "n_corrections",
    "n_unknown_expert",
    "effective_cases",
    "top_share",
    "hhi",
    "gini",
    "kish_low",
    "kish_high",
    "level",
    "reason",
)


def expert_weights(items: IntoFrame, *, by: By = None, level: float = 0.95) -> pd.DataFrame:
    """Weight of experts and of others behind the items, and how it is spread over runs.

    expert share E = Σ expert total weight / Σ total weight, pooled over the items of a group, with the standard error
    and interval of `yes_rates` (runs are clusters). others = everyone less experts. With R the yes rate of everyone,
    R_e of experts and R_o of others, R = E·R_e + (1 - E)·R_o.

    Parameters
    ----------
    items
        One row per item, as in ``CaseSet.items``, in any engine that `yes_rates` takes. Not changed.
    by
        Column or columns to group by; ``None`` makes one row. A missing key is a group of its own.
    level
        Confidence of the share's interval, in (0, 1).

    Returns
    -------
    pd.DataFrame
        One row per group, sorted by the ``by`` columns, missing keys last; then:

        - ``weight``, ``expert_weight``, ``other_weight`` sums of weights, 0 or more; ``expert_share`` E in [0, 1], with
          ``share_se``, ``share_low``, ``share_high``.
        - ``yes_weight``, ``no_weight`` and the same two for experts and others.
        - ``n_cases`` runs with weight; ``n_items``, ``n_corrections`` all items and corrections of the group;
          ``n_unknown_expert`` items whose expert weights are missing. **With even one such item, what concerns experts
          and others is NaN** for the group: unknown is not zero. Leave those items out for the share among the rest.
        - How runs share the weight, s_c = x_c / Σ x_c over runs with weight: ``hhi`` Σ s_c² in (0, 1],
          ``effective_cases`` 1 / hhi, ``top_share`` largest s_c, ``gini`` in [0, 1).
        - ``kish_low``, ``kish_high`` bounds of Kish's effective number of corrections (Σw)² / Σw². Single weights are
          not in the data, so only bounds can be known; they meet where no item has two corrections of one verdict. NaN
          for a group whose weight is below 1e-140 or above 1e150: squares of items' weights leave a float's range.
        - ``level`` as asked; ``reason`` why a number is missing.

        NaN where undefined, such as every share of a group without weight.

    Raises
    ------
    KeyError
        A needed column is missing.
    ValueError
        An argument is out of range, or an item's weights contradict each other.

    References
    ----------
    .. [1] Cochran (1977), "Sampling Techniques", 3rd ed., chapter 6.
    .. [2] Kish (1965), "Survey Sampling", chapter 11.

    Examples
    --------
    >>> items = pd.DataFrame({"case_id": ["c1", "c2"], "yes": [2, 0], "no": [0, 1], "yes_weight": [4.0, 0.0],
    ...                       "total_weight": [4.0, 1.0], "expert_yes_weight": [3.0, 0.0],
    ...                       "expert_total_weight": [3.0, 0.0]})
    >>> expert_weights(items)[["weight", "expert_weight", "expert_share", "effective_cases"]].round(3)
       weight  expert_weight  expert_share  effective_cases
    0     5.0            3.0           0.6            1.471
    """
    check_level(level)
    names = group_names(by, taken=COLUMNS)
    opened = open_items(items, weights="expert", columns=names)
    yes, total, n_yes, n_no = (nw.col(f"__{name}") for name in ("yes_weight", "total_weight", "yes", "no"))
    sides = ((yes, n_yes), (total - yes, n_no))
    measures = {
        "ey": nw.col("__y"),
        "ex": nw.col("__x"),
        "y": yes,
        "x": total,
        "n": n_yes + n_no,
        "unknown": nw.col("__unknown"),
        "bad": nw.col("__bad"),
        "least": sum((w * w / at_least_one(n) for w, n in sides), nw.lit(0.0)),
        "most": sum((w * w for w, _ in sides), nw.lit(0.0)),
    }
    got = group_moments(opened, names, measures, {"share": ("ex", "x")}, spread="x")
    refuse_contradictions(items, opened, float(got["bad"].sum()))
    return _table(got, level)


def _table(got: Moments, level: float) -> pd.DataFrame:
    x, m, n = got["x"], got["share_m"], got["n"]
    known = got["unknown"] == 0

    def if_known(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where(known, values, np.nan)

    share = linearised(got["ex"], x, got["share_e2"], got["share_x2"], m, n)
    low, high = wilson(share.rate, share.n_eff, t_quantile(m - 1, level))
    others = np.maximum(x - got["ex"], 0.0)
    other_yes = np.maximum(got["y"] - got["ey"], 0.0)
    whole = np.frexp(x)[0]  # in the unit of the sums over runs
    least, most = SQUARED
    squared = (x > least) & (x < most)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        hhi = np.where(x > 0, got["share_x2"] / (whole * whole), np.nan)
        gini = np.where(x > 0, (2 * got["ranked"] - (m + 1) * whole) / (m * whole), np.nan)
        kish_low = np.where(squared, x * x / got["most"], np.nan)
        kish_high = np.where(squared, np.minimum(x * x / got["least"], n), np.nan)
        top = np.where(x > 0, got["top"] / x, np.nan)
        effective = 1 / hhi
    return got.groups.assign(
        weight=x,
        expert_weight=if_known(got["ex"]),
        other_weight=if_known(others),
        expert_share=if_known(share.rate),
        share_se=if_known(share.se),
        share_low=if_known(low),
        share_high=if_known(high),
        yes_weight=got["y"],
        no_weight=np.maximum(x - got["y"], 0.0),
        expert_yes_weight=if_known(got["ey"]),
        expert_no_weight=if_known(np.maximum(got["ex"] - got["ey"], 0.0)),
        other_yes_weight=if_known(other_yes),
        other_no_weight=if_known(np.maximum(others - other_yes, 0.0)),
        n_cases=m.astype(np.int64),
        n_items=got["rows"].astype(np.int64),
        n_corrections=whole_numbers(n),
        n_unknown_expert=got["unknown"].astype(np.int64),
        effective_cases=effective,
        top_share=top,
        hhi=hhi,
        gini=gini,
        kish_low=kish_low,
        kish_high=kish_high,
        level=float(level),
        reason=pd.Series(_reasons(got), index=got.groups.index, dtype=TEXT),
    )


def _reasons(got: Moments) -> list[str | None]:
    reasons: list[str | None] = []
    for rows, unknown, m, x in zip(got["rows"], got["unknown"], got["share_m"], got["x"], strict=True):
        if rows == 0:
            reasons.append("no items")
        elif m == 0:
            reasons.append("no weight")
        elif np.isnan(x):
            reasons.append(TOO_LARGE)
        elif unknown:
            reasons.append(f"expert weights unknown for {unknown:.0f} of {rows:.0f} items")
        else:
            reasons.append("one case" if m == 1 else None)
    return reasons
