from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from casekit.plots import plot_coverage
from casekit.stats import coverage

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def caption(ax: Axes) -> str:
    """Read the small print below the axes, the one text that hangs from its top."""
    (note,) = [text for text in ax.texts if text.get_verticalalignment() == "top"]
    return note.get_text().replace("\n", " ")


def points(ax: Axes, marker: str) -> list[list[float]]:
    """Where marks of one shape stand, as [x, row]."""
    return [pair for line in ax.lines if line.get_marker() == marker for pair in np.asarray(line.get_xydata()).tolist()]


def test_points_are_the_frames_numbers(make_coverage: Any) -> None:
    """A circle stands at each group's coverage; items and corrected items stand beside."""
    ax = plot_coverage(make_coverage(["a", "b"]))
    assert points(ax, "o") == [[0.3, 0], [0.9, 1]]
    assert ax.get_xlabel() == "Corrected coverage"
    texts = [text.get_text() for text in ax.texts]
    assert {"Items", "2,000", "Corrected", "400"} <= set(texts)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({}, "share of the outputs' items that somebody corrected"),
        ({"weights": "expert"}, "Experts' corrections count alone."),
        (
            {"n_without_output": 1, "n_unmatched": [0, 1]},
            "Left out: 2 cases without output items and 1 item corrected, but in no output.",
        ),
    ],
)
def test_caption_says_what_is_shown(make_coverage: Any, columns: dict[str, Any], sentence: str) -> None:
    """The caption says what coverage is, whether experts alone count and what was left out."""
    assert sentence in caption(plot_coverage(make_coverage(["a", "b"], **columns)))


def test_draws_what_the_statistic_returns() -> None:
    """The statistic's own frame goes in as it is."""
    ranked = pd.DataFrame({"case_id": ["c1", "c1"], "key": ["a", "b"], "pointer": ["/m/0", "/m/1"], "own_key": True})
    items = pd.DataFrame(
        {
            "case_id": ["c1"],
            "key": ["b"],
            "pointer": ["/m/1"],
            "yes": [1],
            "no": [0],
            "yes_weight": [1.0],
            "total_weight": [1.0],
        }
    )
    ax = plot_coverage(coverage(ranked, items))
    assert points(ax, "D") == [[0.5, 0]]
    assert "one case" in [text.get_text() for text in ax.texts]
