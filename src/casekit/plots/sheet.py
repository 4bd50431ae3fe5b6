"""The sheet of a forest plot: axes sized to their rows, one per group, with columns of text beside them."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from casekit.plots.canvas import (
    LETTER,
    Canvas,
    check_axes,
    letters_across,
    points_of,
    require_matplotlib,
    size_in_points,
)
from casekit.plots.columns import REASON_WIDTH
from casekit.plots.labels import Words, elide, group_labels, plain, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation
    from numpy.typing import NDArray

    from casekit.plots.colours import Colour

__all__ = ["MAX_ROWS", "Groups", "Sheet"]

MAX_ROWS: Final = 50  # rows on one sheet: about one printed page
PLOT_WIDTH: Final = 4.2  # inches between the labels and the columns beside
TITLE_WIDTH: Final = 70  # letters
GAP: Final = 3  # letters between two columns


@dataclass(frozen=True)
class Groups:
    """The rows of a statistic's frame that a plot shows.

    Attributes
    ----------
    frame : pd.DataFrame
        The rows shown, in the frame's order.
    names : list of str
        The by columns.
    labels : list of str
        One label per row shown, all different.
    n_hidden : int
        Rows cut because the sheet is full.
    words : Words
        How the labels are drawn.
    """

    frame: pd.DataFrame
    names: list[str]
    labels: list[str]
    n_hidden: int
    words: Words

    @classmethod
    def of(cls, frame: pd.DataFrame, *, first: str) -> Groups:
        """Take the groups of ``frame``, whose by columns stand before the column ``first``.

        Raises
        ------
        MissingExtraError
            matplotlib is not installed.
        """
        require_matplotlib()
        shown = frame.iloc[:MAX_ROWS]
        n_by = list(frame.columns).index(first)
        names = [plain(name) for name in frame.columns[:n_by]]
        labels = group_labels(shown.iloc[:, :n_by])
        texts = {"reason", "method", "weights"} & set(frame.columns)  # their words are shown, too
        words = Words([*labels, *names, *(plain(cell, REASON_WIDTH) for name in texts for cell in shown[name])])
        return cls(shown, names, words.drawn_labels(labels), len(frame) - len(shown), words)

    def titled(self, what: str) -> str:
        """Say ``what`` is shown, and by which columns."""
        return elide(f"{what} by {', '.join(self.names)}" if self.names else what, TITLE_WIDTH)

    def hidden_note(self) -> str:
        """Say how many groups are not shown; empty when all are."""
        if not self.n_hidden:
            return ""
        n = len(self.frame)
        return f"The first {n} of {n + self.n_hidden:,} groups; {self.n_hidden:,} are not shown."


class Sheet(Canvas):
    """Axes with one row per group, first group on top.

    Parameters
    ----------
    ax
        Axes to draw on; None makes a new figure, sized to the groups.
    groups
        The rows.
    title
        What the plot shows.
    caption
        Sentences below the plot; empty ones are left out.
    columns
        Columns of text on the right: heading, one text per row.
    legend_rows
        Rows of a legend between title and axes.
    """

    def __init__(
        self,
        ax: Axes | None,
        groups: Groups,
        *,
        title: str,
        caption: Sequence[str],
        columns: Sequence[tuple[str, Sequence[str]]] = (),
        legend_rows: int = 0,
    ) -> None:
        check_axes(ax)
        sentences = " ".join(part for part in [*caption, groups.hidden_note()] if part)
        widths = [GAP + max(map(width_of, [heading, *texts])) for heading, texts in columns]
        wide = sum(widths)
        lines = textwrap.wrap(sentences, 70 + wide if ax is None else letters_across(ax))
        if ax is None:
            label_width = max(map(width_of, groups.labels), default=0)
            ax = _new_axes(len(groups.labels), label_width, wide, len(lines), legend_rows)
        # Letters are small; smaller still where given axes have little room for their rows.
        row = size_in_points(ax)[1] / max(len(groups.labels), 1)
        super().__init__(ax, groups.words, size=min(points_of("small"), 0.6 * row))
        self._rows(groups.labels)
        self.title(title, 18 + 15 * legend_rows)
        ends = LETTER * np.cumsum(widths)
        for (heading, texts), end in zip(columns, ends.tolist(), strict=True):
            self._column(heading, texts, end)
        self.caption(lines)

    def _rows(self, labels: Sequence[str]) -> None:
        n = len(labels)
        self.ax.set_yticks(range(n), labels=labels)
        for tick, label in zip(self.ax.get_yticklabels(), labels, strict=True):
            self.write(tick, label)
            tick.set_fontsize(self.size)
        self.ax.set_ylim(max(n, 1) - 0.4, -0.6)
        self.ax.tick_params(axis="y", length=0)
        self.ax.tick_params(axis="x", labelsize="small")
        self.ax.xaxis.label.set_fontsize("medium")
        self.ax.spines[["top", "right", "left"]].set_visible(False)
        self.ax.set_axisbelow(True)
        self.ax.grid(visible=False)
        self.ax.grid(axis="y", color=self.faint, linewidth=0.6, linestyle="-")
        if not n:
            self.ax.text(0.5, 0.5, "no groups", transform=self.ax.transAxes, ha="center", va="center", color=self.muted)

    def _column(self, heading: str, texts: Sequence[str], at: float) -> None:
        self.beside(heading, 0, at, colour=self.muted, above=True)
        for row, text in enumerate(texts):
            self.beside(text, row, at, colour=self.text)

    def share_axis(self, name: str) -> None:
        """Let the axis below show shares, from 0 to 100 per cent."""
        from matplotlib.ticker import PercentFormatter

        self.ax.set_xlim(-0.04, 1.04)  # a point at either end is drawn whole
        self.ax.set_xticks([0, 0.25, 0.5, 0.75, 1])
        self.ax.xaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0, symbol=" %"))
        self.ax.set_xlabel(name)

    def beside(self, text: str, row: int, at: float, *, colour: Colour, above: bool = False) -> Annotation:
        """Text to the right of the axes, ending ``at`` font sizes from them, in a row or above the first."""
        coords = "axes fraction" if above else self.ax.get_yaxis_transform()
        shift = (at, 0.4 if above else 0)
        va = "bottom" if above else "center"
        return self.note(text, (1, 1 if above else row), coords, shift, colour=colour, ha="right", va=va)

    def marks(self, x: NDArray[np.float64], y: NDArray[Any], shape: str, colour: Colour, face: Colour) -> None:
        """Draw marks of one shape, hollow when ``face`` is the paper's colour."""
        self.ax.plot(x, y, shape, zorder=3, **self.mark_look(colour, face))

    def ticks(self, x: NDArray[np.float64]) -> None:
        """Draw a muted tick per row, at a value to read beside the point; NaN has none."""
        y = np.arange(len(x))[np.isfinite(x)]
        self.ax.plot(x[np.isfinite(x)], y, "|", markersize=self.size, markeredgewidth=1.4, color=self.muted, zorder=2.5)

    def inside(self, text: str, x: float, row: int, *, ha: str = "left") -> Annotation:
        """Muted text in a row, a little off the point ``x``."""
        shift = ({"left": 0.7, "center": 0.0, "right": -0.7}[ha], 0)
        box = {"facecolor": self.paper, "edgecolor": "none", "pad": 1}
        return self.note(text, (x, row), "data", shift, colour=self.muted, ha=ha, bbox=box)


def _new_axes(rows: int, label_width: int, column_width: int, caption_lines: int, legend_rows: int) -> Axes:
    from matplotlib import pyplot as plt

    em = plt.rcParams["font.size"] / 72  # inches
    width = PLOT_WIDTH + em * LETTER * (label_width + column_width)
    height = em * (2.2 * max(rows, 1) + 7.5 + 1.6 * legend_rows + 1.1 * caption_lines)
    _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    return ax
