"""The forest plot of weighted precision at k."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from casekit.errors import counted
from casekit.plots.captions import WILSON, left_out, line_words, weight_words
from casekit.plots.columns import check_frame, counts, floats, percents, reason_texts
from casekit.plots.intervals import Intervals, interval_texts
from casekit.plots.sheet import Groups, Sheet

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["plot_precision"]

NEEDED: Final = (
    "precision",
    "low",
    "high",
    "n_cases",
    "n_corrections",
    "few_cases",
    "judged_share",
    "n_stored_ranks",
    "n_unmatched",
    "k",
    "weights",
    "level",
    "reason",
)


def plot_precision(precision: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Forest plot of precision at k: one row per group, the share of yes among the first k items of its outputs.

    Parameters
    ----------
    precision
        The frame that `casekit.precision_at_k` returns: the by columns, then ``precision``, ``low``, ``high`` in
        [0, 1] and the rest. Not changed. Rows keep their order, the first on top; past 50 rows the rest is counted
        in the caption. Where frames of several k stand one below the other, k is a key like the by columns.
    ax
        Axes to draw on. None makes a new figure, sized to the number of groups.

    Returns
    -------
    matplotlib.axes.Axes
        The axes, with the marks of `plot_yes_rates`. The column ``Judged`` is the share of the first k places that
        anybody corrected.

    Raises
    ------
    KeyError
        A needed column is missing; the message names it.
    ValueError
        A column of numbers holds something else.
    TypeError
        ``precision`` is no pandas DataFrame, or ``ax`` no axes.
    MissingExtraError
        matplotlib is not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> precision = pd.DataFrame({
    ...     "version": ["1.0"], "precision": [0.7], "low": [0.6], "high": [0.8], "n_cases": [20],
    ...     "n_corrections": [90], "few_cases": [False], "judged_share": [0.4], "n_stored_ranks": [0],
    ...     "n_unmatched": [0], "k": [10], "weights": "recorded", "level": 0.95, "reason": [None],
    ... })
    >>> ax = plot_precision(precision)
    >>> ax.get_xlabel()
    'Share of yes among the first 10'
    """
    check_frame(precision, NEEDED, plot="plot_precision", made_by="precision_at_k")
    ks = np.unique(floats(precision["k"].dropna()))
    groups = Groups.of(precision if len(ks) < 2 else _keyed_by_k(precision), first="precision")
    frame = groups.frame
    first = f"first {ks[0]:.0f}" if len(ks) == 1 else "first k"
    share = Intervals.of(frame, "precision")
    sheet = Sheet(
        ax,
        groups,
        title=groups.titled(f"Share of yes among the {first} items"),
        caption=[
            line_words(frame, WILSON),
            *weight_words(frame),
            "Judged: share of the first places that anybody corrected.",
            _stored(frame),
            left_out({"item corrected, but in no output": frame["n_unmatched"]}),
            *share.key(),
        ],
        columns=[
            ("Share (interval)", interval_texts(frame, "precision", "low", "high")),
            ("Judged", percents(frame["judged_share"])),
            ("Cases", counts(frame["n_cases"])),
            ("Corrections", counts(frame["n_corrections"])),
        ],
    )
    sheet.share_axis(f"Share of yes among the {first}")
    share.draw(sheet)
    share.say(sheet, share.told(reason_texts(frame)))
    return sheet.ax


def _keyed_by_k(precision: pd.DataFrame) -> pd.DataFrame:
    """Move the column k to the end of the by columns."""
    columns = list(precision.columns)
    order = list(range(len(columns)))
    order.insert(columns.index("precision"), order.pop(columns.index("k")))
    return precision.iloc[:, order]


def _stored(frame: pd.DataFrame) -> str:
    n = float(np.nansum(floats(frame["n_stored_ranks"])))
    return f"Without a list of the output, the stored ranks decide ({counted(n, 'case')})." if n > 0 else ""
