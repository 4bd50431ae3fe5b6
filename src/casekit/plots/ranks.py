"""The plot of yes-rates by rank."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from casekit.errors import counted
from casekit.plots.canvas import LETTER, size_in_points
from casekit.plots.captions import WILSON, left_out, line_words, weight_words
from casekit.plots.colours import mix
from casekit.plots.columns import check_frame, counts, floats, percents
from casekit.plots.intervals import Intervals
from casekit.plots.labels import plain
from casekit.plots.plane import Plane

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

__all__ = ["plot_ranks"]

NEEDED: Final = (
    "rank",
    "rate",
    "low",
    "high",
    "n_cases",
    "n_slots",
    "n_unjudged",
    "n_items",
    "few_cases",
    "n_zero_weight",
    "n_stored_ranks",
    "n_unmatched",
    "weights",
    "level",
)
ROWS: Final = {"Cases": "n_cases", "Places": "n_slots", "No verdict": "n_unjudged"}
MAX_RANKS: Final = 100  # as many as a list that has items can be long
BARS: Final = (-0.26, -0.07)  # where bars stand below the shares, on the vertical axis
BAR_WIDTH: Final = 0.8  # of a rank


def plot_ranks(rates: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Yes-rate by rank, as points with a band, above bars of the places with and without a verdict.

    Parameters
    ----------
    rates
        The frame that `casekit.rank_rates` returns: ``rank``, ``rate``, ``low``, ``high`` in [0, 1] and the rest. Not
        changed. Past 100 ranks the rest is counted in the caption; so are items without a rank.
    ax
        Axes to draw on. None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes. A filled circle is a rate with its interval as the band, a hollow one a rate from few cases, a hollow
        diamond a rate without interval; a rank without a rate has no point. Bars below are as high as the outputs'
        places at that rank are many: filled where somebody corrected, hollow where there is no verdict. Below the
        ticks stand the numbers of cases with a verdict of weight, of places, and of places without a verdict.

    Raises
    ------
    KeyError
        A needed column is missing; the message names it.
    ValueError
        A rank stands twice, or a column of numbers holds something else.
    TypeError
        ``rates`` is no pandas DataFrame, or ``ax`` no axes.
    MissingExtraError
        matplotlib is not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> rates = pd.DataFrame({
    ...     "rank": [0, 1, 2], "rate": [0.9, 0.7, None], "low": [0.8, 0.5, None], "high": [0.95, 0.85, None],
    ...     "n_cases": [30, 18, 0], "n_slots": [31, 31, 12], "n_unjudged": [1, 13, 12], "n_items": [30, 18, 0],
    ...     "few_cases": [False, False, True], "n_zero_weight": 0, "n_stored_ranks": 0, "n_unmatched": 0,
    ...     "weights": "recorded", "level": 0.95,
    ... })
    >>> ax = plot_ranks(rates)
    >>> ax.get_xlabel()
    'Rank in the output (0 is first)'
    """
    check_frame(rates, NEEDED, plot="plot_ranks", made_by="rank_rates")
    order = floats(rates["rank"])
    frame = rates.iloc[np.argsort(order, kind="stable")]
    order = np.sort(order)  # a missing rank is the last
    frame, unranked = frame[np.isfinite(order)], frame[~np.isfinite(order)]
    ranks = order[np.isfinite(order)]
    if twice := [a for a, b in pairwise(ranks.tolist()) if a == b]:
        raise ValueError(
            f"plot_ranks draws one row per rank, and rank {twice[0]:g} stands twice: draw each group on its own axes."
        )
    n_ranks = len(ranks)
    frame, ranks = frame.iloc[:MAX_RANKS], ranks[:MAX_RANKS]
    rate = Intervals.of(frame, "rate")
    plane = Plane(
        ax,
        texts=[plain(weights) for weights in rates["weights"].dropna().unique()],
        title="Share of yes by rank",
        names=("Rank in the output (0 is first)", "Share of yes"),
        caption=[
            line_words(frame, WILSON, sign="Band") if rate.sure.any() else "",
            *weight_words(frame),
            *rate.key(),
            "Bars: places of the outputs at the rank, hollow without a verdict. Cases: those with a verdict of weight.",
            "No point: no verdict of weight." if not rate.known.all() else "",
            _stored(frame),
            _without_rank(unranked),
            left_out(
                {
                    "item corrected, but without weight": frame["n_zero_weight"],
                    "item corrected, but in no output": rates["n_unmatched"],
                }
            ),
            f"The first {len(ranks)} of {n_ranks:,} ranks; {n_ranks - len(ranks):,} are not shown."
            if n_ranks > len(ranks)
            else "",
        ],
        rows=len(ROWS),
    )
    plane.ax.set_ylim(BARS[0] - 0.02, 1.06)
    if not len(ranks):
        plane.nothing("no ranks")
        plane.ax.set_xticks([])
        return plane.ax
    plane.ax.set_xlim(ranks[0] - 0.7, ranks[-1] + 0.7)
    _band(plane, ranks, rate)
    _bars(plane, ranks, frame)
    _numbers(plane, ranks, frame)
    return plane.ax


def _runs(ranks: NDArray[np.float64], rows: NDArray[np.bool_]) -> list[NDArray[np.intp]]:
    """Split the rows wanted into runs of ranks that follow each other."""
    at = np.flatnonzero(rows)
    return [run for run in np.split(at, np.flatnonzero(np.diff(ranks[at]) != 1) + 1) if len(run)]


def _band(plane: Plane, ranks: NDArray[np.float64], rate: Intervals) -> None:
    """Draw rates with their intervals; what is not known leaves a gap."""
    ax, colour = plane.ax, plane.accent
    pale = mix(colour, plane.paper, 0.7)
    for run in _runs(ranks, rate.sure):
        edges = np.column_stack([ranks[run] - 0.5, ranks[run] + 0.5]).ravel()
        low, high = (np.repeat(side[run], 2) for side in (rate.low, rate.high))
        ax.fill_between(edges, low, high, color=pale, linewidth=0, zorder=1.5)
    for run in _runs(ranks, rate.known):
        ax.plot(ranks[run], rate.point[run], "-", color=colour, linewidth=1.0, zorder=2)
    look = plane.mark_look(colour, colour)
    points = size_in_points(ax)[0] / (ranks[-1] - ranks[0] + 2)  # per rank
    look["markersize"] = min(look["markersize"], 0.8 * max(points, 2.0))
    for rows, shape, face in (
        (rate.sure & ~rate.few, "o", colour),
        (rate.sure & rate.few, "o", plane.paper),
        (rate.known & ~rate.sure, "D", plane.paper),
    ):
        ax.plot(ranks[rows], rate.point[rows], shape, zorder=3, **{**look, "markerfacecolor": face})


def _bars(plane: Plane, ranks: NDArray[np.float64], frame: pd.DataFrame) -> None:
    """Draw how many places there are, with and without a verdict, as high as the most at one rank."""
    places, empty = np.nan_to_num(floats(frame["n_slots"])), np.nan_to_num(floats(frame["n_unjudged"]))
    start, end = BARS
    unit = (end - start) / max(places.max(), 1)
    judged = places - empty
    some, none = judged > 0, empty > 0  # an empty bar would still draw its edge
    ax, fill = plane.ax, mix(plane.accent, plane.paper, 0.4)
    ax.bar(ranks[some], unit * judged[some], BAR_WIDTH, start, color=fill, linewidth=0, zorder=2)
    ax.bar(
        ranks[none],
        unit * empty[none],
        BAR_WIDTH,
        (start + unit * judged)[none],
        facecolor=plane.paper,
        edgecolor=plane.muted,
        linewidth=0.6,
        zorder=2,
    )


def _numbers(plane: Plane, ranks: NDArray[np.float64], frame: pd.DataFrame) -> None:
    """Write numbers below as many ranks as there is room for."""
    from matplotlib.ticker import MaxNLocator

    rows = {name: counts(frame[column]) for name, column in ROWS.items()}
    widest = 2 + max(len(text) for texts in rows.values() for text in texts)
    room = max(1, int(size_in_points(plane.ax)[0] / (LETTER * plane.size * widest)))
    shown = np.arange(len(ranks))
    if len(ranks) > room:
        wanted = MaxNLocator(min(room, 10), integer=True).tick_values(ranks[0], ranks[-1])
        shown = np.flatnonzero(np.isin(ranks, wanted))
    plane.ax.set_xticks(ranks[shown], labels=[f"{rank:,.0f}" for rank in ranks[shown]])
    for row, (name, texts) in enumerate(rows.items()):
        plane.numbers(row, name, ranks[shown].tolist(), [texts[i] for i in shown])


def _stored(frame: pd.DataFrame) -> str:
    n = float(np.nansum(floats(frame["n_stored_ranks"])))
    return f"Verdicts that stand at their stored rank, for want of a list of the output: {n:,.0f}." if n > 0 else ""


def _without_rank(unranked: pd.DataFrame) -> str:
    """Say what the items without a rank would show."""
    n = float(np.nansum(floats(unranked["n_items"])))
    if not n > 0:
        return ""
    return f"Not drawn: {counted(n, 'corrected item')} without a rank, share of yes {percents(unranked['rate'])[0]}."
