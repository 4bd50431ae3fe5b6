"""The forest plot of corrected coverage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from casekit.plots.captions import left_out, line_words
from casekit.plots.columns import check_frame, counts, reason_texts
from casekit.plots.intervals import Intervals, interval_texts
from casekit.plots.sheet import Groups, Sheet

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["plot_coverage"]

NEEDED: Final = (
    "coverage",
    "low",
    "high",
    "n_cases",
    "n_items",
    "n_judged",
    "few_cases",
    "n_without_output",
    "n_unmatched",
    "weights",
    "level",
    "reason",
)


def plot_coverage(covered: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Forest plot of corrected coverage: one row per group, the share of its outputs' items that somebody corrected.

    Parameters
    ----------
    covered
        The frame that `casekit.coverage` returns: the by columns, then ``coverage``, ``low``, ``high`` in [0, 1] and
        the rest. Not changed. Rows keep their order, the first on top; past 50 rows the rest is counted in the
        caption.
    ax
        Axes to draw on. None makes a new figure, sized to the number of groups.

    Returns
    -------
    matplotlib.axes.Axes
        The axes, with the marks of `plot_yes_rates`.

    Raises
    ------
    KeyError
        A needed column is missing; the message names it.
    ValueError
        A column of numbers holds something else.
    TypeError
        ``covered`` is no pandas DataFrame, or ``ax`` no axes.
    MissingExtraError
        matplotlib is not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> covered = pd.DataFrame({
    ...     "version": ["1.0"], "coverage": [0.4], "low": [0.3], "high": [0.5], "n_cases": [20], "n_items": [200],
    ...     "n_judged": [80], "few_cases": [False], "n_without_output": [0], "n_unmatched": [0],
    ...     "weights": "recorded", "level": 0.95, "reason": [None],
    ... })
    >>> ax = plot_coverage(covered)
    >>> ax.get_xlabel()
    'Corrected coverage'
    """
    check_frame(covered, NEEDED, plot="plot_coverage", made_by="coverage")
    groups = Groups.of(covered, first="coverage")
    frame = groups.frame
    share = Intervals.of(frame, "coverage")
    sheet = Sheet(
        ax,
        groups,
        title=groups.titled("Corrected coverage"),
        caption=[
            "Corrected coverage: share of the outputs' items that somebody corrected.",
            line_words(frame, "Wilson's score at the effective number of items; clustered by run"),
            "Experts' corrections count alone." if frame["weights"].eq("expert").any() else "",
            left_out(
                {
                    "case without output items": frame["n_without_output"],
                    "item corrected, but in no output": frame["n_unmatched"],
                }
            ),
            *share.key(),
        ],
        columns=[
            ("Share (interval)", interval_texts(frame, "coverage", "low", "high")),
            ("Cases", counts(frame["n_cases"])),
            ("Items", counts(frame["n_items"])),
            ("Corrected", counts(frame["n_judged"])),
        ],
    )
    sheet.share_axis("Corrected coverage")
    share.draw(sheet)
    share.say(sheet, share.told(reason_texts(frame)))
    return sheet.ax
