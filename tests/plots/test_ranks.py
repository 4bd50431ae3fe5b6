from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import Rectangle

from casekit.plots import plot_ranks
from casekit.stats import rank_rates

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def caption(ax: Axes) -> str:
    """Read the small print below the axes, the one text that hangs from its top."""
    (note,) = [text for text in ax.texts if text.get_verticalalignment() == "top"]
    return note.get_text().replace("\n", " ")


def points(ax: Axes, marker: str, *, hollow: bool = False) -> list[list[float]]:
    """Where marks of one shape stand, as [rank, share]."""
    lines = [line for line in ax.lines if line.get_marker() == marker]
    lines = [line for line in lines if (line.get_markerfacecolor() != line.get_markeredgecolor()) == hollow]
    return [pair for line in lines for pair in np.asarray(line.get_xydata()).tolist()]


def bars(ax: Axes) -> list[tuple[float, float, float]]:
    """Bars below the shares, as (rank, bottom, height)."""
    found = [p for p in ax.patches if isinstance(p, Rectangle)]
    return [(p.get_x() + p.get_width() / 2, p.get_y(), p.get_height()) for p in found]


def numbers(ax: Axes, name: str) -> list[str]:
    """Read a row of numbers below the axis, by its name."""
    (heading,) = [text for text in ax.texts if text.get_text() == name]
    row = [t for t in ax.texts if t is not heading and t.get_position()[1] == heading.get_position()[1]]
    return [text.get_text() for text in row]


def test_points_and_band_are_the_frames_numbers(make_ranks: Any) -> None:
    """A point stands at each rank's rate, within a band from low to high that is one rank wide."""
    frame = make_ranks(["a", "b", "c"])
    ax = plot_ranks(frame)
    assert points(ax, "o") == [[i, rate] for i, rate in enumerate(frame["rate"])]
    (band,) = ax.collections
    corners = np.asarray(band.get_paths()[0].vertices).tolist()
    for i, low, high in zip(range(3), frame["low"], frame["high"], strict=True):
        assert all(corner in corners for corner in ([i - 0.5, low], [i + 0.5, low], [i - 0.5, high], [i + 0.5, high]))
    assert "Band: 95 % interval, Wilson's score" in caption(ax)


def test_places_without_a_verdict_are_hollow_and_counted(make_ranks: Any) -> None:
    """Bars have the height of the places, the part without a verdict hollow on top; the numbers stand below."""
    ax = plot_ranks(make_ranks(["a", "b"], n_slots=[40, 20], n_unjudged=[10, 20], n_cases=[30, 0]))
    height = 0.26 - 0.07
    judged, empty, all_empty = bars(ax)
    assert judged == pytest.approx((0, -0.26, 0.75 * height))
    assert empty == pytest.approx((0, -0.26 + 0.75 * height, 0.25 * height))
    assert all_empty == pytest.approx((1, -0.26, 0.5 * height))
    paper = ax.get_facecolor()
    assert [patch.get_facecolor() == paper for patch in ax.patches] == [False, True, True]
    assert numbers(ax, "Places") == ["40", "20"]
    assert numbers(ax, "No verdict") == ["10", "20"]
    assert numbers(ax, "Cases") == ["30", "0"]


def test_a_rank_without_a_rate_leaves_a_gap(make_ranks: Any) -> None:
    """Neither point, line nor band crosses a rank of which nothing is known."""
    frame = make_ranks(["a", "b", "c"])
    frame.loc[1, ["rate", "low", "high"]] = np.nan
    ax = plot_ranks(frame)
    assert [x for x, _ in points(ax, "o")] == [0, 2]
    assert len(ax.collections) == 2
    assert [np.size(line.get_xdata()) for line in ax.lines if line.get_linestyle() == "-"] == [1, 1]
    assert "No point: no verdict of weight." in caption(ax)


def test_ranks_that_do_not_follow_each_other_are_not_joined(make_ranks: Any) -> None:
    """A rank that has no row leaves a gap, too; rows may come in any order."""
    ax = plot_ranks(make_ranks(["a", "b", "c"], rank=[7, 0, 1]))
    assert [np.size(line.get_xdata()) for line in ax.lines if line.get_linestyle() == "-"] == [2, 1]
    assert [x for x, _ in points(ax, "o")] == [0, 1, 7]


def test_few_cases_and_no_interval_have_their_marks(make_ranks: Any) -> None:
    """A rate of few cases is a hollow circle, one without interval a hollow diamond; the caption explains both."""
    frame = make_ranks(["a", "b"], few_cases=True)
    frame.loc[1, ["low", "high"]] = np.nan
    ax = plot_ranks(frame)
    assert [x for x, _ in points(ax, "o", hollow=True)] == [0]
    assert [x for x, _ in points(ax, "D", hollow=True)] == [1]
    assert {"Hollow circle: few cases, a rough interval.", "Diamond: no interval."} <= {
        sentence + "." for sentence in caption(ax).removesuffix(".").split(". ")
    }


def test_items_without_a_rank_are_told_not_drawn(make_ranks: Any) -> None:
    """The row of items without a rank has no place on the axis; the caption counts it."""
    frame = make_ranks(["a", "b"], rank=pd.Series([0, pd.NA], dtype="Int64"), n_items=[9, 1200], rate=[0.5, 0.75])
    ax = plot_ranks(frame)
    assert points(ax, "o") == [[0, 0.5]]
    assert "Not drawn: 1,200 corrected items without a rank, share of yes 75.0 %." in caption(ax)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"n_zero_weight": [1, 2]}, "Left out: 3 items corrected, but without weight."),
        ({"n_unmatched": 1}, "Left out: 2 items corrected, but in no output."),
        ({"n_stored_ranks": 2}, "for want of a list of the output: 4."),
        ({"weights": "expert"}, "Experts' weights only."),
    ],
)
def test_caption_says_what_is_not_seen(make_ranks: Any, columns: dict[str, Any], sentence: str) -> None:
    """What was left out and whose weights count stand in the caption, and only when it is so."""
    assert sentence in caption(plot_ranks(make_ranks(["a", "b"], **columns)))
    assert sentence not in caption(plot_ranks(make_ranks(["a", "b"])))


def test_many_ranks_are_cut_and_counted(make_ranks: Any) -> None:
    """Of 200 ranks the first 100 are drawn, and the caption counts the rest; numbers stand below some, apart."""
    ax = plot_ranks(make_ranks([str(i) for i in range(200)]))
    assert len(points(ax, "o")) == 100
    assert "The first 100 of 200 ranks; 100 are not shown." in caption(ax)
    assert 3 < len(ax.get_xticks()) <= 11
    assert len(numbers(ax, "Places")) == len(ax.get_xticks())


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_nothing_known(make_ranks: Any, missing: object) -> None:
    """A frame without ranks, or with nothing known of them, is drawn without a mark."""
    frame = make_ranks(["a", "b"])
    empty = pd.DataFrame({name: pd.Series([missing] * 2, dtype=object) for name in frame.columns})
    for nothing in (frame.iloc[:0], empty):
        ax = plot_ranks(nothing)
        ax.figure.canvas.draw()
        assert "no ranks" in [text.get_text() for text in ax.texts]
        assert not [*ax.patches, *ax.collections, *ax.lines]
    ax = plot_ranks(empty.assign(rank=[0, 1]))
    ax.figure.canvas.draw()
    assert not ax.patches
    assert all(np.size(line.get_xdata()) == 0 for line in ax.lines)
    assert numbers(ax, "Cases") == ["–", "–"]


def test_one_ranking_at_a_time(make_ranks: Any) -> None:
    """Rows of two groups under each other are refused, naming the first rank that stands twice."""
    with pytest.raises(ValueError, match="rank 0 stands twice"):
        plot_ranks(pd.concat([make_ranks(["a", "b"])] * 2))


def test_draws_what_the_statistic_returns() -> None:
    """The statistic's own frame goes in as it is."""
    case = {"case_id": list("xxy"), "key": list("aba"), "pointer": ["/m/0", "/m/1", "/m/0"], "rank": [0, 1, 0]}
    ranked = pd.DataFrame({**case, "own_key": True, "place": [0, 1, 0]})
    items = pd.DataFrame({**case, "yes": 1, "no": [1, 0, 0], "yes_weight": 1.0, "total_weight": [2.0, 1.0, 1.0]})
    ax = plot_ranks(rank_rates(ranked, items.iloc[[0, 2]]))
    assert points(ax, "o", hollow=True) == [[0, pytest.approx(2 / 3)]]
    assert numbers(ax, "No verdict") == ["0", "1"]
