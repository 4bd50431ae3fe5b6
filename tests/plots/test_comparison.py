from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection
from matplotlib.text import Annotation

from casekit.plots import plot_comparison
from casekit.stats import compare

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def caption(ax: Axes) -> str:
    """Read the small print below the axes, the one text that hangs from its top."""
    (note,) = [text for text in ax.texts if text.get_verticalalignment() == "top"]
    return note.get_text().replace("\n", " ")


def points(ax: Axes, marker: str) -> list[list[float]]:
    """Where marks of one shape stand, as [x, row]."""
    return [pair for line in ax.lines if line.get_marker() == marker for pair in np.asarray(line.get_xydata()).tolist()]


def texts(ax: Axes) -> list[str]:
    """Read the texts beside and within the rows."""
    return [text.get_text() for text in ax.texts]


def lines(ax: Axes) -> list[list[list[float]]]:
    """Where the horizontal lines run, as [[x, row], [x, row]], thick ones first."""
    drawn = [c for c in ax.collections if isinstance(c, LineCollection)]
    drawn = sorted(drawn, key=lambda c: -c.get_linewidth()[0])  # type: ignore[index]
    return [np.asarray(segment).tolist() for c in drawn for segment in c.get_segments()]


def test_before_and_after_are_joined(make_comparison: Any) -> None:
    """A square stands at the share before, a circle at the one after, joined; the interval is laid from the square."""
    ax = plot_comparison(make_comparison(["a"]))
    assert points(ax, "s") == [[0.5, 0]]
    assert points(ax, "o") == [[0.6, 0]]
    assert points(ax, "|") == [[0.55, 0]]
    joined, interval = lines(ax)
    assert joined == [[0.5, 0], [0.6, 0]]
    assert interval == [[0.52, 0], [pytest.approx(0.68), 0]]
    assert {"50.0 %", "60.0 %", "+10.0 (+2.0 to +18.0)", "70", "+5 −1 ~9"} <= set(texts(ax))


def test_axis_holds_shares_alone(make_comparison: Any) -> None:
    """The axis reaches from 0 to 1 at most: an interval laid beyond that is cut there, with an arrow."""
    ax = plot_comparison(make_comparison(["a", "b"], before_rate=0.95, after_rate=1.0, low=-0.02, high=0.2))
    ax.figure.canvas.draw()
    assert ax.get_xlim()[1] == pytest.approx(1.0, abs=0.01)
    assert points(ax, ">") == [[1.0, 0], [1.0, 1]]
    assert "Arrow: the interval goes on." in caption(ax)
    assert ax.get_xticklabels()[-1].get_text() == "100 %"


def test_both_ends_of_the_axis_have_their_ticks(make_comparison: Any) -> None:
    """A tick that lies at an end is drawn, whatever the last digits of the sums that made it."""
    where = {"before_rate": 0.25, "after_rate": 0.25, "low": np.nan, "high": np.nan, "common_difference": 0.0}
    ax = plot_comparison(make_comparison(["a"], **where))
    assert ax.get_xticks()[[0, -1]].tolist() == [pytest.approx(0.2), pytest.approx(0.3)]


@pytest.mark.parametrize("before", [0.0, 0.4, 1.0])
def test_tiny_differences_do_not_look_large(make_comparison: Any, before: float) -> None:
    """The axis spans 10 percentage points at least, also at the ends of what a share can be."""
    after = before - 1e-4 if before else 1e-4
    frame = make_comparison(["a"], before_rate=before, after_rate=after, common_difference=0.0)
    start, end = plot_comparison(frame.assign(low=0.0, high=0.0)).get_xlim()
    assert end - start >= 0.1
    assert start <= before <= end


def test_identical_versions_have_their_reason(make_comparison: Any) -> None:
    """A difference of nothing without interval is a diamond on the square with its reason."""
    nothing = {"low": np.nan, "high": np.nan, "method": None, "reason": "identical"}
    ax = plot_comparison(make_comparison(["a"], after_rate=0.5, difference=0.0, **nothing))
    assert points(ax, "D") == [[0.5, 0]]
    assert "identical" in texts(ax)
    assert "interval of" not in caption(ax)
    assert "Laid from" not in caption(ax)


@pytest.mark.parametrize(("before", "side"), [(0.2, "left"), (0.8, "right")])
def test_a_side_alone_is_shown(make_comparison: Any, before: float, side: str) -> None:
    """Where only the share before is known its square stands, with the reason beside it and not upon it."""
    nothing = dict.fromkeys(["after_rate", "difference", "low", "high", "common_difference"], np.nan)
    frame = make_comparison(["a", "b"], before_rate=[before, 1 - before], reason=["no weight after", None])
    frame.loc[0, list(nothing)] = np.nan
    ax = plot_comparison(frame)
    assert [before, 0] in points(ax, "s")
    notes = [text for text in ax.texts if isinstance(text, Annotation)]
    (note,) = [text for text in notes if text.get_text() == "no weight after"]
    assert note.xy[0] == before
    assert note.get_horizontalalignment() == side


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({}, "Line: 95 % interval of the change, cases in both versions paired."),
        ({"method": ["paired", "welch"]}, "cases in both versions paired; no case in both (Welch)."),
        ({"method": "of tomorrow"}, "Line: 95 % interval of the change, of tomorrow."),
        ({"n_cases_erased": [1, 2]}, "Removed because an erasure cleared them: 3 cases."),
        ({"weights": "count"}, "every verdict counts once"),
    ],
)
def test_caption_says_what_is_shown(make_comparison: Any, columns: dict[str, Any], sentence: str) -> None:
    """The caption says how the interval was found, whose weights count and how many cases were erased."""
    assert sentence in caption(plot_comparison(make_comparison(["a", "b"], **columns)))


def test_unknown_erasures_are_not_told_as_none(make_comparison: Any) -> None:
    """Where nobody counted erased cases the caption does not speak of them."""
    assert "erasure" not in caption(plot_comparison(make_comparison(["a"])))


def test_draws_what_the_statistic_returns() -> None:
    """The statistic's own frame goes in as it is, also for a group that only one side has."""
    before = pd.DataFrame(
        {
            "case_id": ["c1", "c2", "c3", "c4"],
            "group": ["a", "a", "a", "b"],
            "key": "k",
            "yes": [1, 0, 0, 1],
            "no": [0, 1, 1, 0],
            "yes_weight": [1.0, 0.0, 0.0, 1.0],
            "total_weight": 1.0,
        }
    )
    after = before.iloc[:3].assign(yes=[1, 1, 0], no=[0, 0, 1], yes_weight=[1.0, 1.0, 0.0])
    ax = plot_comparison(compare(before, after, by="group"))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    assert points(ax, "s") == [[pytest.approx(1 / 3), 0], [1.0, 1]]
    assert points(ax, "o") == [[pytest.approx(2 / 3), 0]]
    assert "no weight after" in texts(ax)
