"""How far corrections of the same item agree, from the counts of yes and no alone."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoFrame
from numpy.typing import NDArray

from casekit.stats.clusters import collect_clusters
from casekit.stats.frames import TEXT, By, check_level, columns_of, group_names, to_arrow, to_pandas, whole_numbers
from casekit.stats.intervals import FEW_CASES, t_quantile, wilson
from casekit.stats.resampling import leave_one_out
from casekit.stats.weights import open_items, refuse_contradictions, when

__all__ = ["agreement", "item_agreement"]

Floats = NDArray[np.float64]

COEFFICIENTS = ("percent", "ac1", "alpha", "fleiss", "brennan_prediger", "pairs")
# Gwet's kappa has no lower bound: items with one correction are in its chance agreement alone.
LOWEST = {"percent": 0.0, "pairs": 0.0, "fleiss": -np.inf}
COLUMNS = (
    *(f"{name}{end}" for name in COEFFICIENTS for end in ("", "_se", "_low", "_high")),
    "n_cases",
    "n_items",
    "n_compared",
    "n_single",
    "n_without",
    "n_corrections",
    "n_pairs",
    "few_cases",
    "level",
    "reason",
)
ITEM = ("test_set_id", "version", "case_id", "item_no", "key")
CONTESTED = (2, 5)  # two of five corrections on the side of fewer make an item contested


def agreement(items: IntoFrame, *, by: By = None, level: float = 0.95) -> pd.DataFrame:
    """Agreement between corrections of the same item, with the chance-corrected coefficients.

    With n_i = yes_i + no_i corrections of item i, P_i = [yes (yes - 1) + no (no - 1)] / [n_i (n_i - 1)], and π the mean
    of yes_i / n_i over items with a correction:

    - ``percent`` p_a = mean of P_i over items with two corrections or more;
    - ``ac1`` Gwet's AC1, (p_a - p_e) / (1 - p_e) with p_e = 2 π (1 - π);
    - ``fleiss`` Fleiss' kappa in Gwet's form for any number of corrections, p_e = π² + (1 - π)²;
    - ``alpha`` Krippendorff's alpha for nominal data, over items with two corrections or more;
    - ``brennan_prediger`` 2 p_a - 1;
    - ``pairs`` agreeing pairs of corrections / pairs of corrections: items weigh by their pairs.

    Read ``percent``, ``ac1`` and ``alpha`` first: where nearly all say yes, kappa is low however well people agree.

    Parameters
    ----------
    items
        One row per item with ``case_id``, ``yes`` and ``no``, in any engine that `yes_rates` takes. Not changed.
    by
        Column or columns to group by; ``None`` makes one row. A missing key is a group of its own.
    level
        Confidence of the intervals, in (0, 1).

    Returns
    -------
    pd.DataFrame
        One row per group, sorted by the ``by`` columns, missing keys last; then for each coefficient its value, at most
        1 (``percent`` and ``pairs`` from 0, ``fleiss`` without a lower bound, the others from -1), and ``<name>_se``,
        ``<name>_low``, ``<name>_high``: the standard error by leaving out one run at a time, and Student's t interval
        at m - 1 degrees of freedom, cut to the coefficient's range. Then ``n_cases`` runs with corrections (m);
        ``n_items`` items with corrections, of which ``n_compared`` have two or more and ``n_single`` one; ``n_without``
        items without any, left out; ``n_corrections``; ``n_pairs`` pairs of corrections of one item; ``few_cases``
        whether m < 10; ``level``; and ``reason`` why something is missing.

        NaN where undefined: everything without an item of two corrections; kappa and alpha when all verdicts are the
        same; a standard error when a coefficient is undefined without one of the runs; an interval of no width.

    Raises
    ------
    KeyError
        A needed column is missing.
    ValueError
        An argument is out of range, or a count is negative or missing.

    Notes
    -----
    It is agreement between corrections: one person may have corrected an item twice under two groups. Weights play no
    part. Coefficients that need to know who corrected (Cohen's kappa between two people, Dawid-Skene) cannot be had.

    References
    ----------
    .. [1] Gwet (2008), "Computing inter-rater reliability and its variance in the presence of high agreement", British
       J. of Mathematical and Statistical Psychology 61(1), doi:10.1348/000711006X126600.
    .. [2] Fleiss (1971), "Measuring nominal scale agreement among many raters", Psychological Bulletin 76(5),
       doi:10.1037/h0031619.
    .. [3] Krippendorff (2011), "Computing Krippendorff's Alpha-Reliability", University of Pennsylvania.

    Examples
    --------
    >>> items = pd.DataFrame({"case_id": ["c1", "c2", "c3"], "yes": [2, 1, 0], "no": [0, 1, 3]})
    >>> agreement(items)[["percent", "ac1", "alpha", "n_compared"]].round(3)
       percent    ac1  alpha  n_compared
    0    0.667  0.333    0.5           3
    """
    check_level(level)
    names = group_names(by, taken=COLUMNS)
    opened = open_items(items, weights="count", columns=names)
    yes, no, n = (nw.col(f"__{name}") for name in ("yes", "no", "x"))
    two = n >= 2
    alike = yes * (yes - 1) + no * (no - 1)
    rest = nw.when(two).then(n - 1)  # missing where there is no pair, so that nothing is divided by 0
    measures = {
        "bad": nw.col("__bad"),
        "yes": yes,
        "no": no,
        "items": when(n >= 1),
        "share": when(n >= 1, yes / nw.when(n >= 1).then(n)),
        "compared": when(two),
        "agreed": when(two, alike / (n * rest)),
        "alike": when(two, alike),
        "pairs": when(two, n * (n - 1)),
        "n2": when(two, n),
        "yes2": when(two, yes),
        "no2": when(two, no),
        "mixed": when(two, yes * no / rest),
    }
    clusters = collect_clusters(opened, names, measures)
    totals = {name: clusters.total(values) for name, values in clusters.sums.items()}
    refuse_contradictions(items, opened, float(totals["bad"].sum()))
    m = clusters.total((clusters.sums["items"] > 0).astype(np.float64))
    whole = _coefficients(totals)
    errors = leave_one_out(clusters, _coefficients, whole, kept="items")
    t = t_quantile(m - 1, level)
    columns: dict[str, Floats] = {}
    for name in COEFFICIENTS:
        lowest = LOWEST.get(name, -1.0)
        half = np.where(errors[name] > 0, t * errors[name], np.nan)
        columns[name] = whole[name]
        columns[f"{name}_se"] = errors[name]
        columns[f"{name}_low"] = np.clip(whole[name] - half, lowest, 1.0)
        columns[f"{name}_high"] = np.clip(whole[name] + half, lowest, 1.0)
    counts = {"n_cases": m, "n_items": totals["items"], "n_compared": totals["compared"]}
    counts |= {"n_single": totals["items"] - totals["compared"], "n_without": totals["rows"] - totals["items"]}
    counts |= {"n_corrections": totals["yes"] + totals["no"], "n_pairs": totals["pairs"] / 2}
    reasons = [_reason(totals, m, whole, errors, i) for i in range(len(clusters.groups))]
    return clusters.groups.assign(
        **columns,
        **{name: whole_numbers(np.rint(values)) for name, values in counts.items()},
        few_cases=m < FEW_CASES,
        level=float(level),
        reason=pd.Series(reasons, index=clusters.groups.index, dtype=TEXT),
    )


def item_agreement(items: IntoFrame, *, level: float = 0.95) -> pd.DataFrame:
    """How far each item's corrections agree: its share of "yes", and whether it is contested.

    An item is contested when it has two corrections or more and at least 40 % of them are on the side of fewer:
    5 · min(yes, no) ≥ 2 · (yes + no).

    Parameters
    ----------
    items
        One row per item, as in ``CaseSet.items``, in any engine that `yes_rates` takes. Not changed.
    level
        Confidence of the intervals, in (0, 1).

    Returns
    -------
    pd.DataFrame
        One row per item: contested ones first, then by ``n_corrections``, most first, then the most even, then by name.
        Those of ``test_set_id``, ``version``, ``case_id``, ``item_no``, ``key`` that the items have; then:

        - ``n_yes`` of ``n_corrections``; ``yes_share`` their ratio, in [0, 1], with ``low``, ``high``: Wilson's score
          interval with the normal quantile. NaN without corrections.
        - ``weight`` total weight of the item's corrections, 0 or more. It plays no part in the share.
        - ``contested`` whether the item is contested; ``contested_from`` 0.4, the share of the side of fewer that it
          takes.
        - ``level`` as asked; ``reason`` why a number is missing.

    Raises
    ------
    KeyError
        A needed column is missing.
    ValueError
        An argument is out of range, or an item's weights contradict each other.

    Notes
    -----
    The interval takes the item's corrections as independent. Few corrections say little: 2 of 5 is contested, and its
    95 % interval reaches from 12 % to 77 %.

    References
    ----------
    .. [1] Brown, Cai, DasGupta (2001), "Interval Estimation for a Binomial Proportion", Statistical Science 16(2),
       doi:10.1214/ss/1009213286.

    Examples
    --------
    >>> items = pd.DataFrame({"case_id": ["c1", "c2", "c3"], "yes": [3, 2, 0], "no": [0, 3, 0],
    ...     "yes_weight": [3.0, 2.0, 0.0], "total_weight": [3.0, 5.0, 0.0]})
    >>> item_agreement(items)[["case_id", "n_yes", "n_corrections", "yes_share", "contested"]]
      case_id  n_yes  n_corrections  yes_share  contested
    0      c2      2              5        0.4       True
    1      c1      3              3        1.0      False
    2      c3      0              0        NaN      False
    """
    check_level(level)
    have = columns_of(items)
    names = [name for name in ITEM if name in have]
    opened = open_items(items, weights="recorded", columns=names)
    measures = ["__yes", "__no", "__total_weight", "__bad"]
    table = to_arrow(opened.prepared().select(*names, *measures))
    yes, no, weight, bad = (table[name].to_numpy() for name in measures)
    refuse_contradictions(items, opened, float(bad.sum()))
    n, fewer = yes + no, np.minimum(yes, no)
    least, of = CONTESTED
    share = np.where(n > 0, yes / np.where(n > 0, n, 1), np.nan)
    low, high = wilson(share, n, t_quantile(np.full(len(n), np.inf), level))
    found = to_pandas(table.select(names)).assign(
        n_yes=whole_numbers(yes),
        n_corrections=whole_numbers(n),
        yes_share=share,
        low=low,
        high=high,
        weight=weight,
        contested=(n >= 2) & (of * fewer >= least * n),
        contested_from=least / of,
        level=float(level),
        reason=pd.Series("no corrections", index=range(len(n)), dtype=TEXT).where(n == 0),
    )
    most = {"contested": False, "n_corrections": False, "__even": False} | dict.fromkeys(names, True)
    even = np.where(n > 0, fewer / np.where(n > 0, n, 1), 0.0)
    found = found.assign(__even=even).sort_values(list(most), ascending=list(most.values()), kind="stable")
    return found.drop(columns="__even").reset_index(drop=True)


def _coefficients(sums: dict[str, Floats]) -> dict[str, Floats]:
    """Turn sums over items into the coefficients, elementwise; NaN where undefined."""
    with np.errstate(divide="ignore", invalid="ignore"):
        percent = np.where(sums["compared"] > 0, sums["agreed"] / sums["compared"], np.nan)
        share = sums["share"] / sums["items"]
        by_chance = 2 * share * (1 - share)
        same = (sums["yes2"] <= 0) | (sums["no2"] <= 0)
        alone = 1 - by_chance
        # No variation at all: kappa and alpha would be 0 / 0, whatever rounding makes of it.
        fleiss = np.where((sums["yes"] <= 0) | (sums["no"] <= 0), np.nan, (percent - alone) / by_chance)
        alpha = np.where(same, np.nan, 1 - (sums["n2"] - 1) * sums["mixed"] / (sums["yes2"] * sums["no2"]))
        return {
            "percent": percent,
            "ac1": (percent - by_chance) / alone,
            "alpha": alpha,
            "fleiss": fleiss,
            "brennan_prediger": 2 * percent - 1,
            "pairs": np.where(sums["pairs"] > 0, sums["alike"] / sums["pairs"], np.nan),
        }


def _reason(
    totals: dict[str, Floats], m: Floats, whole: dict[str, Floats], errors: dict[str, Floats], i: int
) -> str | None:
    if totals["rows"][i] == 0:
        return "no items"
    if totals["compared"][i] == 0:
        return "no item has two corrections"
    if m[i] == 1:
        return "one case"
    if np.isnan(whole["alpha"][i]):
        return "no variation"
    if any(np.isnan(errors[name][i]) for name in COEFFICIENTS):
        return "undefined without one of the cases"
    return None
