from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

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


def test_points_are_the_frames_numbers(make_comparison: Any) -> None:
    """A circle stands at the difference, a tick at the one over common cases; both rates stand beside."""
    ax = plot_comparison(make_comparison(["a"]))
    assert points(ax, "o") == [[0.1, 0]]
    assert points(ax, "|") == [[0.05, 0]]
    assert {"50.0 %", "60.0 %", "+10.0 (+2.0 to +18.0)", "70", "+5 −1 ~9"} <= set(texts(ax))
    dashed = [np.asarray(line.get_xdata()).tolist() for line in ax.lines if line.get_linestyle() == "--"]
    assert dashed == [[0, 0]]


def test_axis_is_symmetric_and_in_percentage_points(make_comparison: Any) -> None:
    """No difference lies in the middle, and the axis' numbers are percentage points."""
    ax = plot_comparison(make_comparison(["a", "b"], low=[-0.4, 0.02]))
    ax.figure.canvas.draw()
    start, end = ax.get_xlim()
    assert start == -end == pytest.approx(-0.44)
    assert {"−20", "0", "20"} <= {label.get_text() for label in ax.get_xticklabels()}
    assert "percentage points" in ax.get_xlabel()


def test_tiny_differences_do_not_look_large(make_comparison: Any) -> None:
    """The axis spans 5 percentage points either way at least."""
    ax = plot_comparison(make_comparison(["a"], difference=1e-4, low=0.0, high=2e-4, common_difference=0.0))
    assert ax.get_xlim()[1] >= 0.05


def test_identical_versions_have_their_reason(make_comparison: Any) -> None:
    """A difference of nothing without interval is a diamond at zero with its reason."""
    ax = plot_comparison(
        make_comparison(["a"], difference=0.0, low=np.nan, high=np.nan, method=None, reason="identical")
    )
    assert points(ax, "D") == [[0, 0]]
    assert "identical" in texts(ax)
    assert "interval," not in caption(ax)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({}, "Line: 95 % interval, cases in both versions paired."),
        ({"method": ["paired", "welch"]}, "cases in both versions paired; no case in both (Welch)."),
        ({"method": "of tomorrow"}, "Line: 95 % interval, of tomorrow."),
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
    assert points(ax, "o")[0] == [pytest.approx(1 / 3), 0]
    assert "no weight after" in texts(ax)
