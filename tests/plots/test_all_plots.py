"""What holds for every plot."""

from __future__ import annotations

import io
import re
import sys
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from casekit.errors import MissingExtraError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HOSTILE = [
    "cost_$5",
    "$x",
    "a_b^c",
    "100%",
    "\\frac{1",
    "$$",
    "$\\bad$",
    "{",
    "\\alpha",
    "_hidden",
    "<b>&amp;",
    "--",
]


def row_labels(ax: Axes) -> list[str]:
    """Read the labels of the rows, from the top."""
    return [label.get_text() for label in ax.get_yticklabels()]


def words(ax: Axes) -> list[Text]:
    """Every text on the figure that is seen and not empty."""
    found = ax.figure.findobj(Text)
    return [text for text in found if text.get_visible() and text.get_text()]


def caption(ax: Axes) -> str:
    """Read the small print below the axes, the one text that hangs from its top."""
    (note,) = [text for text in ax.texts if text.get_verticalalignment() == "top"]
    return note.get_text().replace("\n", " ")


def overlaps(ax: Axes) -> list[tuple[str, str]]:
    """Pairs of texts whose boxes meet, after drawing."""
    renderer = ax.figure.canvas.get_renderer()  # type: ignore[attr-defined]
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in words(ax)]
    return [
        (one, other)
        for i, (one, a) in enumerate(boxes)
        for other, b in boxes[:i]
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
    ]


def outside(ax: Axes) -> list[str]:
    """Texts that the figure's edge cuts, after drawing."""
    renderer = ax.figure.canvas.get_renderer()  # type: ignore[attr-defined]
    page = ax.figure.bbox
    return [
        text.get_text()
        for text in words(ax)
        if (box := text.get_window_extent(renderer)).x0 < page.x0 - 1
        or box.x1 > page.x1 + 1
        or box.y0 < page.y0 - 1
        or box.y1 > page.y1 + 1
    ]


def test_new_figure_each_time(kind: Any) -> None:
    """Without ax every call makes a figure of its own, with a constrained layout, and changes no other."""
    other = plt.figure().subplots()
    first, second = kind.draw(kind.make(["a"])), kind.draw(kind.make(["a"]))
    assert len({id(ax.figure) for ax in (other, first, second)}) == 3
    assert first.figure.get_layout_engine() is not None
    assert not other.has_data()


def test_figure_grows_with_groups(forest: Any) -> None:
    """Twenty groups get a taller figure than two."""
    heights = [forest.draw(forest.make([str(i) for i in range(n)])).figure.get_figheight() for n in (2, 20)]
    assert heights[1] > 2 * heights[0]


def test_draws_on_given_axes(kind: Any) -> None:
    """A given ax comes back, drawn on, and no figure is made."""
    ax = Figure(layout="constrained").subplots()
    assert kind.draw(kind.make(["a", "b"]), ax=ax) is ax
    assert ax.has_data()
    assert not plt.get_fignums()


def test_given_axes_need_no_pyplot(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With an ax of the caller's, pyplot is not imported."""
    ax = Figure().subplots()
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    assert kind.draw(kind.make(["a"]), ax=ax) is ax


def test_without_matplotlib(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without matplotlib the error says what to install."""
    frame = kind.make(["a"])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="pip install matplotlib"):
        kind.draw(frame)


def test_first_group_on_top(forest: Any) -> None:
    """Rows keep the frame's order, the first one on top."""
    ax = forest.draw(forest.make(["z", "a", "m"]))
    assert row_labels(ax) == ["z", "a", "m"]
    bottom, top = ax.get_ylim()
    assert bottom > 2
    assert top < 0
    assert ax.get_yticks().tolist() == [0, 1, 2]


def test_frame_is_not_changed(kind: Any) -> None:
    """The frame is the same after the plot, and its index does not matter."""
    frame = kind.make(["a", "b"]).set_index(pd.Index([7, 7]))
    before = frame.copy(deep=True)
    assert kind.draw(frame).has_data()
    pd.testing.assert_frame_equal(frame, before)


def test_no_groups(forest: Any) -> None:
    """A frame without rows gives titled axes that say so."""
    ax = forest.draw(forest.make(["a"]).iloc[:0])
    ax.figure.canvas.draw()
    assert "no groups" in [text.get_text() for text in ax.texts]
    assert ax.get_title(loc="left").endswith("by version")
    assert row_labels(ax) == []


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_all_missing(forest: Any, missing: object) -> None:
    """A frame with nothing known is drawn: rows have labels, a sentence and dashes, and no mark."""
    frame = forest.make(["a", "b"])
    frame = pd.DataFrame({name: pd.Series([missing] * 2, dtype=object) for name in frame.columns})
    ax = forest.draw(frame)
    ax.figure.canvas.draw()
    assert row_labels(ax) == ["(missing)", "(missing) #2"]
    assert [text.get_text() for text in ax.texts].count("no value") == 2
    assert all(len(line.get_xdata()) in (0, 2) for line in ax.lines)
    assert not ax.patches


@pytest.mark.parametrize("dtype", ["Int64", "float64"])
def test_counts_of_any_dtype(forest: Any, dtype: str) -> None:
    """The number of cases stands beside each row, thousands set apart, whatever its dtype."""
    texts = [text.get_text() for text in forest.draw(forest.make(["a", "b"]).astype({"n_cases": dtype})).texts]
    assert [texts.count(n) for n in ("Cases", "1,200", "1,201")] == [1, 1, 1]


def test_missing_columns_are_named(kind: Any) -> None:
    """A frame that lacks columns is refused: the message names them and what makes such a frame."""
    frame = kind.make(["a"]).drop(columns=["low", "share_low", "ac1_low", "level"], errors="ignore")
    with pytest.raises(KeyError, match=f"low.*level.*{kind.made_by}"):
        kind.draw(frame)


def test_other_frames_are_refused(kind: Any) -> None:
    """What is no pandas DataFrame is refused by name."""
    with pytest.raises(TypeError, match=f"{kind.made_by} returns, not a dict"):
        kind.draw({"rate": [1]})


@pytest.mark.parametrize("ax", [5, "axes", [], plt])
def test_what_is_no_axes_is_refused(kind: Any, ax: Any) -> None:
    """What cannot be drawn on is refused by name."""
    with pytest.raises(TypeError, match=f"ax must be matplotlib axes.*not a {type(ax).__name__}"):
        kind.draw(kind.make(["a"]), ax=ax)


def test_a_column_of_words_is_named(kind: Any) -> None:
    """A column of numbers that holds words is refused by its name, without the words."""
    column = next(name for name in ("low", "share_low", "ac1_low", "yes_share") if name in kind.make(["a"]))
    with pytest.raises(ValueError, match=f"The column {column} must hold numbers") as caught:
        kind.draw(kind.make(["a"]).assign(**{column: "secret-words"}))
    assert "secret-words" not in str(caught.value)


def test_a_column_stands_once(kind: Any) -> None:
    """A frame with two columns of one name is refused: neither is the one that is meant."""
    frame = kind.make(["a"])
    with pytest.raises(ValueError, match="level stands twice"):
        kind.draw(pd.concat([frame, frame[["level"]]], axis=1))


def test_hostile_labels_come_out(forest: Any) -> None:
    """Mathematics, TeX and mark-up in group keys, reasons and column names are drawn letter for letter."""
    frame = forest.make(HOSTILE).rename(columns={"version": "$\\frac{_key}$"})
    frame["reason"] = "$\\bad$"
    ax = forest.draw(frame)
    mpl.rcParams["svg.fonttype"] = "none"  # letters as text, so that they can be read back
    png, svg = io.BytesIO(), io.BytesIO()
    ax.figure.savefig(png, format="png")
    ax.figure.savefig(svg, format="svg")
    assert png.getvalue().startswith(b"\x89PNG")
    assert row_labels(ax) == HOSTILE
    assert ax.get_title(loc="left").endswith("by $\\frac{_key}$")
    tree = ET.fromstring(svg.getvalue())
    written = {"".join(element.itertext()).strip() for element in tree.iter("{http://www.w3.org/2000/svg}text")}
    assert set(HOSTILE) <= written


def test_labels_are_never_parsed(kind: Any) -> None:
    """No text from data is parsed as mathematics or TeX, also where the reader's settings ask for TeX."""
    mpl.rcParams["text.usetex"] = True
    ax = kind.draw(kind.make(["$a$"], reason="$b$"))
    data = [text for text in words(ax) if "$a$" in text.get_text() or "$b$" in text.get_text()]
    assert data or kind.made_by == "rank_rates"  # ranks have no names
    assert not any(text.get_parse_math() or text.get_usetex() for text in data)


def test_labels_survive_redrawing(forest: Any) -> None:
    """Labels stay as they are when the figure is drawn again, zoomed or resized."""
    ax = forest.draw(forest.make(["$a$", "$b_", "c"]))
    ax.figure.canvas.draw()
    ax.set_ylim(1.5, -0.5)
    ax.figure.set_size_inches(8, 4)
    ax.figure.canvas.draw()
    ax.set_ylim(3, -1)
    ax.figure.canvas.draw()
    assert row_labels(ax) == ["$a$", "$b_", "c"]
    assert not any(label.get_parse_math() for label in ax.get_yticklabels())


def test_letters_without_a_font(forest: Any) -> None:
    """Letters that no font draws give one warning of ours, none of matplotlib's, at the caller's line."""
    frame = forest.make(["a\U00011d00b\U00011d01", "\U00011d03\U00011d00"], reason="\U00011d04")
    with pytest.warns(UserWarning, match="4 characters of the labels are in none of the fonts .* as □") as caught:
        ax = forest.draw(frame)
    ax.figure.canvas.draw()  # a warning would be an error here
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert row_labels(ax) == ["a□b□", "□□"]


@pytest.mark.parametrize("n", [1, 20])
def test_nothing_is_cut_and_nothing_overlaps(kind: Any, n: int) -> None:
    """With long labels every text stands whole within the figure, at full size, and no two texts meet."""
    labels = [f"{i:03d}{'M' * 100}{i}" for i in range(n)]
    ax = kind.draw(kind.make(labels))
    ax.figure.canvas.draw()
    assert outside(ax) == []
    assert overlaps(ax) == []
    sizes = [label.get_fontsize() for label in ax.get_yticklabels()]
    assert sizes == pytest.approx([8.33] * len(sizes))


def test_many_ranks_and_items_do_not_overlap(plane: Any) -> None:
    """With a hundred ranks or items, of thousands of cases each, every text stands whole and apart."""
    ax = plane.draw(plane.make([f"item-{i}" for i in range(100)]))
    ax.figure.canvas.draw()
    assert outside(ax) == []
    assert overlaps(ax) == []


def test_small_given_axes_do_not_overlap(kind: Any) -> None:
    """On small axes of the caller's, letters shrink until rows stand apart."""
    figure = plt.figure(layout="constrained", figsize=(10, 5))
    ax = kind.draw(kind.make([str(i) for i in range(30)]), ax=figure.subplots())
    figure.canvas.draw()
    assert overlaps(ax) == []


def test_two_plots_share_a_figure(kind: Any) -> None:
    """Two plots side by side in a constrained layout leave each other room."""
    axes = plt.figure(layout="constrained", figsize=(18, 5)).subplots(1, 2)
    for ax in axes:
        kind.draw(kind.make(["a" * 30, "b"]), ax=ax)
    axes[0].figure.canvas.draw()
    assert outside(axes[0]) == []
    assert overlaps(axes[0]) == []


def test_many_groups_are_cut_and_counted(forest: Any) -> None:
    """Of 200 groups the first 50 are drawn, and the caption counts the rest; 50 are drawn whole."""
    labels = [str(i) for i in range(200)]
    ax = forest.draw(forest.make(labels))
    assert row_labels(ax) == labels[:50]
    assert "The first 50 of 200 groups; 150 are not shown." in caption(ax)
    assert "not shown" not in caption(forest.draw(forest.make(labels[:50])))


def test_several_by_columns(forest: Any) -> None:
    """All columns before the statistic's own are keys: the label joins them, the title names them."""
    frame = forest.make(["1.0", "2.0"])
    frame.insert(1, "kind", ["agent", None])
    ax = forest.draw(frame)
    assert row_labels(ax) == ["1.0 · agent", "2.0 · (missing)"]
    assert ax.get_title(loc="left").endswith("by version, kind")


def test_no_by_column(forest: Any) -> None:
    """A frame of one row for all is drawn as such."""
    ax = forest.draw(forest.make(["a"]).drop(columns="version"))
    assert row_labels(ax) == ["all"]
    assert " by " not in ax.get_title(loc="left")


@pytest.mark.parametrize("style", ["default", "dark_background", "Solarize_Light2"])
def test_words_can_be_read_on_any_style(kind: Any, style: str) -> None:
    """Every text from us contrasts with the figure's background by 3 to 1 or more."""
    with plt.style.context(style):
        ax = kind.draw(kind.make(["a", "b"]))
        paper = luminance(ax.figure.get_facecolor())
        inks = [luminance(text.get_color()) for text in [*ax.texts, *ax.get_yticklabels()]]
    assert inks
    assert min((max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) for ink in inks) >= 3


def luminance(colour: Any) -> float:
    """Relative luminance of a colour, as the accessibility guidelines define it."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def test_long_title_is_shortened(forest: Any) -> None:
    """Names of columns are shortened, too: no title leaves the figure."""
    frame = forest.make(["a"])
    for i in range(6):
        frame.insert(0, f"column-{i}-{'x' * 50}", "k")
    ax = forest.draw(frame)
    ax.figure.canvas.draw()
    assert len(ax.get_title(loc="left")) <= 70
    assert outside(ax) == []


def test_no_words_of_the_frame_in_errors(kind: Any) -> None:
    """A refusal names columns and functions, never a cell."""
    with pytest.raises(KeyError) as caught:
        kind.draw(kind.make(["a person's words"]).drop(columns="level"))
    assert not re.search("person", str(caught.value))


def test_vector_files_are_clean(kind: Any) -> None:
    """Nothing is a bitmap, letters are letters in SVG, and a PDF has no Type 3 font where the reader asks for none."""
    ax = kind.draw(kind.make(["a", "b"]))
    pdf, svg = io.BytesIO(), io.BytesIO()
    with mpl.rc_context({"pdf.fonttype": 42, "svg.fonttype": "none"}):
        ax.figure.savefig(pdf, format="pdf")
        ax.figure.savefig(svg, format="svg")
    tree = ET.fromstring(svg.getvalue())
    space = "{http://www.w3.org/2000/svg}"
    assert not list(tree.iter(f"{space}image"))
    written = {"".join(text.itertext()).strip() for text in tree.iter(f"{space}text")}
    assert ax.get_title(loc="left") in written
    assert b"/Type3" not in pdf.getvalue()
    assert b"/Subtype /Image" not in pdf.getvalue()
    assert b"/Type42" in pdf.getvalue() or b"/CIDFontType2" in pdf.getvalue()
