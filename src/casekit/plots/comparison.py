"""The forest plot of a comparison of two versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from casekit.plots.canvas import Groups, Sheet
from casekit.plots.captions import counted, line_words, weight_words
from casekit.plots.columns import check_frame, counts, floats, percents, reason_texts
from casekit.plots.intervals import Intervals, interval_texts
from casekit.plots.labels import plain

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["plot_comparison"]

METHODS: Final = {
    "paired": "cases in both versions paired",
    "welch": "no case in both (Welch)",
    "mover": "from the intervals of both sides (MOVER)",
}
CHANGES: Final = {"n_items_added": "+", "n_items_removed": "−", "n_items_changed": "~"}
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
    *CHANGES,
    "weights",
    "level",
    "reason",
)
NARROWEST: Final = 0.05  # half the axis' width at least, so that no difference looks large


def plot_comparison(change: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Forest plot of a comparison: one row per group, by how much its yes rate moved and how sure that is.

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
        The axes, with the marks of `plot_yes_rates` around a line at no difference. A tick is the difference over the
        cases that both versions have.

    Raises
    ------
    KeyError
        A needed column is missing; the message names it.
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
    'Share of yes, after less before (percentage points)'
    """
    check_frame(change, NEEDED, plot="plot_comparison", made_by="compare")
    groups = Groups.of(change, first="before_rate")
    frame = groups.frame
    common = floats(frame["common_difference"])
    reach = np.concatenate([floats(frame["low"]), floats(frame["high"]), floats(frame["difference"]), common])
    half = 1.1 * max(NARROWEST, np.nanmax(np.abs(reach[np.isfinite(reach)]), initial=0.0))
    moved = Intervals.of(frame, "difference", bounds=(-half, half))
    methods = [METHODS.get(method, plain(method)) for method in frame["method"].dropna().unique()]
    sheet = Sheet(
        ax,
        groups,
        title=groups.titled("Change of the share of yes"),
        caption=[
            line_words(frame, "; ".join(methods)),
            *weight_words(frame),
            "Tick: over the cases in both versions alone." if np.isfinite(common).any() else "",
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
            ("Items", _changes(frame)),
        ],
    )
    _points_axis(sheet, half)
    sheet.ax.axvline(0, color=sheet.guide, linewidth=0.8, linestyle="--", zorder=1)
    sheet.ticks(common)
    moved.draw(sheet)
    moved.say(sheet, moved.told(reason_texts(frame)))
    return sheet.ax


def _points_axis(sheet: Sheet, half: float) -> None:
    from matplotlib.ticker import PercentFormatter

    sheet.ax.set_xlim(-half, half)
    sheet.ax.xaxis.set_major_formatter(PercentFormatter(xmax=1, symbol=""))
    sheet.ax.set_xlabel("Share of yes, after less before (percentage points)")


def _changes(frame: pd.DataFrame) -> list[str]:
    columns = [[sign + n for n in counts(frame[name])] for name, sign in CHANGES.items()]
    return [" ".join(row) for row in zip(*columns, strict=True)]


def _erased(frame: pd.DataFrame) -> str:
    n = float(np.nansum(floats(frame["n_cases_erased"])))
    return f"Removed because an erasure cleared them: {counted(n, 'case')}." if n > 0 else ""
