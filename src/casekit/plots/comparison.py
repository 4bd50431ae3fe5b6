"""The dumbbell plot of a comparison of two versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from casekit.errors import counted
from casekit.plots.captions import line_words, weight_words
from casekit.plots.colours import mix
from casekit.plots.columns import check_frame, counts, flags, floats, item_changes, percents, reason_texts
from casekit.plots.intervals import Intervals, interval_texts
from casekit.plots.labels import plain
from casekit.plots.sheet import Groups, Sheet

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

__all__ = ["plot_comparison"]

METHODS: Final = {
    "paired": "cases in both versions paired",
    "welch": "no case in both (Welch)",
    "mover": "from the intervals of both sides (MOVER)",
}
NEEDED: Final = (
    "before_rate",
    "after_rate",
    "difference",
    "low",
    "high",
    "method",
    "common_difference",
    "few_cases",
    "n_cases",
    "n_cases_common",
    "n_cases_erased",
    "n_items_added",
    "n_items_removed",
    "n_items_changed",
    "weights",
    "level",
    "reason",
)
NARROWEST: Final = 0.1  # the axis' width at least, so that no difference looks large
MARGIN: Final = 0.05  # of the axis' width, so that a point at either end is drawn whole


def plot_comparison(change: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Dumbbell plot of a comparison: one row per group, its yes-rate before and after, and how sure the difference is.

    Parameters
    ----------
    change
        The frame that `casekit.compare` returns: the by columns, then ``before_rate``, ``after_rate``,
        ``difference`` in [-1, 1] with ``low`` and ``high``, and the rest. Not changed. Rows keep their order, the
        first on top; past 50 rows the rest is counted in the caption.
    ax
        Axes to draw on. None makes a new figure, sized to the number of groups.

    Returns
    -------
    matplotlib.axes.Axes
        The axes. A grey square is the share before, a circle the one after, a pale bar joins them. The line is the
        interval of the difference, laid from the share before: where it reaches the square, there may be no change. A
        hollow circle rests on few cases, a hollow diamond has no interval. A tick is the change over the cases that
        both versions have, laid from the share before.

    Raises
    ------
    KeyError
        A needed column is missing; the message names it.
    ValueError
        A column of numbers holds something else.
    TypeError
        ``change`` is no pandas DataFrame, or ``ax`` no axes.
    MissingExtraError
        matplotlib is not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> change = pd.DataFrame({
    ...     "version": ["1.0"], "before_rate": [0.6], "after_rate": [0.7], "difference": [0.1], "low": [0.02],
    ...     "high": [0.18], "method": ["paired"], "common_difference": [0.08], "few_cases": [False], "n_cases": [90],
    ...     "n_cases_common": [70], "n_cases_erased": [0], "n_items_added": [5], "n_items_removed": [1],
    ...     "n_items_changed": [9], "weights": "recorded", "level": 0.95, "reason": [None],
    ... })
    >>> ax = plot_comparison(change)
    >>> ax.get_xlabel()
    'Share of yes'
    """
    check_frame(change, NEEDED, plot="plot_comparison", made_by="compare")
    groups = Groups.of(change, first="before_rate")
    frame = groups.frame
    before, after = floats(frame["before_rate"]), floats(frame["after_rate"])
    common = before + floats(frame["common_difference"])
    low, high = (before + floats(frame[name]) for name in ("low", "high"))
    bounds = _bounds([before, after, low, high, common])
    moved = Intervals(after, low, high, flags(frame["few_cases"]), bounds)
    methods = [METHODS.get(method, plain(method)) for method in frame["method"].dropna().unique()]
    known = np.isfinite(before)
    sheet = Sheet(
        ax,
        groups,
        title=groups.titled("Share of yes before and after"),
        caption=[
            "Square: before. Circle: after." if known.any() else "",
            line_words(frame, "; ".join(methods), what="interval of the change"),
            "Laid from the share before: where it reaches the square, there may be no change." if methods else "",
            *weight_words(frame),
            "Tick: after, over the cases in both versions alone." if np.isfinite(common).any() else "",
            "Items: added +, removed −, changed ~.",
            _erased(frame),
            *moved.key(),
        ],
        columns=[
            ("Before", percents(frame["before_rate"])),
            ("After", percents(frame["after_rate"])),
            ("Change (interval)", interval_texts(frame, "difference", "low", "high", form="{:+.1f}")),
            ("Cases", counts(frame["n_cases"])),
            ("In both", counts(frame["n_cases_common"])),
            ("Items", item_changes(frame)),
        ],
    )
    _share_axis(sheet, bounds)
    both = known & moved.known
    y = np.arange(len(frame))
    pale = mix(sheet.accent, sheet.paper, 0.6)
    sheet.ax.hlines(y[both], before[both], after[both], color=pale, linewidth=0.6 * sheet.size, zorder=1.5)
    sheet.marks(before[known], y[known], "s", sheet.muted, sheet.muted)
    sheet.ticks(common)
    moved.draw(sheet)
    reasons = moved.told(reason_texts(frame))
    alone = known & ~moved.known
    for row in np.flatnonzero(alone).tolist():
        sheet.inside(reasons[row], before[row], row, ha="left" if before[row] < sum(bounds) / 2 else "right")
    moved.say(sheet, ["" if one else reason for one, reason in zip(alone.tolist(), reasons, strict=True)])
    return sheet.ax


def _bounds(values: list[NDArray[np.float64]]) -> tuple[float, float]:
    """Find the ends of the axis: as near as shares and intervals allow, and never beyond 0 and 1."""
    found = np.concatenate(values)
    found = found[np.isfinite(found)].clip(0, 1)
    if not len(found):
        return 0.0, 1.0
    low, high = float(found.min()), float(found.max())
    short = max(0.0, NARROWEST - (high - low)) / 2
    low, high = low - short, high + short
    return max(0.0, low - max(0.0, high - 1)), min(1.0, high + max(0.0, -low))


def _share_axis(sheet: Sheet, bounds: tuple[float, float]) -> None:
    from matplotlib.ticker import MaxNLocator

    sheet.share_axis("Share of yes")
    start, end = bounds
    margin = MARGIN * (end - start)
    ticks = np.asarray(MaxNLocator(7, steps=[1, 2, 5, 10]).tick_values(start, end))
    near = margin / 100  # a tick is at the axis' end, but for its last digits
    sheet.ax.set_xticks(ticks[(start - near <= ticks) & (ticks <= end + near)])
    sheet.ax.set_xlim(start - margin, end + margin)


def _erased(frame: pd.DataFrame) -> str:
    n = float(np.nansum(floats(frame["n_cases_erased"])))
    return f"Removed because an erasure cleared them: {counted(n, 'case')}." if n > 0 else ""
