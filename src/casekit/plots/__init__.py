"""Plots: each takes the frame a statistic returned and draws it; none computes a statistic.

Every plot takes ``ax=None``: without it a new figure is made, with it the plot is drawn there. The axes come back.
A figure of your own wants ``layout="constrained"``, so that labels and columns beside the axes have room.
"""

from __future__ import annotations

from casekit.plots.agreement import plot_agreement
from casekit.plots.comparison import plot_comparison
from casekit.plots.coverage import plot_coverage
from casekit.plots.precision import plot_precision
from casekit.plots.ranks import plot_ranks
from casekit.plots.weights import plot_weights
from casekit.plots.yes_rates import plot_yes_rates

__all__ = [
    "plot_agreement",
    "plot_comparison",
    "plot_coverage",
    "plot_precision",
    "plot_ranks",
    "plot_weights",
    "plot_yes_rates",
]
