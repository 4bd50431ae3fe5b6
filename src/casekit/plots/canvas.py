"""The sheet a plot is drawn on: axes sized to their rows, colours that fit the style, columns of text, a caption."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from casekit.errors import MissingExtraError
from casekit.plots.colours import BLUE, READABLE, SKY, Colour, contrast, mix
from casekit.plots.columns import REASON_WIDTH
from casekit.plots.labels import Words, elide, group_labels, plain, width_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation
    from numpy.typing import NDArray

__all__ = ["MAX_ROWS", "Groups", "Sheet"]

MAX_ROWS: Final = 50  # rows on one sheet: about one printed page
PLOT_WIDTH: Final = 4.2  # inches between the labels and the columns beside
TITLE_WIDTH: Final = 70  # letters
GAP: Final = 3  # letters between two columns
LETTER: Final = 0.6  # width of a letter, in font sizes


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
        _require_matplotlib()
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


class Sheet:
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

    Attributes
    ----------
    ax : Axes
        The axes.
    text, muted, guide, faint, paper, accent : tuple of float
        Colours that fit the axes' background: from words to rules, the background itself, the data.
    size : float
        Size of the letters in the rows, in points.
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
        sentences = " ".join(part for part in [*caption, groups.hidden_note()] if part)
        widths = [GAP + max(map(width_of, [heading, *texts])) for heading, texts in columns]
        wide = sum(widths)
        lines = textwrap.wrap(sentences, 70 + wide if ax is None else _letters_across(ax))
        if ax is None:
            label_width = max(map(width_of, groups.labels), default=0)
            ax = _new_axes(len(groups.labels), label_width, wide, len(lines), legend_rows)
        self.ax = ax
        self._groups = groups
        self._set_colours()
        self._set_size()
        self._rows()
        self._title(title, legend_rows)
        ends = LETTER * np.cumsum(widths)
        for (heading, texts), end in zip(columns, ends.tolist(), strict=True):
            self._column(heading, texts, end)
        self._caption(lines)

    def _set_colours(self) -> None:
        from matplotlib.colors import to_rgb, to_rgba

        # The axes' own label colour fits its background, also when the style has changed since it was made.
        self.text = to_rgb(self.ax.xaxis.label.get_color())
        red, green, blue, alpha = to_rgba(self.ax.get_facecolor())
        self.paper = (red, green, blue) if alpha > 0.5 else to_rgb("white" if sum(self.text) < 1.5 else "black")
        muted = mix(self.text, self.paper, 0.35)
        self.muted = muted if contrast(muted, self.paper) >= READABLE else self.text  # some styles' own words are pale
        self.guide = mix(self.text, self.paper, 0.55)
        self.faint = mix(self.text, self.paper, 0.85)
        self.accent = to_rgb(SKY if sum(self.paper) < 1.5 else BLUE)

    def _set_size(self) -> None:
        """Letters are small; smaller still where a given axes has little room for its rows."""
        from matplotlib.font_manager import FontProperties

        row = _size_in_points(self.ax)[1] / max(len(self._groups.labels), 1)
        self.size = min(FontProperties(size="small").get_size_in_points(), 0.6 * row)

    def _rows(self) -> None:
        n = len(self._groups.labels)
        self.ax.set_yticks(range(n), labels=self._groups.labels)
        for tick, label in zip(self.ax.get_yticklabels(), self._groups.labels, strict=True):
            self._groups.words.set(tick, label)
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

    def _title(self, title: str, legend_rows: int) -> None:
        heading = self.ax.set_title("", loc="left", fontsize="medium", pad=18 + 15 * legend_rows)
        self._groups.words.set(heading, title)

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
        note = self.ax.annotate(
            "",
            (1, 1 if above else row),
            xycoords="axes fraction" if above else self.ax.get_yaxis_transform(),
            xytext=(at, 0.4 if above else 0),
            textcoords="offset fontsize",
            ha="right",
            va="bottom" if above else "center",
            fontsize=self.size,
            color=colour,
            annotation_clip=False,
        )
        self._groups.words.set(note, text)
        return note

    def marks(self, x: NDArray[np.float64], y: NDArray[Any], shape: str, colour: Colour, face: Colour) -> None:
        """Draw marks of one shape, hollow when ``face`` is the paper's colour."""
        self.ax.plot(x, y, shape, zorder=3, **self.mark_look(colour, face))

    def mark_look(self, colour: Colour, face: Colour) -> dict[str, Any]:
        """Say how a mark is drawn, for the plot and its legend."""
        return {
            "markersize": 0.7 * self.size,
            "markerfacecolor": face,
            "markeredgecolor": colour,
            "markeredgewidth": 1.2,
        }

    def ticks(self, x: NDArray[np.float64]) -> None:
        """Draw a muted tick per row, at a value to read beside the point; NaN has none."""
        y = np.arange(len(x))[np.isfinite(x)]
        self.ax.plot(x[np.isfinite(x)], y, "|", markersize=self.size, markeredgewidth=1.4, color=self.muted, zorder=2.5)

    def legend(self, handles: Sequence[Artist], *, columns: int) -> None:
        """Explain signs above the axes, off the rows; filled column by column."""
        self.ax.legend(
            handles=list(handles),
            loc="lower left",
            bbox_to_anchor=(0, 1),
            borderaxespad=0.3,
            ncols=columns,
            frameon=False,
            fontsize="small",
        )

    def inside(self, text: str, x: float, row: int, *, ha: str = "left") -> Annotation:
        """Muted text in a row, a little off the point ``x``."""
        note = self.ax.annotate(
            "",
            (x, row),
            xytext=({"left": 0.7, "center": 0.0, "right": -0.7}[ha], 0),
            textcoords="offset fontsize",
            ha=ha,
            va="center",
            fontsize=self.size,
            color=self.muted,
            bbox={"facecolor": self.paper, "edgecolor": "none", "pad": 1},
        )
        self._groups.words.set(note, text)
        return note

    def _caption(self, lines: Sequence[str]) -> None:
        if not lines:
            return
        axis = self.ax.xaxis
        texts = (axis.get_ticklabels()[0], axis.label)
        below = 12 + 1.6 * sum(text.get_fontproperties().get_size_in_points() for text in texts)
        note = self.ax.annotate(
            "",
            (0, 0),
            xycoords="axes fraction",
            xytext=(0, -below),
            textcoords="offset points",
            va="top",
            fontsize="x-small",
            color=self.muted,
            annotation_clip=False,
            linespacing=1.35,
        )
        self._groups.words.set(note, "\n".join(lines))


def _letters_across(ax: Axes) -> int:
    """How many letters of a caption fit below given axes."""
    from matplotlib.font_manager import FontProperties

    letter = LETTER * FontProperties(size="x-small").get_size_in_points()
    return max(20, int(_size_in_points(ax)[0] / letter))


def _size_in_points(ax: Axes) -> tuple[float, float]:
    box, dpi = ax.get_window_extent(), ax.figure.dpi
    return 72 * box.width / dpi, 72 * box.height / dpi


def _require_matplotlib() -> None:
    try:
        import matplotlib as mpl  # noqa: F401 - asked only whether it is there
    except ModuleNotFoundError as error:
        raise MissingExtraError("Drawing needs matplotlib, which is not installed: pip install matplotlib.") from error


def _new_axes(rows: int, label_width: int, column_width: int, caption_lines: int, legend_rows: int) -> Axes:
    from matplotlib import pyplot as plt

    em = plt.rcParams["font.size"] / 72  # inches
    width = PLOT_WIDTH + em * LETTER * (label_width + column_width)
    height = em * (2.2 * max(rows, 1) + 7.5 + 1.6 * legend_rows + 1.1 * caption_lines)
    _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    return ax
