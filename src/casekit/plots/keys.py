"""The forest plot of ranked keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from casekit.errors import counted
from casekit.plots.captions import line_words
from casekit.plots.columns import check_frame, counts, floats, p_values, reason_texts
from casekit.plots.intervals import Intervals
from casekit.plots.sheet import Groups, Sheet

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["plot_keys"]

NEEDED: Final = (
    "rank",
    "rate",
    "shrunk_rate",
    "low",
    "high",
    "q_value",
    "n_cases",
    "n_yes",
    "n_corrections",
    "n_tested",
    "prior_mean",
    "level",
    "reason",
)


def plot_keys(ranks: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Forest plot of ranked keys: one row per key, its cautious share of yes beside the one as counted.

    Parameters
    ----------
    ranks
        The frame that `casekit.rank_keys` returns: the key, then ``rank``, ``rate``, ``shrunk_rate``, ``low``, ``high``
        and the rest. Not changed. Rows keep their order, the first on top; past 50 rows the rest is counted in the
        caption.
    ax
        Axes to draw on. None makes a new figure, sized to the number of keys.

    Returns
    -------
    matplotlib.axes.Axes
        The axes. A circle with a line is the shrunk rate with its interval, a tick the rate as counted, the dashed
        line the mean that rates are drawn towards. Without an interval the shrunk rate is a hollow diamond.

    Raises
    ------
    KeyError
        A needed column is missing; the message names it.
    ValueError
        A column of numbers holds something else.
    TypeError
        ``ranks`` is no pandas DataFrame, or ``ax`` no axes.
    MissingExtraError
        matplotlib is not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> ranks = pd.DataFrame({
    ...     "key": ["a", "b"], "rank": [1, 2], "rate": [0.9, 0.2], "shrunk_rate": [0.8, 0.3], "low": [0.6, 0.1],
    ...     "high": [0.95, 0.5], "q_value": [0.01, 0.3], "n_cases": [9, 4], "n_yes": [9, 1], "n_corrections": [10, 5],
    ...     "n_tested": 2, "prior_mean": 0.6, "level": 0.95, "reason": [None, None],
    ... })
    >>> ax = plot_keys(ranks)
    >>> ax.get_title(loc="left")
    'Cautious share of yes by key'
    """
    check_frame(ranks, NEEDED, plot="plot_keys", made_by="rank_keys")
    groups = Groups.of(ranks, first="rank")
    frame = groups.frame
    shrunk, raw = Intervals.of(frame, "shrunk_rate"), floats(frame["rate"])
    reasons = dict.fromkeys(filter(None, reason_texts(frame)))  # one for all keys, hence not in the rows
    sheet = Sheet(
        ax,
        groups,
        title=groups.titled("Cautious share of yes"),
        caption=[
            "Circle: share of yes drawn towards that of all keys (dashed)." if shrunk.sure.any() else "",
            line_words(frame, "posterior of the fitted beta distribution") if shrunk.sure.any() else "",
            "Tick: share as counted, without weights." if np.isfinite(raw).any() else "",
            *shrunk.key(),
            *(f"No interval: {reason}." for reason in reasons),
            _tested(frame),
        ],
        columns=[
            ("Rank", counts(frame["rank"])),
            ("Yes of corrections", _of(frame["n_yes"], frame["n_corrections"])),
            ("Cases", counts(frame["n_cases"])),
            ("q", p_values(frame["q_value"])),
        ],
    )
    sheet.share_axis("Share of yes")
    for mean in np.unique(floats(frame["prior_mean"].dropna())):
        sheet.ax.axvline(mean, color=sheet.guide, linewidth=0.8, linestyle="--", zorder=1)
    sheet.ticks(raw)
    shrunk.draw(sheet)
    seen = shrunk.known | np.isfinite(raw)
    none = floats(frame["n_corrections"]) == 0
    shrunk.say(sheet, np.where(none, "no corrections", np.where(seen, "", "no value")).tolist())
    return sheet.ax


def _of(part: pd.Series[Any], whole: pd.Series[Any]) -> list[str]:
    return [f"{a} of {b}" for a, b in zip(counts(part), counts(whole), strict=True)]


def _tested(frame: pd.DataFrame) -> str:
    n = floats(frame["n_tested"].dropna())
    if not len(n) or not n.max():
        return ""
    return f"q: p-value of no difference from all other keys, adjusted for {counted(n.max(), 'key')} tested."
