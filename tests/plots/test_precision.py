from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from casekit.plots import plot_precision
from casekit.stats import precision_at_k

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def caption(ax: Axes) -> str:
    """Read the small print below the axes, the one text that hangs from its top."""
    (note,) = [text for text in ax.texts if text.get_verticalalignment() == "top"]
    return note.get_text().replace("\n", " ")


def labels(ax: Axes) -> list[str]:
    """Read the labels of the rows."""
    return [label.get_text() for label in ax.get_yticklabels()]


def test_points_are_the_frames_numbers(make_precision: Any) -> None:
    """A circle stands at each group's precision; k is told, and the share of places judged stands beside."""
    ax = plot_precision(make_precision(["a", "b"], judged_share=[0.25, np.nan]))
    drawn = [np.asarray(line.get_xydata()).tolist() for line in ax.lines if line.get_marker() == "o"]
    assert [[0.3, 0], [0.9, 1]] in drawn
    assert ax.get_xlabel() == "Share of yes among the first 10"
    texts = [text.get_text() for text in ax.texts]
    assert [texts.count(text) for text in ("Judged", "25.0 %", "–")] == [1, 1, 1]


def test_several_k_are_a_key(make_precision: Any) -> None:
    """Frames of several k, one below the other, are told apart: k becomes part of the label and of the title."""
    frame = pd.concat([make_precision(["a"]), make_precision(["a"], k=5)])
    ax = plot_precision(frame)
    assert labels(ax) == ["a · 10", "a · 5"]
    assert ax.get_title(loc="left") == "Share of yes among the first k items by version, k"


def test_caption_says_what_is_shown(make_precision: Any) -> None:
    """The caption counts the cases whose stored ranks had to decide, and what is in no output."""
    ax = plot_precision(make_precision(["a", "b"], n_stored_ranks=2, n_unmatched=1))
    assert "the stored ranks decide (4 cases)" in caption(ax)
    assert "Left out: 2 items corrected, but in no output." in caption(ax)
    assert "stored" not in caption(plot_precision(make_precision(["a"])))


def test_draws_what_the_statistic_returns() -> None:
    """The statistic's own frame goes in as it is."""
    ranked = pd.DataFrame(
        {"case_id": ["c1", "c1"], "key": ["a", "b"], "pointer": ["/m/0", "/m/1"], "own_key": True, "place": [0, 1]}
    )
    items = pd.DataFrame(
        {
            "case_id": ["c1"],
            "key": ["b"],
            "pointer": ["/m/1"],
            "rank": [1],
            "yes": [1],
            "no": [0],
            "yes_weight": [1.0],
            "total_weight": [1.0],
        }
    )
    ax = plot_precision(pd.concat([precision_at_k(ranked, items, k=k) for k in (1, 2)]))
    assert labels(ax) == ["1", "2"]
    assert {"no weight among the first k", "one case"} <= {text.get_text() for text in ax.texts}
