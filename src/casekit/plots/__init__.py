"""Plots: each takes the frame a statistic returned and draws it; none computes a statistic.

Every plot takes ``ax=None``: without it a new figure is made, with it the plot is drawn there. The axes come back.
A figure of your own wants ``layout="constrained"``, so that labels and columns beside the axes have room.

Nothing in a plot is a bitmap. For a paper, let matplotlib keep letters as letters, too: its own default writes them as
outlines into SVG and as Type 3 fonts into PDF, which many journals refuse.

>>> import io
>>> import matplotlib as mpl
>>> from matplotlib.figure import Figure
>>> ax = Figure(layout="constrained").subplots()
>>> with mpl.rc_context({"pdf.fonttype": 42, "svg.fonttype": "none"}):
...     ax.figure.savefig(io.BytesIO(), format="pdf")
"""

from __future__ import annotations

from casekit.plots.agreement import plot_agreement
from casekit.plots.coefficients import plot_coefficients
from casekit.plots.comparison import plot_comparison
from casekit.plots.coverage import plot_coverage
from casekit.plots.keys import plot_keys
from casekit.plots.precision import plot_precision
from casekit.plots.ranks import plot_ranks
from casekit.plots.weights import plot_weights
from casekit.plots.yes_rates import plot_yes_rates

__all__ = [
    "plot_agreement",
    "plot_coefficients",
    "plot_comparison",
    "plot_coverage",
    "plot_keys",
    "plot_precision",
    "plot_ranks",
    "plot_weights",
    "plot_yes_rates",
]
