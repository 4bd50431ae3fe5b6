from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from casekit.plots import plot_coefficients
from casekit.stats import agreement

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def caption(ax: Axes) -> str:
    """Read the small print below the axes, the one text that hangs from its top."""
    (note,) = [text for text in ax.texts if text.get_verticalalignment() == "top"]
    return note.get_text().replace("\n", " ")


def points(ax: Axes, marker: str, *, hollow: bool) -> list[list[float]]:
    """Where marks of one shape stand, as [x, row]."""
    lines = [line for line in ax.lines if line.get_marker() == marker]
    lines = [line for line in lines if (line.get_markerfacecolor() != line.get_markeredgecolor()) == hollow]
    return [pair for line in lines for pair in np.asarray(line.get_xydata()).tolist()]


def texts(ax: Axes) -> list[str]:
    """Read the texts beside and within the rows."""
    return [text.get_text() for text in ax.texts]


def test_three_coefficients_stand_apart_in_a_row(make_coefficients: Any) -> None:
    """Percent agreement, AC1 and alpha have shapes of their own, one below the other within their row."""
    ax = plot_coefficients(make_coefficients(["a", "b"]))
    assert points(ax, "o", hollow=False) == [[0.8, pytest.approx(-0.24)], [0.8, pytest.approx(0.76)]]
    assert points(ax, "s", hollow=False) == [[0.6, 0], [0.6, 1]]
    assert points(ax, "^", hollow=False) == [[0.5, pytest.approx(0.24)], [0.5, pytest.approx(1.24)]]
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["Percent", "AC1", "Alpha"]
    assert {"0.80", "0.60", "0.50", "60"} <= set(texts(ax))


@pytest.mark.parametrize(("low", "start"), [(0.2, 0.0), (-0.3, -0.3), (-1.0, -1.0)])
def test_axis_reaches_below_zero_when_needed(make_coefficients: Any, low: float, start: float) -> None:
    """The axis runs from 0 to 1, and below 0 as far as an interval goes, with a line at chance."""
    ax = plot_coefficients(make_coefficients(["a"], alpha_low=low))
    assert ax.get_xlim() == pytest.approx((start - 0.04, 1.04))
    dashed = [np.asarray(line.get_xdata()).tolist() for line in ax.lines if line.get_linestyle() == "--"]
    assert dashed == [[0, 0]]


def test_group_without_agreement_keeps_its_row(make_coefficients: Any) -> None:
    """A group of which nothing is known has its reason in place of marks."""
    nothing = {f"{name}{end}": np.nan for name in ("percent", "ac1", "alpha") for end in ("", "_low", "_high")}
    ax = plot_coefficients(make_coefficients(["a"], reason="no item has two corrections", **nothing))
    assert [points(ax, marker, hollow=False) + points(ax, marker, hollow=True) for marker in "os^"] == [[], [], []]
    assert "no item has two corrections" in texts(ax)
    assert "Note" not in texts(ax)


def test_partly_known_agreement_has_a_note(make_coefficients: Any) -> None:
    """Where one coefficient is undefined the others are drawn, and the reason stands in a column of its own."""
    lacking = dict.fromkeys(["alpha", "alpha_low", "alpha_high", "ac1_low", "ac1_high"], np.nan)
    ax = plot_coefficients(make_coefficients(["a"], reason="no variation", **lacking))
    assert points(ax, "o", hollow=False) == [[0.8, pytest.approx(-0.24)]]
    assert points(ax, "s", hollow=True) == [[0.6, 0]]
    assert points(ax, "^", hollow=False) == points(ax, "^", hollow=True) == []
    assert {"Note", "no variation", "–"} <= set(texts(ax))
    assert "Hollow without line: no interval." in caption(ax)


def test_few_cases_are_hollow(make_coefficients: Any) -> None:
    """Marks that rest on few cases are hollow, and the caption says so only when there are such."""
    ax = plot_coefficients(make_coefficients(["a"], few_cases=True))
    assert points(ax, "s", hollow=True) == [[0.6, 0]]
    assert "Hollow: few cases" in caption(ax)
    assert "Hollow" not in caption(plot_coefficients(make_coefficients(["a"])))


def test_draws_what_the_statistic_returns() -> None:
    """The statistic's own frame goes in as it is, with a group that has nothing to compare."""
    items = pd.DataFrame({"case_id": list("abcd"), "group": list("xxxy"), "yes": [2, 1, 0, 1], "no": [0, 1, 3, 0]})
    ax = plot_coefficients(agreement(items, by="group"))
    assert points(ax, "o", hollow=True)[0] == [pytest.approx(2 / 3), pytest.approx(-0.24)]
    assert "no item has two corrections" in texts(ax)
