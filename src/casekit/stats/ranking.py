"""Figures of ranked outputs as the server defines them: weighted precision at k, and corrected coverage."""

from __future__ import annotations

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoFrame

from casekit.stats.clusters import Moments
from casekit.stats.frames import TEXT, TOO_LARGE, By, Weights, check_level, check_whole, columns_of, group_names, number
from casekit.stats.intervals import FEW_CASES, linearised, t_quantile, wilson
from casekit.stats.matching import Matched, match
from casekit.stats.weights import when

__all__ = ["coverage", "precision_at_k", "sum_places"]

PRECISION = (
    "precision",
    "low",
    "high",
    "se",
    "case_mean",
    "n_cases",
    "n_items",
    "n_corrections",
    "weight",
    "yes_weight",
    "n_eff",
    "deff",
    "few_cases",
    "n_slots",
    "n_judged",
    "judged_share",
    "n_stored_ranks",
    "n_unmatched",
    "n_unknown_expert",
    "k",
    "weights",
    "level",
    "reason",
)
COVERAGE = (
    "coverage",
    "low",
    "high",
    "se",
    "case_mean",
    "n_cases",
    "n_items",
    "n_judged",
    "n_corrections",
    "weight",
    "n_eff",
    "deff",
    "few_cases",
    "n_without_output",
    "n_unmatched",
    "n_unknown_expert",
    "weights",
    "level",
    "reason",
)


def precision_at_k(
    ranked: IntoFrame,
    items: IntoFrame,
    *,
    k: int = 10,
    by: By = None,
    weights: Weights = "recorded",
    level: float = 0.95,
) -> pd.DataFrame:
    """Weighted share of "yes" among the first k items of ranked outputs (the server's weightedPrecisionAtK).

    precision = Σ_c yes weight / Σ_c total weight, each case's sums taken over its first k ranked items. Rank first,
    then cut: an item nobody corrected takes up one of the k places and adds nothing. Lists of one output start at rank
    0 side by side. Unranked items (an answer, a whole output) are never among them. Cases with no weight there are
    left out of the ratio.

    Parameters
    ----------
    ranked
        The outputs' items, corrected or not, as ``output_items`` lists them.
    items
        The corrected items, as in ``CaseSet.items``; in any engine that `yes_rates` takes. When both frames are lazy
        and of one engine, the join runs there.
    k
        How many places of each output count, 1 or more.
    by
        Column or columns, in both frames, to group by; ``None`` makes one row. A missing key is a group of its own.
    weights
        ``"recorded"``, ``"expert"`` or ``"count"``, as for `yes_rates`. With ``"expert"`` an item without experts'
        weight, or with unknown one, counts as not corrected.
    level
        Confidence of the interval, in (0, 1).

    Returns
    -------
    pd.DataFrame
        One row per group, sorted by the ``by`` columns, missing keys last; then:

        - ``precision`` in [0, 1] with ``low``, ``high``, ``se`` as in `yes_rates` (runs are clusters, Wilson with t);
          ``case_mean`` the mean of the cases' own ratios, each case one vote.
        - ``n_cases`` runs with weight in their first k; ``n_items``, ``n_corrections`` items with weight there and the
          corrections behind them; ``weight``, ``yes_weight`` sums of weights; ``n_eff``, ``deff``, ``few_cases`` as in
          `yes_rates`.
        - ``n_slots`` places within k that outputs fill; ``n_judged`` of them corrected, at whatever weight;
          ``judged_share`` their ratio. A low share means that the precision rests on few of the places.
        - ``n_stored_ranks`` runs whose output is missing or has no list: there an item's stored rank decides
          (rank < k), and how many places are filled is not known; they are not in ``n_slots`` and ``n_judged``.
        - ``n_unmatched`` corrected items that no item of their case's output is: left out. ``n_unknown_expert`` items
          whose expert weights are missing.
        - ``k``, ``weights``, ``level`` as asked; ``reason`` why a number is missing.

        NaN where undefined, never 0.

    Raises
    ------
    KeyError
        A needed column is missing.
    ValueError
        An argument is not known or out of range, an item's weights contradict each other, or a case has two corrected
        items of one key.

    Notes
    -----
    Precision at k of information retrieval divides by k: with one verdict of weight 1 an item and at least k items
    retrieved, a case's P@k is its own ratio here times the judged share of its first k places. It counts a place that
    nobody judged as a miss, here it is no evidence; so P@k ≤ precision, and equal where every place is judged. The
    server pools weights over cases where trec_eval averages over topics.

    References
    ----------
    .. [1] Buckley, Voorhees (2004), "Retrieval evaluation with incomplete information", SIGIR,
       doi:10.1145/1008992.1009000.

    Examples
    --------
    >>> case = {"case_id": ["c1"] * 3, "key": ["a", "b", "c"], "pointer": ["/m/0", "/m/1", "/m/2"]}
    >>> ranked = pd.DataFrame({**case, "own_key": True, "place": [0, 1, 2]})
    >>> items = pd.DataFrame({"case_id": ["c1"] * 2, "key": ["a", "c"], "pointer": ["/m/0", "/m/2"], "rank": [0, 2],
    ...     "yes": [1, 0], "no": [1, 1], "yes_weight": [3.0, 0.0], "total_weight": [4.0, 1.0]})
    >>> precision_at_k(ranked, items, k=2)[["precision", "n_items", "n_slots", "judged_share"]]
       precision  n_items  n_slots  judged_share
    0       0.75        1        2           0.5
    """
    check_whole("k", k)
    check_level(level)
    names = group_names(by, taken=PRECISION)
    matched = match(ranked, items, names, weights, of_outputs=("place",), of_items=("rank",))
    place, rank = number("place", columns_of(ranked)["place"]), number("rank", matched.opened.dtypes["rank"])
    got = sum_places(matched, place < k, rank < k)
    ratio = linearised(got["y"], got["x"], got["r_e2"], got["r_x2"], got["r_m"], got["n"])
    low, high = wilson(ratio.rate, ratio.n_eff, t_quantile(got["r_m"] - 1, level))
    reasons = [
        ("no items" if rows + slots == 0 else "no weight among the first k")
        if m == 0
        else (TOO_LARGE if np.isnan(x) else "one case" if m == 1 else None)
        for rows, slots, m, x in zip(got["corrected"], got["slots"], got["r_m"], got["x"], strict=True)
    ]
    with np.errstate(invalid="ignore", divide="ignore"):
        case_mean = got["r_each"] / np.where(got["r_m"] > 0, got["r_m"], np.nan)
        judged_share = got["judged"] / np.where(got["slots"] > 0, got["slots"], np.nan)
    return got.groups.assign(
        precision=ratio.rate,
        low=low,
        high=high,
        se=ratio.se,
        case_mean=case_mean,
        n_cases=got.count("r_m"),
        n_items=got.count("items"),
        n_corrections=got.count("n"),
        weight=got["x"],
        yes_weight=got["y"],
        n_eff=ratio.n_eff,
        deff=ratio.deff,
        few_cases=got["r_m"] < FEW_CASES,
        n_slots=got.count("slots"),
        n_judged=got.count("judged"),
        judged_share=judged_share,
        n_stored_ranks=got.count("stored_m"),
        n_unmatched=got.count("lost"),
        n_unknown_expert=got.count("unknown"),
        k=int(k),
        weights=pd.Series(weights, index=got.groups.index, dtype=TEXT),
        level=float(level),
        reason=pd.Series(reasons, index=got.groups.index, dtype=TEXT),
    )


def sum_places(matched: Matched, top: nw.Expr, first: nw.Expr) -> Moments:
    """Sum verdicts and places per group: over outputs' items where ``top`` holds.

    Where a case has no list to rank by, the server's figure falls back to the ranks stored with the corrections: there
    the corrected items where ``first`` holds are summed.

    Parameters
    ----------
    matched
        Outputs' items with their ``place``, and corrected items with their ``rank``.
    top, first
        Conditions on an output's items, and on corrected items.

    Returns
    -------
    Moments
        The ratio ``r`` of ``y`` to ``x``; ``n`` corrections and ``items`` items with weight, ``light`` items corrected
        without; ``slots`` places, of which ``judged`` are corrected; ``stored`` items of cases without a list, of which
        ``kept`` are summed; ``lost`` other items that no output has. ``unsure`` those of the items summed or lost whose
        expert weights are missing.
    """
    stored = nw.col("__ranked").is_null()
    kept = (stored & first).fill_null(False)
    weighted = nw.col("__x") > 0
    light = (nw.col("__judged") > 0) & ~weighted
    return matched.moments(
        {
            **{name: when(top, nw.col(f"__{name}")) for name in ("y", "x", "judged")},
            "unsure": when(top, nw.col("__unknown")),
            "n": when(top & weighted, nw.col("__n")),
            "items": when(top & weighted),
            "light": when(top & light),
            "slots": when(top),
        },
        {
            **{name: when(kept, nw.col(f"__{name}")) for name in ("y", "x")},
            "n": when(kept & weighted, nw.col("__n")),
            "items": when(kept & weighted),
            "light": when(kept & light),
            "kept": when(kept),
            "lost": when(~kept, nw.col("__unmatched")),
            "unsure": when(kept | (nw.col("__unmatched") > 0), nw.col("__unknown")),
            "stored": when(stored),
        },
        {"r": ("y", "x"), "stored": ("stored", "stored"), "kept": ("kept", "kept")},
    )


def coverage(
    ranked: IntoFrame,
    items: IntoFrame,
    *,
    by: By = None,
    weights: Weights = "recorded",
    level: float = 0.95,
) -> pd.DataFrame:
    """Share of the outputs' items that somebody corrected (the server's corrected coverage).

    coverage = items of the outputs with corrections / items of the outputs, pooled over cases. An agent's answer and a
    flow's whole output are items too. An item of weight 0 counts as corrected.

    Parameters
    ----------
    ranked
        The outputs' items, corrected or not, as ``output_items`` lists them.
    items
        The corrected items, as in ``CaseSet.items``; in any engine that `yes_rates` takes.
    by
        Column or columns, in both frames, to group by; ``None`` makes one row. A missing key is a group of its own.
    weights
        With ``"expert"`` an item is corrected only when experts' weight on it is above 0.
    level
        Confidence of the interval, in (0, 1).

    Returns
    -------
    pd.DataFrame
        One row per group, sorted by the ``by`` columns, missing keys last; then:

        - ``coverage`` in [0, 1] with ``low``, ``high``, ``se`` as in `yes_rates` (runs are clusters, Wilson with t);
          ``case_mean`` the mean of the cases' own shares.
        - ``n_cases`` runs whose output has items; ``n_items`` items of their outputs; ``n_judged`` of them corrected;
          ``n_corrections`` and ``weight`` behind those; ``n_eff`` effective number of items, ``deff``, ``few_cases``.
        - ``n_without_output`` runs with corrected items whose output is missing or has no items: left out.
          ``n_unmatched`` corrected items that no item of their case's output is: left out. ``n_unknown_expert`` items
          whose expert weights are missing.
        - ``weights``, ``level`` as asked; ``reason`` why a number is missing.

        NaN where undefined, never 0.

    Raises
    ------
    KeyError
        A needed column is missing.
    ValueError
        An argument is not known or out of range, an item's weights contradict each other, or a case has two corrected
        items of one key.

    Examples
    --------
    >>> case = {"case_id": ["c1"] * 3, "key": ["a", "b", "c"], "pointer": ["/m/0", "/m/1", "/m/2"]}
    >>> ranked = pd.DataFrame({**case, "own_key": True})
    >>> items = pd.DataFrame({"case_id": ["c1"], "key": ["b"], "pointer": ["/m/1"], "yes": [1], "no": [0],
    ...     "yes_weight": [1.0], "total_weight": [1.0]})
    >>> coverage(ranked, items)[["coverage", "n_items", "n_judged"]].round(3)
       coverage  n_items  n_judged
    0     0.333        3         1
    """
    check_level(level)
    names = group_names(by, taken=COVERAGE)
    got = match(ranked, items, names, weights).moments(
        {
            "judged": nw.col("__judged"),
            "slots": nw.lit(1.0),
            "n": when(nw.col("__judged") > 0, nw.col("__n")),
            "x": nw.col("__x"),
        },
        {"without": when(nw.col("__listed").is_null())},
        {"r": ("judged", "slots"), "without": ("without", "without")},
    )
    ratio = linearised(got["judged"], got["slots"], got["r_e2"], got["r_x2"], got["r_m"], got["slots"])
    low, high = wilson(ratio.rate, ratio.n_eff, t_quantile(got["r_m"] - 1, level))
    reasons = [
        "no output items" if m == 0 and rows else "no items" if m == 0 else "one case" if m == 1 else None
        for rows, m in zip(got["corrected"], got["r_m"], strict=True)
    ]
    return got.groups.assign(
        coverage=ratio.rate,
        low=low,
        high=high,
        se=ratio.se,
        case_mean=got["r_each"] / np.where(got["r_m"] > 0, got["r_m"], np.nan),
        n_cases=got.count("r_m"),
        n_items=got.count("slots"),
        n_judged=got.count("judged"),
        n_corrections=got.count("n"),
        weight=got["x"],
        n_eff=ratio.n_eff,
        deff=ratio.deff,
        few_cases=got["r_m"] < FEW_CASES,
        n_without_output=got.count("without_m"),
        n_unmatched=got.count("unmatched"),
        n_unknown_expert=got.count("unknown"),
        weights=pd.Series(weights, index=got.groups.index, dtype=TEXT),
        level=float(level),
        reason=pd.Series(reasons, index=got.groups.index, dtype=TEXT),
    )
