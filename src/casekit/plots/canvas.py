"""What all plots are drawn on: axes with a title and a caption, in colours that fit their background."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from casekit.errors import MissingExtraError
from casekit.plots.colours import BLUE, READABLE, SKY, Colour, contrast, mix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.text import Annotation, Text

    from casekit.plots.labels import Words

__all__ = ["LETTER", "Canvas", "check_axes", "letters_across", "points_of", "require_matplotlib", "size_in_points"]

LETTER: Final = 0.6  # width of a letter, in font sizes


class Canvas:
    """Axes, and how words and marks are drawn on them.

    Parameters
    ----------
    ax
        The axes.
    words
        How words from data are drawn.
    size
        Size of the letters in the plot, in points.

    Attributes
    ----------
    ax : Axes
        The axes.
    text, muted, guide, faint, paper, accent : tuple of float
        Colours that fit the axes' background: from words to rules, the background itself, the data.
    size : float
        Size of the letters in the plot, in points.
    """

    def __init__(self, ax: Axes, words: Words, *, size: float) -> None:
        self.ax = ax
        self.size = size
        self._words = words
        self._set_colours()

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

    def write(self, artist: Text, text: str) -> None:
        """Let ``artist`` show ``text`` letter for letter."""
        self._words.set(artist, text)

    def note(
        self,
        text: str,
        place: tuple[float, float],
        coords: Any,
        shift: tuple[float, float],
        *,
        colour: Colour,
        ha: str,
        va: str = "center",
        **look: Any,
    ) -> Annotation:
        """Write a text some font sizes off a place; it may stand outside the axes."""
        note = self.ax.annotate(
            "",
            place,
            xycoords=coords,
            xytext=shift,
            textcoords="offset fontsize",
            ha=ha,
            va=va,
            fontsize=self.size,
            color=colour,
            annotation_clip=False,
            **look,
        )
        self.write(note, text)
        return note

    def title(self, text: str, pad: float) -> None:
        """Write the title, ``pad`` points above the axes."""
        self.write(self.ax.set_title("", loc="left", fontsize="medium", pad=pad), text)

    def mark_look(self, colour: Colour, face: Colour) -> dict[str, Any]:
        """Say how a mark is drawn, for the plot and its legend."""
        return {
            "markersize": 0.7 * self.size,
            "markerfacecolor": face,
            "markeredgecolor": colour,
            "markeredgewidth": 1.2,
        }

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

    def caption(self, lines: Sequence[str], *, room: float = 0.0) -> None:
        """Write the small print below the axis' name; ``room`` points lie between the ticks and that name."""
        if not lines:
            return
        axis = self.ax.xaxis
        sizes = [text.get_fontproperties().get_size_in_points() for text in (axis.get_ticklabels()[0], axis.label)]
        note = self.ax.annotate(
            "",
            (0, 0),
            xycoords="axes fraction",
            xytext=(0, -12 - 1.6 * sum(sizes) - room),
            textcoords="offset points",
            va="top",
            fontsize="x-small",
            color=self.muted,
            annotation_clip=False,
            linespacing=1.35,
        )
        self.write(note, "\n".join(lines))


def check_axes(ax: object) -> None:
    """Refuse what is neither axes nor None."""
    if ax is None:
        return
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise TypeError(f"ax must be matplotlib axes to draw on, or None for a new figure, not a {type(ax).__name__}.")


def letters_across(ax: Axes) -> int:
    """How many letters of a caption fit below given axes."""
    return max(20, int(size_in_points(ax)[0] / (LETTER * points_of("x-small"))))


def points_of(size: str) -> float:
    """Find the points of a named size of letters."""
    from matplotlib.font_manager import FontProperties

    return FontProperties(size=size).get_size_in_points()


def size_in_points(ax: Axes) -> tuple[float, float]:
    """Find how wide and how high axes are."""
    box, dpi = ax.get_window_extent(), ax.figure.dpi
    return 72 * box.width / dpi, 72 * box.height / dpi


def require_matplotlib() -> None:
    """Say what to install where matplotlib is not."""
    try:
        import matplotlib as mpl  # noqa: F401 - asked only whether it is there
    except ModuleNotFoundError as error:
        raise MissingExtraError("Drawing needs matplotlib, which is not installed: pip install matplotlib.") from error
