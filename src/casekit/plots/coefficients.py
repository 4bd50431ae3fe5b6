"""The forest plot of agreement between corrections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from casekit.plots.captions import line_words
from casekit.plots.colours import VERMILION
from casekit.plots.columns import check_frame, counts, floats, reason_texts
from casekit.plots.intervals import FEW, Intervals
from casekit.plots.sheet import Groups, Sheet

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from casekit.plots.colours import Colour

__all__ = ["plot_coefficients"]

NAMES: Final = {"percent": "Percent", "ac1": "AC1", "alpha": "Alpha"}
MARKERS: Final = {"percent": "o", "ac1": "s", "alpha": "^"}
NEEDED: Final = (
    *(f"{name}{end}" for name in NAMES for end in ("", "_low", "_high")),
    "n_cases",
    "n_compared",
    "n_single",
    "n_corrections",
    "few_cases",
    "level",
    "reason",
)
MARGIN: Final = 0.04  # of the axis, so that a point at either end is drawn whole
STEP: Final = 0.24  # rows between the marks of one row


def plot_coefficients(agreed: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Forest plot of agreement: one row per group, its percent agreement, Gwet's AC1 and Krippendorff's alpha.

    Parameters
    ----------
    agreed
        The frame that `casekit.agreement` returns: the by columns, then ``percent``, ``ac1``, ``alpha`` with
        ``_low`` and ``_high``, and the rest. Not changed. Rows keep their order, the first on top; past 50 rows the
        rest is counted in the caption.
    ax
        Axes to draw on. None makes a new figure, sized to the number of groups.

    Returns
    -------
    matplotlib.axes.Axes
        The axes. Circles are percent agreement, squares AC1, triangles alpha, each with its interval; hollow without
        line where there is none, hollow with line where it rests on few cases.

    Raises
    ------
    KeyError
        A needed column is missing; the message names it.
    ValueError
        A column of numbers holds something else.
    TypeError
        ``agreed`` is no pandas DataFrame, or ``ax`` no axes.
    MissingExtraError
        matplotlib is not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> agreed = pd.DataFrame({
    ...     "version": ["1.0"], "percent": [0.8], "percent_low": [0.7], "percent_high": [0.9], "ac1": [0.6],
    ...     "ac1_low": [0.4], "ac1_high": [0.8], "alpha": [0.6], "alpha_low": [0.4], "alpha_high": [0.8],
    ...     "n_cases": [50], "n_compared": [60], "n_single": [9], "n_corrections": [140], "few_cases": [False],
    ...     "level": 0.95, "reason": [None],
    ... })
    >>> ax = plot_coefficients(agreed)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['Percent', 'AC1', 'Alpha']
    """
    check_frame(agreed, NEEDED, plot="plot_coefficients", made_by="agreement")
    from matplotlib.colors import to_rgb

    groups = Groups.of(agreed, first="percent")
    frame = groups.frame
    bounds = _bounds(frame)
    marks = {name: Intervals.of(frame, name, f"{name}_low", f"{name}_high", bounds=bounds) for name in NAMES}
    reasons = reason_texts(frame)
    some = np.any([found.known for found in marks.values()], axis=0)
    notes = [reason if any_known else "" for reason, any_known in zip(reasons, some, strict=True)]
    sheet = Sheet(
        ax,
        groups,
        title=groups.titled("Agreement between corrections of one item"),
        caption=[
            line_words(frame, "Student's t, standard error from leaving out one run at a time"),
            "Gwet's AC1 and Krippendorff's alpha: 0 is what chance alone would give.",
            "Compared: items with two corrections or more.",
            f"Hollow: {FEW}." if any((found.sure & found.few).any() for found in marks.values()) else "",
            "Hollow without line: no interval."
            if any((found.known & ~found.sure).any() for found in marks.values())
            else "",
        ],
        columns=[
            *((heading, _plain_numbers(frame[name])) for name, heading in NAMES.items()),
            ("Cases", counts(frame["n_cases"])),
            ("Compared", counts(frame["n_compared"])),
            ("Corrections", counts(frame["n_corrections"])),
            *([("Note", notes)] if any(notes) else []),
        ],
        legend_rows=1,
    )
    sheet.ax.set_xlim(*bounds)
    sheet.ax.set_xlabel("Agreement (1 is full)")
    sheet.ax.axvline(0, color=sheet.guide, linewidth=0.8, linestyle="--", zorder=1)
    colours = dict(zip(NAMES, (sheet.text, sheet.accent, to_rgb(VERMILION)), strict=True))
    for place, (name, found) in enumerate(marks.items()):
        found.draw(sheet, colour=colours[name], marker=MARKERS[name], bare=MARKERS[name], shift=STEP * (place - 1))
    unseen = ["" if any_known else reason or "no value" for reason, any_known in zip(reasons, some, strict=True)]
    marks["percent"].say(sheet, unseen)
    sheet.legend(_handles(sheet, colours), columns=3)
    return sheet.ax


def _bounds(frame: pd.DataFrame) -> tuple[float, float]:
    """Find the ends of the axis: 0 to 1, and below 0 as far as anything reaches."""
    values = np.concatenate([floats(frame[column]) for name in NAMES for column in (name, f"{name}_low")])
    lowest = np.nanmin(values[np.isfinite(values)], initial=0.0)
    return float(max(lowest, -1.0)) - MARGIN, 1 + MARGIN


def _plain_numbers(column: pd.Series[Any]) -> list[str]:
    return [f"{value:.2f}" if np.isfinite(value) else "–" for value in floats(column)]


def _handles(sheet: Sheet, colours: dict[str, Colour]) -> list[Line2D]:
    """Make the legend's samples."""
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=colour, marker=MARKERS[name], label=NAMES[name], **sheet.mark_look(colour, colour))
        for name, colour in colours.items()
    ]
