"""How often people said yes at each rank of the outputs, and how many places there have no verdict."""

from __future__ import annotations

from dataclasses import replace

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoFrame

from casekit.stats.frames import TEXT, TOO_LARGE, Weights, check_level, columns_of, number
from casekit.stats.intervals import FEW_CASES, linearised, t_quantile, wilson
from casekit.stats.matching import match
from casekit.stats.ranking import sum_places

__all__ = ["rank_rates"]

LAST = 2.0**53  # above it a float is no single whole number


def rank_rates(
    ranked: IntoFrame, items: IntoFrame, *, weights: Weights = "recorded", level: float = 0.95
) -> pd.DataFrame:
    """Weighted share of "yes" at each rank of the outputs, beside how many places nobody judged.

    rate R_r = Σ yes weight / Σ total weight, pooled over the items of rank r of all outputs. A place is one item of an
    output; the places of rank r that nobody corrected are no evidence, and are counted.

    Parameters
    ----------
    ranked
        The outputs' items, corrected or not, as ``output_items`` lists them. An item's ``rank`` is its index in its
        own list, so that with several lists a run has several places of one rank.
    items
        The corrected items, as in ``CaseSet.items``; in any engine that `yes_rates` takes. When both frames are lazy
        and of one engine, the join runs there.
    weights
        ``"recorded"``, ``"expert"`` or ``"count"``, as for `yes_rates`. With ``"expert"`` an item without experts'
        weight, or with unknown one, counts as not corrected.
    level
        Confidence of the intervals, in (0, 1); of each rank for itself, not of all ranks together.

    Returns
    -------
    pd.DataFrame
        One row per rank, in order; items without a rank (an answer, a whole output) are a row of their own, the last,
        with ``rank`` missing. Then:

        - ``rank`` from 0, which is first.
        - ``rate`` in [0, 1] with ``low``, ``high``, ``se`` as in `yes_rates` (runs are clusters, Wilson with t).
        - ``n_cases`` runs with weight at the rank; ``n_items`` items with weight there, ``n_corrections`` behind them;
          ``weight`` Σ total weight; ``n_eff``, ``deff``, ``few_cases`` as in `yes_rates`.
        - ``n_slots`` places of the rank that outputs fill; ``n_judged`` of them corrected, at whatever weight;
          ``n_unjudged`` the others, which have no verdict. ``n_zero_weight`` corrected items left out because nobody's
          weight is on them.
        - ``n_stored_ranks`` runs whose output is missing or has no list: there an item's stored rank decides, and
          how many places are filled is not known; they are not in ``n_slots``, ``n_judged`` and ``n_unjudged``.
        - ``n_unmatched`` corrected items, at their stored rank, that no item of their case's output is: left out.
          ``n_unknown_expert`` items whose expert weights are missing.
        - ``weights``, ``level`` as asked; ``reason`` why a number is missing.

        NaN where undefined, never 0. No rows when there are no items.

    Raises
    ------
    KeyError
        A needed column is missing.
    ValueError
        An argument is not known or out of range, an item's weights contradict each other, a rank is no whole
        number from 0, or a case has two corrected items of one key.

    Notes
    -----
    Who judges far down the ranking is seldom random: a rate where few places have a verdict speaks for those alone.

    References
    ----------
    .. [1] Cochran (1977), "Sampling Techniques", 3rd ed., chapter 6.

    Examples
    --------
    >>> case = {"case_id": ["c1"] * 3, "key": ["a", "b", "c"], "pointer": ["/m/0", "/m/1", "/m/2"]}
    >>> ranked = pd.DataFrame({**case, "own_key": True, "rank": [0, 1, 2], "place": [0, 1, 2]})
    >>> items = pd.DataFrame({"case_id": ["c1"] * 2, "key": ["a", "c"], "pointer": ["/m/0", "/m/2"], "rank": [0, 2],
    ...     "yes": [1, 0], "no": [1, 1], "yes_weight": [3.0, 0.0], "total_weight": [4.0, 1.0]})
    >>> rank_rates(ranked, items)[["rank", "rate", "n_slots", "n_unjudged"]]
       rank  rate  n_slots  n_unjudged
    0     0  0.75        1           0
    1     1   NaN        1           1
    2     2  0.00        1           0
    """
    check_level(level)
    matched = match(ranked, items, ["rank"], weights, of_outputs=("place",))
    places, stored = _as_number(ranked), _as_number(items)
    matched = replace(matched, outputs=matched.outputs.with_columns(places), items=matched.items.with_columns(stored))
    # An item that an output has is summed there, at the output's rank.
    got = sum_places(matched, nw.lit(True), nw.col("__hit").is_null())
    ratio = linearised(got["y"], got["x"], got["r_e2"], got["r_x2"], got["r_m"], got["n"])
    low, high = wilson(ratio.rate, ratio.n_eff, t_quantile(got["r_m"] - 1, level))
    reasons = [
        ("in no output" if places == 0 else "no corrections" if n == 0 else "no weight")
        if m == 0
        else (TOO_LARGE if np.isnan(x) else "one case" if m == 1 else None)
        for places, n, m, x in zip(
            got["slots"] + got["kept"], got["items"] + got["light"], got["r_m"], got["x"], strict=True
        )
    ]
    table = got.groups.assign(
        rate=ratio.rate,
        low=low,
        high=high,
        se=ratio.se,
        n_cases=got.count("r_m"),
        n_items=got.count("items"),
        n_corrections=got.count("n"),
        weight=got["x"],
        n_eff=ratio.n_eff,
        deff=ratio.deff,
        few_cases=got["r_m"] < FEW_CASES,
        n_slots=got.count("slots"),
        n_judged=got.count("judged"),
        n_unjudged=(got["slots"] - got["judged"]).astype(np.int64),
        n_zero_weight=got.count("light"),
        n_stored_ranks=got.count("kept_m"),
        n_unmatched=got.count("lost"),
        n_unknown_expert=got.count("unsure"),
        weights=pd.Series(weights, index=got.groups.index, dtype=TEXT),
        level=float(level),
        reason=pd.Series(reasons, index=got.groups.index, dtype=TEXT),
    )
    # A corrected item that is stored with another rank than its output gives it leaves a row of nothing there.
    table = table[got["slots"] + got["kept"] + got["lost"] > 0].reset_index(drop=True)
    ranks = table["rank"].to_numpy(dtype=np.float64, na_value=np.nan)
    if odd := ranks[(ranks != np.floor(ranks)) & ~np.isnan(ranks) | (ranks < 0) | (ranks > LAST)].tolist():
        raise ValueError(f"The rank {odd[0]!r} is no whole number: a rank is an item's index in its list, from 0.")
    return table.astype({"rank": "Int64"})


def _as_number(frame: IntoFrame) -> nw.Expr:
    """Read ``rank`` as one type in both frames: where some are missing, pandas makes whole numbers floats."""
    return number("rank", columns_of(frame)["rank"]).alias("rank")
