"""Two versions of a set of items: what was added, removed and changed, and by how much the yes rate moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoFrame
from numpy.typing import NDArray

from casekit.stats.clusters import Clusters, Rows, cluster_of, collect_clusters
from casekit.stats.difference import Difference, difference
from casekit.stats.frames import (
    TEXT,
    By,
    Frame,
    Weights,
    check_column,
    check_level,
    check_names,
    columns_of,
    group_names,
    scan,
    stack,
    sum_by,
    to_arrow,
    to_pandas,
    whole_numbers,
)
from casekit.stats.intervals import FEW_CASES
from casekit.stats.weights import COUNTS, SLACK, open_items, refuse_contradictions, when

__all__ = ["compare", "pair_sides"]

Floats = NDArray[np.float64]

SIDES = ("before", "after")
FIGURES = ("yes", "no", "yes_weight", "total_weight", "expert_yes_weight", "expert_total_weight")
COLUMNS = (
    "before_rate",
    "before_low",
    "before_high",
    "after_rate",
    "after_low",
    "after_high",
    "difference",
    "se",
    "low",
    "high",
    "p_value",
    "df",
    "method",
    "common_before_rate",
    "common_after_rate",
    "common_difference",
    "common_se",
    "common_low",
    "common_high",
    "removed_rate",
    "added_rate",
    "n_cases",
    "n_cases_before",
    "n_cases_after",
    "n_cases_common",
    "n_cases_added",
    "n_cases_removed",
    "n_cases_changed",
    "n_cases_erased",
    "n_items",
    "n_items_before",
    "n_items_after",
    "n_items_common",
    "n_items_added",
    "n_items_removed",
    "n_items_changed",
    "n_corrections_before",
    "n_corrections_after",
    "weight_before",
    "weight_after",
    "weight_added",
    "weight_removed",
    "weight_common_before",
    "weight_common_after",
    "expert_share_before",
    "expert_share_after",
    "n_zero_weight_before",
    "n_zero_weight_after",
    "n_unknown_expert_before",
    "n_unknown_expert_after",
    "few_cases",
    "weights",
    "level",
    "reason",
)


def compare(
    before: IntoFrame,
    after: IntoFrame,
    *,
    by: By = None,
    weights: Weights = "recorded",
    level: float = 0.95,
    pair_by: str | None = None,
    cases: tuple[IntoFrame, IntoFrame] | None = None,
) -> pd.DataFrame:
    """Compare the items of two versions: which came, went and changed, and what the yes rate did.

    difference = R_after - R_before. Runs in both versions are paired: with u_c = (y_c - R·x_c) / X of after less that
    of before, 0 where a run is absent, v = M / (M - 1) · Σ u_c² over the M runs with weight in either, and Student's t
    at M - 1. Versions without a common run are compared by Welch. A change may come from other verdicts on the same
    runs or from other runs: the difference over the common runs alone stands beside the whole.

    Parameters
    ----------
    before, after
        One row per item each, as in ``CaseSet.items``, in any engine that `yes_rates` takes. Not changed.
    by
        Column or columns of both frames to group by; ``None`` makes one row. A missing key is a group of its own.
    weights
        ``"recorded"``, ``"expert"`` or ``"count"``, as for `yes_rates`.
    level
        Confidence of the intervals, in (0, 1).
    pair_by
        Column that says which runs belong together, in both frames, such as a hash of the input; ``None`` pairs by
        ``run_id``, else ``case_id``.
    cases
        The cases tables before and after, to count erased cases: an erased case has no items, so that items alone
        cannot tell it from a removed one.

    Returns
    -------
    pd.DataFrame
        One row per group, sorted by the ``by`` columns, missing keys last; then:

        - ``before_rate``, ``after_rate`` in [0, 1], each with ``_low`` and ``_high`` as in `yes_rates`; ``difference``
          in [-1, 1] with ``se``, ``low``, ``high``, ``p_value`` (two-sided), ``df``; ``method`` "paired", "welch", or
          "mover" when the standard error is 0 because a side is all yes or all no.
        - ``common_…`` the same over runs with weight in both; ``removed_rate``, ``added_rate`` yes rates of the runs
          with weight before alone and after alone.
        - ``n_cases…`` runs with items: in either, before, after, in both, after alone, before alone; ``_changed`` in
          both with an item added, removed or changed; ``_erased`` erased since, counted among the removed too, missing
          without ``cases`` or when they lack a ``by`` column.
        - ``n_items…`` the same for items, told apart by run, ``key`` and ``pointer``; changed means other counts or
          weights. ``n_corrections_…``.
        - ``weight_before``, ``weight_after``; ``weight_added`` and ``weight_removed`` on added and removed items, and
          ``weight_common_…`` on items in both. ``expert_share_…`` experts' share of the recorded weight, NaN where
          expert weights are unknown. ``n_zero_weight_…`` items without weight, ``n_unknown_expert_…`` items whose
          expert weights are missing.
        - ``few_cases`` fewer than 10 runs with weight in either; ``weights``, ``level``; ``reason`` why there is no
          interval: "identical" when every run has the same sums on both sides.

        NaN where undefined.

    Raises
    ------
    KeyError
        A needed column is missing.
    ValueError
        An argument is not known or out of range, or an item's weights contradict each other.

    Notes
    -----
    Corrected runs select themselves: the interval covers sampling of runs alone.

    References
    ----------
    .. [1] Cochran (1977), "Sampling Techniques", 3rd ed., chapter 6.
    .. [2] Miller (2024), "Adding Error Bars to Evals", arXiv:2411.00640.

    Examples
    --------
    >>> before = pd.DataFrame({"case_id": ["c1", "c2", "c3"], "key": "a", "yes": [1, 0, 0], "no": [0, 1, 1],
    ...     "yes_weight": [1.0, 0.0, 0.0], "total_weight": 1.0})
    >>> after = before.assign(yes=[1, 1, 0], no=[0, 0, 1], yes_weight=[1.0, 1.0, 0.0])
    >>> compare(before, after)[["before_rate", "after_rate", "difference", "n_items_changed"]].round(3)
       before_rate  after_rate  difference  n_items_changed
    0        0.333       0.667       0.333                1
    """
    check_level(level)
    if pair_by is not None:
        check_column("pair_by", pair_by)
    given: object = cases
    if given is not None and (not isinstance(given, Sequence) or len(given) != 2):
        raise ValueError("cases must be a pair of tables: the cases before, and the cases after.")
    names = group_names(by, taken=COLUMNS)
    clusters = pair_sides(before, after, names, weights, pair_by)
    total = {name: clusters.total(values) for name, values in clusters.sums.items()}
    whole = difference(clusters, ("y_before", "x_before", "n_before"), ("y_after", "x_after", "n_after"), level=level)
    common = _common(clusters, level)
    columns: dict[str, Any] = {
        "before_rate": whole.first.rate,
        "before_low": whole.first_low,
        "before_high": whole.first_high,
        "after_rate": whole.second.rate,
        "after_low": whole.second_low,
        "after_high": whole.second_high,
        "difference": whole.value,
        "se": whole.se,
        "low": whole.low,
        "high": whole.high,
        "p_value": whole.p,
        "df": whole.df,
        "method": pd.Series(whole.method, index=clusters.groups.index, dtype=TEXT),
        "common_before_rate": common.first.rate,
        "common_after_rate": common.second.rate,
        "common_difference": common.value,
        "common_se": common.se,
        "common_low": common.low,
        "common_high": common.high,
        "removed_rate": _rate_of_one_side(clusters, "before", "after"),
        "added_rate": _rate_of_one_side(clusters, "after", "before"),
        "weight_added": total["x_added"],
        "weight_removed": total["x_removed"],
        "few_cases": whole.n_clusters < FEW_CASES,
        "weights": pd.Series(weights, index=clusters.groups.index, dtype=TEXT),
        "level": float(level),
        "reason": pd.Series(_reasons(whole, total), index=clusters.groups.index, dtype=TEXT),
        "n_cases_erased": _erased(clusters.groups, names, cases, pair_by),
    }
    for side in SIDES:
        columns[f"weight_{side}"] = total[f"x_{side}"]
        columns[f"weight_common_{side}"] = total[f"x_common_{side}"]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = total[f"expert_{side}"] / total[f"recorded_{side}"]
        columns[f"expert_share_{side}"] = np.where(total[f"unknown_{side}"] == 0, share, np.nan)
    counts = _counts(clusters, total, weights)
    columns |= {name: whole_numbers(values) for name, values in counts.items()}
    return clusters.groups.assign(**{name: columns[name] for name in COLUMNS})


def pair_sides(
    before: IntoFrame, after: IntoFrame, by: Sequence[str], weights: Weights, pair_by: str | None = None
) -> Clusters:
    """Sum both versions per group and run, with what became of each item.

    Sums end in ``_before`` or ``_after``: ``y``, ``x``, ``n`` (weights and corrections), ``items`` with weight,
    ``rows``, ``unknown``, ``expert`` and ``recorded`` weight, ``x_common``; and ``added``, ``removed``, ``both``,
    ``changed`` count items, ``x_added``, ``x_removed`` their weight.
    """
    frames = {"before": before, "after": after}
    dtypes = {side: columns_of(f, called=side) for side, f in frames.items()}
    identity = [name for name in ("key", "pointer") if all(name in have for have in dtypes.values())]
    needed = (*by, *identity, *([] if pair_by is None else [pair_by]))
    opened = {
        side: open_items(f, weights=weights, columns=needed, experts=True, frame=side) for side, f in frames.items()
    }
    for side, have in dtypes.items():
        check_names(have, ("key",), frame=side)
    groups = [f"__g{i}" for i in range(len(by))]
    figures = [name for name in FIGURES if all(name in items.dtypes for items in opened.values())]
    parts = []
    for side in SIDES:
        run = cluster_of(opened[side].dtypes)
        run = run if pair_by is None else nw.coalesce(nw.col(pair_by).cast(nw.String), run)
        parts.append(_side(opened[side], side, by, identity, figures, run))
    rows = stack(*parts)
    values = [c for c in rows.collect_schema().names() if c not in (*groups, "case_id", "key", "pointer")]
    one_each = sum_by(rows, (*groups, "case_id", *identity), values)
    flagged = one_each.with_columns(
        in_before=nw.col("rows_before") > 0,
        in_after=nw.col("rows_after") > 0,
        moved=_moved([*figures, "unknown"]),
    )
    both, before_alone = nw.col("in_before") & nw.col("in_after"), nw.col("in_before") & ~nw.col("in_after")
    after_alone = nw.col("in_after") & ~nw.col("in_before")
    measures: dict[str, nw.Expr] = {
        "added": when(after_alone),
        "removed": when(before_alone),
        "both": when(both),
        "changed": when(both & nw.col("moved")),
        "x_added": when(after_alone, nw.col("x_after")),
        "x_removed": when(before_alone, nw.col("x_before")),
    }
    for side in SIDES:
        kept = ("y", "x", "n", "items", "rows", "unknown", "expert", "recorded", "bad")
        measures |= {f"{name}_{side}": nw.col(f"{name}_{side}") for name in kept}
        measures[f"x_common_{side}"] = when(both, nw.col(f"x_{side}"))
    clusters = collect_clusters(Rows(flagged, dict(flagged.collect_schema())), groups, measures)
    for side in SIDES:
        refuse_contradictions(frames[side], opened[side], float(clusters.sums[f"bad_{side}"].sum()))
    named = clusters.groups.set_axis(list(by), axis=1) if by else clusters.groups
    return Clusters(named, clusters.code, clusters.sums)


def _side(
    items: Rows, side: str, by: Sequence[str], identity: Sequence[str], figures: Sequence[str], run: nw.Expr
) -> Frame:
    have = items.dtypes
    recorded = nw.col("__total_weight") if "total_weight" in have else nw.lit(0.0)
    here = {
        **{name: nw.col(f"__{name}") for name in ("y", "x", "n", "items", "unknown", "bad")},
        "rows": nw.lit(1.0),
        "expert": nw.col("__expert_total_weight") if "expert_total_weight" in have else nw.lit(0.0),
        "recorded": recorded,
        **{f"f_{name}": nw.col(f"__{name}") for name in figures},
    }
    other = SIDES[1 - SIDES.index(side)]
    shown = [f"__g{i}" for i in range(len(by))]
    rows: Any = items.prepared()
    rows = rows.select(
        *(nw.col(name).alias(group) for name, group in zip(by, shown, strict=True)),
        run.alias("case_id"),
        *(nw.col(name).cast(nw.String) for name in identity),
        *(e.alias(f"{name}_{side}") for name, e in here.items()),
        *(nw.lit(0.0).alias(f"{name}_{other}") for name in here),
    )
    sided: Frame = rows.select(*shown, "case_id", *identity, *(f"{name}_{s}" for s in SIDES for name in here))
    return sided


def _moved(figures: Sequence[str]) -> nw.Expr:
    changes = []
    for name in figures:
        old, new = (nw.col(f"{name}_{side}" if name == "unknown" else f"f_{name}_{side}") for side in SIDES)
        rounding = 0.0 if name in COUNTS else SLACK * old + SLACK * new
        changes.append((new - old).abs() > rounding)
    return nw.any_horizontal(*changes, ignore_nulls=True)


def _common(clusters: Clusters, level: float) -> Difference:
    inside = (clusters.sums["x_before"] > 0) & (clusters.sums["x_after"] > 0)
    sums = {f"{n}_{s}": np.where(inside, clusters.sums[f"{n}_{s}"], 0.0) for n in ("y", "x", "n") for s in SIDES}
    kept = Clusters(clusters.groups, clusters.code, sums)
    return difference(kept, ("y_before", "x_before", "n_before"), ("y_after", "x_after", "n_after"), level=level)


def _rate_of_one_side(clusters: Clusters, side: str, other: str) -> Floats:
    alone = ~(clusters.sums[f"x_{other}"] > 0)
    y, x = (clusters.total(np.where(alone, clusters.sums[f"{name}_{side}"], 0.0)) for name in ("y", "x"))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(x > 0, np.clip(y / x, 0.0, 1.0), np.nan)


def _counts(clusters: Clusters, total: Mapping[str, Floats], weights: Weights) -> dict[str, Floats]:
    in_before, in_after = (clusters.sums[f"rows_{side}"] > 0 for side in SIDES)
    touched = clusters.sums["added"] + clusters.sums["removed"] + clusters.sums["changed"] > 0
    cases = {
        "n_cases": in_before | in_after,
        "n_cases_before": in_before,
        "n_cases_after": in_after,
        "n_cases_common": in_before & in_after,
        "n_cases_added": in_after & ~in_before,
        "n_cases_removed": in_before & ~in_after,
        "n_cases_changed": in_before & in_after & touched,
    }
    counts = {name: clusters.total(flags.astype(np.float64)) for name, flags in cases.items()}
    counts |= {
        "n_items": total["added"] + total["removed"] + total["both"],
        "n_items_before": total["removed"] + total["both"],
        "n_items_after": total["added"] + total["both"],
        "n_items_common": total["both"],
        "n_items_added": total["added"],
        "n_items_removed": total["removed"],
        "n_items_changed": total["changed"],
    }
    for side in SIDES:
        counts[f"n_corrections_{side}"] = total[f"n_{side}"]
        unknown = total[f"unknown_{side}"] if weights == "expert" else 0.0
        counts[f"n_zero_weight_{side}"] = total[f"rows_{side}"] - total[f"items_{side}"] - unknown
        counts[f"n_unknown_expert_{side}"] = total[f"unknown_{side}"]
    return counts


def _erased(
    groups: pd.DataFrame, by: Sequence[str], cases: tuple[IntoFrame, IntoFrame] | None, pair_by: str | None
) -> pd.Series[Any]:
    unknown = pd.Series(pd.NA, index=groups.index, dtype="Int64")
    if cases is None:
        return unknown
    tables = []
    for side, frame in zip(SIDES, cases, strict=True):
        dtypes = columns_of(frame, called=f"cases {side}")
        check_names(dtypes, ("case_id", "erased"), frame=f"cases {side}")
        if not set(by) <= set(dtypes):
            return unknown
        run = cluster_of(dtypes)
        run = nw.coalesce(nw.col(pair_by).cast(nw.String), run) if pair_by in dtypes else run
        rows = scan(frame, [c for c in ("case_id", "run_id", "erased", pair_by, *by) if c in dtypes])
        chosen = rows.select(
            *by, run.alias("__run"), nw.col("erased").cast(nw.Boolean).fill_null(False).alias("__gone")
        )
        tables.append(to_pandas(to_arrow(chosen)))
    old, new = tables
    gone = set(new["__run"][new["__gone"]])
    hit = old[~old["__gone"] & old["__run"].isin(gone)].drop_duplicates([*by, "__run"])
    if not by:
        return pd.Series(len(hit), index=groups.index, dtype="Int64")
    counted = hit.groupby(list(by), dropna=False).size().rename("n").reset_index()
    return groups.merge(counted, how="left", on=list(by))["n"].fillna(0).astype("Int64")


def _reasons(whole: Difference, total: Mapping[str, Floats]) -> list[str | None]:
    reasons: list[str | None] = []
    for i, reason in enumerate(whole.reason):
        lacking = [side for side in SIDES if total[f"x_{side}"][i] == 0]
        reasons.append(f"no weight {' and '.join(lacking)}" if lacking else reason)
    return reasons
