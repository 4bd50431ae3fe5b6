from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation

from casekit.plots import plot_agreement
from casekit.stats import agreement, item_agreement

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HOSTILE = ["cost_$5", "$\\bad$", "\\frac{1", "<b>&amp;", "--", "a\nb", "\u202eevil", "x" * 500]


def caption(ax: Axes) -> str:
    """Read the small print below the axes, the one text that hangs from its top."""
    (note,) = [text for text in ax.texts if text.get_verticalalignment() == "top"]
    return note.get_text().replace("\n", " ")


def points(ax: Axes, marker: str) -> list[list[float]]:
    """Where marks of one shape stand, as [corrections, share]."""
    return [pair for line in ax.lines if line.get_marker() == marker for pair in np.asarray(line.get_xydata()).tolist()]


def texts(ax: Axes) -> list[str]:
    """Read the texts beside and within the plot."""
    return [text.get_text() for text in ax.texts]


def test_one_mark_per_item(make_agreement: Any) -> None:
    """Contested items are squares and others circles, each at its number of corrections and its share."""
    frame = make_agreement(["a", "b", "c"], n_corrections=[4, 3, 1], yes_share=[0.5, 1.0, 0.0])
    ax = plot_agreement(frame.assign(n_yes=[2, 3, 0], contested=[True, False, False]))
    assert points(ax, "s") == [[4, 0.5]]
    assert points(ax, "o") == [[3, 1.0], [1, 0.0]]
    assert "3 items, 1 contested" in caption(ax)
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["contested", "other"]


def test_items_are_counted_below_each_number_of_corrections(make_agreement: Any) -> None:
    """Below each number of corrections stand its items and the contested ones; a number without any has zeros."""
    frame = make_agreement(["a", "b", "c"], n_corrections=[4, 4, 2], contested=[True, False, True])
    ax = plot_agreement(frame)
    rows: dict[str, list[str]] = {}
    for name in ("Items", "Contested"):
        (heading,) = [t for t in ax.texts if t.get_text() == name and t.get_horizontalalignment() == "right"]
        same = [t for t in ax.texts if t.get_position()[1] == heading.get_position()[1] and t is not heading]
        rows[name] = [text.get_text() for text in same]
    assert rows == {"Items": ["0", "1", "0", "2"], "Contested": ["0", "1", "0", "1"]}
    assert ax.get_xticks().tolist() == [1, 2, 3, 4]


def test_marks_of_equal_counts_lie_apart(make_agreement: Any) -> None:
    """Items of equal counts lie around their place, all apart, nearer to it than to any other."""
    ax = plot_agreement(make_agreement([str(i) for i in range(300)]))
    found = np.array(points(ax, "s"))
    assert len(np.unique(found.round(9), axis=0)) == 300
    assert (np.abs(found[:, 0] - 4) < 0.4).all()
    assert (np.abs(found[:, 1] - 0.5) < 0.04).all()


def test_first_contested_items_are_named(make_agreement: Any) -> None:
    """The first eight contested items are named with their counts and intervals, each with a line to its mark."""
    ax = plot_agreement(make_agreement([f"k{i}" for i in range(20)], case_id="c1"))
    assert {name for name in texts(ax) if name.startswith("k")} == {f"k{i}" for i in range(8)}
    assert texts(ax).count("2 of 4") == texts(ax).count("50 % (15 to 85)") == 8
    arrows = [text for text in ax.texts if isinstance(text, Annotation) and text.arrow_patch is not None]
    assert len(arrows) == 8
    assert {tuple(arrow.xy) for arrow in arrows} <= {tuple(point) for point in points(ax, "s")}
    assert "In brackets: 95 % interval, Wilson's score of the item alone." in caption(ax)


def test_names_tell_items_apart(make_agreement: Any) -> None:
    """A name is made of the columns that differ, without the number of the item where the key tells it."""
    frame = make_agreement(["a", "b"])
    frame.insert(0, "version", "1.0")
    assert {"c0 · a", "c1 · b"} <= set(texts(plot_agreement(frame)))
    assert "1.0 · c0 · 0 · a" in texts(plot_agreement(frame.iloc[:1]))


def test_contested_region_is_shaded_as_the_frame_has_it(make_agreement: Any) -> None:
    """The region runs from two corrections on, between the share of the frame and its counterpart."""
    ax = plot_agreement(make_agreement(["a"], contested_from=0.25))
    (region,) = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert (region.get_x(), region.get_y(), region.get_height()) == (1.5, 0.25, 0.5)
    assert "two corrections or more, at least 25 % of them on the side of fewer" in caption(ax)
    single = plot_agreement(make_agreement(["a"], n_corrections=1, yes_share=1.0, contested=False))
    assert not single.patches
    assert "shaded" not in caption(single)


def test_items_without_weight_are_hollow(make_agreement: Any) -> None:
    """An item on which nobody's weight is has a hollow mark, and the legend says so."""
    ax = plot_agreement(make_agreement(["a", "b"], weight=[0.0, 4.0], contested=[False, True]))
    (hollow,) = [line for line in ax.lines if line.get_marker() == "o" and np.size(line.get_xdata())]
    assert hollow.get_markerfacecolor() != hollow.get_markeredgecolor()
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["contested", "other, weight 0"]


def test_items_without_corrections_are_counted(make_agreement: Any) -> None:
    """An item that nobody corrected has no mark; the caption counts such items."""
    frame = make_agreement(["a", "b"], n_corrections=[4, 0], yes_share=[0.5, np.nan], contested=[True, False])
    ax = plot_agreement(frame)
    assert points(ax, "o") == []
    assert "1 item without corrections: no mark." in caption(ax)


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_nothing_known(make_agreement: Any, missing: object) -> None:
    """A frame without items, or with nothing known of them, says so and has no mark."""
    frame = make_agreement(["a", "b"])
    empty = pd.DataFrame({name: pd.Series([missing] * 2, dtype=object) for name in frame.columns})
    for nothing, said in ((frame.iloc[:0], "no items"), (empty, "no corrections")):
        ax = plot_agreement(nothing)
        ax.figure.canvas.draw()
        assert said in texts(ax)
        assert not [*ax.lines, *ax.patches]


def test_coefficients_stand_in_the_caption(make_agreement: Any, make_coefficients: Any) -> None:
    """The summary's coefficients stand in the caption with their intervals; an undefined one says so."""
    frame = make_agreement(["a"])
    summary = make_coefficients(["all"], alpha=np.nan, ac1_low=-0.1)
    said = caption(plot_agreement(frame, summary=summary))
    assert "Of 60 items with two corrections or more: percent agreement 80 %" in said
    assert "AC1 0.60 (−0.10 to 0.75), Krippendorff's alpha undefined; in brackets 95 % intervals." in said
    assert "AC1" not in caption(plot_agreement(frame))


def test_summary_is_one_row_of_agreement(make_agreement: Any, make_coefficients: Any) -> None:
    """A summary of several groups, or of another statistic, is refused."""
    with pytest.raises(ValueError, match=r"summary has 2 rows: give the one row of agreement\(items\)"):
        plot_agreement(make_agreement(["a"]), summary=make_coefficients(["a", "b"]))
    with pytest.raises(KeyError, match=r"percent.*agreement"):
        plot_agreement(make_agreement(["a"]), summary=make_agreement(["a"]))


def test_many_items_are_cut_and_counted(make_agreement: Any) -> None:
    """Of 5,200 items the first 5,000 are drawn, and the caption counts the rest."""
    ax = plot_agreement(make_agreement(range(5200)))
    assert len(points(ax, "s")) == 5000
    assert "The first 5,000 of 5,200 items; 200 are not shown." in caption(ax)


def test_many_corrections_have_few_ticks(make_agreement: Any) -> None:
    """Where items have hundreds of corrections, ticks stand at round numbers and nothing is counted below them."""
    ax = plot_agreement(make_agreement(["a", "b"], n_corrections=[400, 2]))
    assert len(ax.get_xticks()) <= 11
    assert "Items" not in texts(ax)


def test_hostile_names_come_out(make_agreement: Any) -> None:
    """Mathematics, mark-up, line breaks and marks that turn the direction are drawn letter for letter, on one line."""
    ax = plot_agreement(make_agreement(HOSTILE, case_id="c"))
    mpl.rcParams["text.usetex"] = False
    ax.figure.canvas.draw()
    shown = {*texts(ax)}
    assert {*HOSTILE[:5], "a\\nb", "\\u202eevil"} <= shown
    assert max(len(text) for text in shown if text.startswith("x")) == 40
    assert not any(text.get_parse_math() for text in ax.texts if text.get_text() in HOSTILE)


def test_letters_without_a_font(make_agreement: Any) -> None:
    """Letters of named items that no font draws give one warning, at the caller's line."""
    frame = make_agreement(["a\U00011d00", "b\U00011d01"])
    with pytest.warns(UserWarning, match="2 characters of the labels are in none of the fonts") as caught:
        ax = plot_agreement(frame)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "c0 · a□" in texts(ax)


def test_draws_what_the_statistics_return() -> None:
    """The statistics' own frames go in as they are."""
    items = pd.DataFrame({"case_id": list("abc"), "key": "k", "yes": [2, 3, 0], "no": [2, 0, 0]})
    items = items.assign(yes_weight=items["yes"] * 1.0, total_weight=(items["yes"] + items["no"]) * 1.0)
    ax = plot_agreement(item_agreement(items), summary=agreement(items))
    assert points(ax, "s") == [[4, 0.5]]
    assert points(ax, "o") == [[3, 1.0]]
    assert "1 item without corrections" in caption(ax)


@pytest.mark.parametrize("count", [10**6, 2**53 + 1, 2**63 - 1])
def test_counts_of_any_size_have_an_axis(make_agreement: Any, count: int) -> None:
    """However many corrections an item has, the axis has a few ticks, and no label runs into the next."""
    frame = make_agreement(["a", "b"])
    frame["n_corrections"] = [count, 3]
    ax = plot_agreement(frame)
    ax.figure.canvas.draw()
    assert 1 < len(ax.get_xticks()) < 20
    assert ax.get_xlim()[1] > count
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
