from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection

from casekit.plots import plot_yes_rates
from casekit.stats import yes_rates

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def intervals(ax: Axes) -> list[list[list[float]]]:
    """Read the ends of the interval lines, as [[low, row], [high, row]]."""
    found = [c for c in ax.collections if isinstance(c, LineCollection)]
    assert len(found) == 1
    return [np.asarray(segment).tolist() for segment in found[0].get_segments()]


def points(ax: Axes, marker: str, *, hollow: bool | None = None) -> list[tuple[float, float]]:
    """Where marks of one shape stand, as (x, row)."""
    lines = [line for line in ax.lines if line.get_marker() == marker]
    if hollow is not None:
        lines = [line for line in lines if (line.get_markerfacecolor() != line.get_markeredgecolor()) == hollow]
    return [(float(x), float(y)) for line in lines for x, y in np.asarray(line.get_xydata()).tolist()]


def texts(ax: Axes) -> list[str]:
    """Read the texts beside and within the rows."""
    return [text.get_text() for text in ax.texts if text.get_verticalalignment() != "top"]


def caption(ax: Axes) -> str:
    """Read the small print below the axes, the one text that hangs from its top."""
    (note,) = [text for text in ax.texts if text.get_verticalalignment() == "top"]
    return note.get_text().replace("\n", " ")


def test_points_and_intervals_are_the_frames_numbers(make_rates: Any) -> None:
    """A filled circle stands at each rate, and its line runs from low to high."""
    frame = make_rates(["a", "b", "c"])
    ax = plot_yes_rates(frame)
    assert points(ax, "o", hollow=False) == list(zip(frame["rate"], range(3), strict=True))
    assert intervals(ax) == [
        [[low, i], [high, i]] for i, (low, high) in enumerate(zip(frame["low"], frame["high"], strict=True))
    ]
    assert "30.0 % (20.0 to 35.0)" in texts(ax)


def test_axis_shows_shares_in_per_cent(make_rates: Any) -> None:
    """The axis below runs from 0 to 100 %, with a dashed line at one half."""
    ax = plot_yes_rates(make_rates(["a"]))
    ax.figure.canvas.draw()
    assert ax.get_xlabel() == "Share of yes"
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0 %", "25 %", "50 %", "75 %", "100 %"]
    half = [line for line in ax.lines if line.get_linestyle() == "--"]
    assert [np.asarray(line.get_xdata()).tolist() for line in half] == [[0.5, 0.5]]


def test_group_without_rate_keeps_its_row(make_rates: Any) -> None:
    """A group without a rate has its reason in place of a mark, and a dash for its share."""
    frame = make_rates(["a", "b"])
    frame.loc[1, ["rate", "low", "high"]] = np.nan
    frame.loc[1, "reason"] = "no weight"
    ax = plot_yes_rates(frame)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    assert points(ax, "o") == [(0.3, 0)]
    assert [text.xy for text in ax.texts if text.get_text() == "no weight"] == [(0.5, 1)]  # type: ignore[attr-defined]
    assert "–" in texts(ax)


@pytest.mark.parametrize(("rate", "side"), [(0.0, "left"), (0.4, "left"), (0.98, "right")])
def test_rate_without_interval_is_a_diamond(make_rates: Any, rate: float, side: str) -> None:
    """A rate without interval is a hollow diamond with the reason beside it, on the side that has room."""
    frame = make_rates(["a"], rate=rate, low=np.nan, high=np.nan, reason="one case")
    ax = plot_yes_rates(frame)
    assert points(ax, "D", hollow=True) == [(rate, 0)]
    assert points(ax, "o") == []
    assert intervals(ax) == []
    assert [text.get_horizontalalignment() for text in ax.texts if text.get_text() == "one case"] == [side]
    assert "Diamond: no interval." in caption(ax)


def test_interval_without_width_has_its_reason(make_rates: Any) -> None:
    """An interval that shrank to a point is told with its reason, not passed off as certainty."""
    frame = make_rates(["a"], rate=0.4, low=0.4, high=0.4, reason="no variation between cases")
    ax = plot_yes_rates(frame)
    assert points(ax, "o", hollow=False) == [(0.4, 0)]
    assert "no variation between cases" in texts(ax)


def test_few_cases_are_hollow(make_rates: Any) -> None:
    """A rate from few cases is a hollow circle, and the caption says so only when there is one."""
    ax = plot_yes_rates(make_rates(["a", "b"], few_cases=[True, False]))
    assert points(ax, "o", hollow=True) == [(0.3, 0)]
    assert points(ax, "o", hollow=False) == [(0.9, 1)]
    assert "Hollow circle: few cases" in caption(ax)
    assert "Hollow" not in caption(plot_yes_rates(make_rates(["a"])))


@pytest.mark.parametrize("beyond", [0.5, np.inf])
def test_interval_beyond_the_axis_gets_an_arrow(make_rates: Any, beyond: float) -> None:
    """An interval that leaves 0 to 100 % is cut at the end of the axis, marked, and written out in numbers."""
    frame = make_rates(["a", "b", "c"], low=[-beyond, 0.5, 0.0], high=[0.5, 1 + beyond, 1.0])
    ax = plot_yes_rates(frame)
    assert points(ax, "<") == [(0, 0)]
    assert points(ax, ">") == [(1, 1)]
    assert intervals(ax) == [[[0, 0], [0.5, 0]], [[0.5, 1], [1, 1]], [[0, 2], [1, 2]]]
    assert "Arrow: the interval goes on." in caption(ax)
    assert any(text.startswith("30.0 % (−") for text in texts(ax))


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({}, "Line: 95 % interval, Wilson's score at the effective number of corrections; clustered by run."),
        ({"method": "wald", "level": 0.999}, "Line: 99.9 % interval, rate ± t standard errors; clustered by run."),
        ({"method": "of tomorrow"}, "Line: 95 % interval, of tomorrow; clustered by run."),
        ({"weights": "recorded"}, "Weights as recorded: every correction at its group's weight."),
        ({"weights": "expert"}, "Experts' weights only."),
        ({"weights": "count"}, "No weights: every verdict counts once."),
        ({"weights": "of tomorrow"}, "Weights: of tomorrow."),
        ({"n_zero_weight": 3}, "Left out: 6 items without weight."),
        (
            {"n_zero_weight": 1, "n_unknown_expert": 2000, "weights": "expert"},
            "Left out: 2 items without expert weight and 4,000 items whose expert weight is unknown.",
        ),
    ],
)
def test_caption_says_what_is_shown(make_rates: Any, columns: dict[str, Any], sentence: str) -> None:
    """The caption says in words what the line is, whose weights count and what was left out."""
    assert sentence in caption(plot_yes_rates(make_rates(["a", "b"], **columns)))


def test_caption_counts_only_what_was_left_out(make_rates: Any) -> None:
    """Items of unknown expert weight are used unless experts alone count, so that they are not told as left out."""
    assert "Left out" not in caption(plot_yes_rates(make_rates(["a"], n_unknown_expert=5)))


def test_two_statistics_in_one_frame(make_rates: Any) -> None:
    """Frames of two levels and two choices of weights, one below the other, are both explained."""
    frame = pd.concat([make_rates(["a"]), make_rates(["a"], level=0.5, weights="count")])
    ax = plot_yes_rates(frame)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "a #2"]
    assert "95 % and 50 % interval" in caption(ax)
    assert "every correction" in caption(ax)
    assert "every verdict" in caption(ax)


def test_draws_what_the_statistic_returns() -> None:
    """The statistic's own frame goes in as it is: one row per group, the missing key among them."""
    items = pd.DataFrame(
        {
            "case_id": ["c1", "c2", "c3", "c4"],
            "version": ["1.0", "1.0", None, "2.0"],
            "yes": [2, 0, 1, 0],
            "no": [0, 1, 0, 0],
            "yes_weight": [2.0, 0.0, 1.0, 0.0],
            "total_weight": [2.0, 1.0, 1.0, 0.0],
        }
    )
    ax = plot_yes_rates(yes_rates(items, by="version"))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["1.0", "2.0", "(missing)"]
    assert {"no weight", "one case"} <= set(texts(ax))
