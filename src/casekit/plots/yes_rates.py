"""The forest plot of yes-rates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from casekit.plots.captions import left_out, line_words, weight_words
from casekit.plots.columns import check_frame, counts, reason_texts
from casekit.plots.intervals import Intervals, interval_texts
from casekit.plots.labels import plain
from casekit.plots.sheet import Groups, Sheet

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["plot_yes_rates"]

NEEDED: Final = (
    "rate",
    "low",
    "high",
    "n_cases",
    "n_corrections",
    "few_cases",
    "n_zero_weight",
    "n_unknown_expert",
    "weights",
    "method",
    "level",
    "reason",
)
METHODS: Final = {
    "wilson": "Wilson's score at the effective number of corrections",
    "wald": "rate ± t standard errors",
    "jackknife": "rate ± t standard errors, from leaving out one case at a time",
    "bootstrap": "percentiles over resampled cases",
}


def plot_yes_rates(rates: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Forest plot of yes-rates: one row per group, its share of yes and how sure that is.

    Parameters
    ----------
    rates
        The frame that `casekit.yes_rates` returns: the by columns, then ``rate``, ``low``, ``high`` in [0, 1] and
        the rest. Not changed. Rows keep their order, the first on top; past 50 rows the rest is counted in the
        caption.
    ax
        Axes to draw on. None makes a new figure, sized to the number of groups.

    Returns
    -------
    matplotlib.axes.Axes
        The axes. A filled circle is a rate with its interval, a hollow one a rate from few cases, a hollow
        diamond a rate without interval; a group without a rate has its reason in place of a point.

    Raises
    ------
    KeyError
        A needed column is missing; the message names it.
    ValueError
        A column of numbers holds something else.
    TypeError
        ``rates`` is no pandas DataFrame, or ``ax`` no axes.
    MissingExtraError
        matplotlib is not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> rates = pd.DataFrame({
    ...     "version": ["1.0", "1.1"], "rate": [0.62, None], "low": [0.5, None], "high": [0.73, None],
    ...     "n_cases": [40, 0], "n_corrections": [90, 0], "few_cases": [False, True], "n_zero_weight": [0, 3],
    ...     "n_unknown_expert": 0, "weights": "recorded", "method": "wilson", "level": 0.95,
    ...     "reason": [None, "no weight"],
    ... })
    >>> ax = plot_yes_rates(rates)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['1.0', '1.1']
    """
    check_frame(rates, NEEDED, plot="plot_yes_rates", made_by="yes_rates")
    groups = Groups.of(rates, first="rate")
    frame = groups.frame
    rate = Intervals.of(frame, "rate")
    methods = [METHODS.get(method, plain(method)) for method in frame["method"].dropna().unique()]
    sheet = Sheet(
        ax,
        groups,
        title=groups.titled("Share of yes"),
        caption=[
            line_words(frame, f"{' and '.join(methods)}; clustered by run" if methods else ""),
            *weight_words(frame),
            _left_out(frame),
            *rate.key(),
        ],
        columns=[
            ("Share (interval)", interval_texts(frame, "rate", "low", "high")),
            ("Cases", counts(frame["n_cases"])),
            ("Corrections", counts(frame["n_corrections"])),
        ],
    )
    sheet.share_axis("Share of yes")
    sheet.ax.axvline(0.5, color=sheet.guide, linewidth=0.8, linestyle="--", zorder=1)
    rate.draw(sheet)
    rate.say(sheet, rate.told(reason_texts(frame)))
    return sheet.ax


def _left_out(frame: pd.DataFrame) -> str:
    """Say which items no rate is made of."""
    expert = frame["weights"].eq("expert").fillna(False).to_numpy(dtype=bool)
    return left_out(
        {
            "item without weight": frame["n_zero_weight"][~expert],
            "item without expert weight": frame["n_zero_weight"][expert],
            "item whose expert weight is unknown": frame["n_unknown_expert"][expert],  # other weights use such items
        }
    )
