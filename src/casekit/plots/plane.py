"""The plane of a plot with two scales: a share upwards, and what it depends on to the right."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Final

from casekit.plots.canvas import LETTER, Canvas, check_axes, letters_across, points_of, require_matplotlib
from casekit.plots.labels import Words, width_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.axes import Axes

    from casekit.plots.colours import Colour

__all__ = ["Plane"]

WIDTH: Final = 6.0  # inches
HEIGHT: Final = 3.6
LINE: Final = 1.5  # from one row of numbers below the axis to the next, in font sizes


class Plane(Canvas):
    """Axes whose height is a share from 0 to 100 per cent.

    Parameters
    ----------
    ax
        Axes to draw on; None makes a new figure.
    texts
        Every text of the plot that comes from data.
    title
        What the plot shows.
    names
        What stands below and beside the axes: the name of the horizontal one, and of the vertical one.
    caption
        Sentences below the plot; empty ones are left out.
    beside
        Letters of room that text on the right takes.
    rows
        Rows of numbers between the horizontal axis and its name.
    legend_rows
        Rows of a legend between title and axes.
    """

    def __init__(
        self,
        ax: Axes | None,
        *,
        texts: Iterable[str] = (),
        title: str,
        names: tuple[str, str],
        caption: Sequence[str],
        beside: int = 0,
        rows: int = 0,
        legend_rows: int = 0,
    ) -> None:
        require_matplotlib()
        check_axes(ax)
        words = Words(texts)
        small = points_of("small")
        across = int(66 * WIDTH / (LETTER * points_of("x-small"))) + beside if ax is None else letters_across(ax)
        lines = textwrap.wrap(" ".join(part for part in caption if part), across)
        if ax is None:
            ax = _new_axes(small * LETTER * beside / 72, small * (LINE * rows + 1.1 * len(lines)) / 72)
        super().__init__(ax, words, size=small)
        below = LINE * small * rows
        self._axes(*names, below)
        self.title(title, 6 + 15 * legend_rows)
        self.caption(lines, room=3 + below)

    def _axes(self, across: str, up: str, below: float) -> None:
        from matplotlib.ticker import PercentFormatter

        self.ax.set_ylim(-0.06, 1.06)  # a point at either end is drawn whole
        self.ax.set_yticks([0, 0.25, 0.5, 0.75, 1])
        self.ax.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0, symbol=" %"))
        self.ax.set_ylabel(up, fontsize="medium", loc="top")
        self.ax.set_xlabel(across, fontsize="medium", labelpad=7 + below)
        self.ax.tick_params(labelsize="small")
        self.ax.spines[["top", "right"]].set_visible(False)
        self.ax.set_axisbelow(True)
        self.ax.grid(visible=False)
        self.ax.grid(axis="y", color=self.faint, linewidth=0.6, linestyle="-")

    def nothing(self, text: str) -> None:
        """Write into empty axes that there is nothing to draw."""
        self.ax.text(0.5, 0.5, text, transform=self.ax.transAxes, ha="center", va="center", color=self.muted)

    def numbers(self, row: int, name: str, places: Sequence[float], texts: Sequence[str]) -> None:
        """Write a row of numbers below the axis' ticks, its name on the left.

        Parameters
        ----------
        row
            Which row, from 0.
        name
            What the numbers are.
        places, texts
            Where on the horizontal axis, and what.
        """
        down = -(2.9 + LINE * row)
        for at, text in zip(places, texts, strict=True):
            below = self.ax.get_xaxis_transform()
            self.note(text, (at, 0), below, (0, down), colour=self.text, ha="center")
        half = LETTER * max(map(width_of, texts), default=0) / 2  # a number below the first tick reaches this far left
        self.note(name, (0, 0), "axes fraction", (-half - 1, down), colour=self.muted, ha="right")

    def beside(self, text: str, height: float, at: float, *, colour: Colour, left: bool = False) -> None:
        """Text to the right of the axes at a height of theirs, ending (or with ``left`` starting) ``at`` font sizes."""
        self.note(text, (1, height), "axes fraction", (at, 0), colour=colour, ha="left" if left else "right")


def _new_axes(wider: float, higher: float) -> Axes:
    from matplotlib import pyplot as plt

    _, ax = plt.subplots(figsize=(WIDTH + wider, HEIGHT + higher), layout="constrained")
    return ax
