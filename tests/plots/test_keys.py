from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from casekit.plots import plot_keys
from casekit.stats import rank_keys

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


def test_shrunk_and_counted_rates_stand_side_by_side(make_keys: Any) -> None:
    """A circle stands at the shrunk rate, a tick at the rate as counted, and a dashed line at the mean."""
    frame = make_keys(["a", "b"])
    ax = plot_keys(frame)
    assert points(ax, "o") == [[rate, i] for i, rate in enumerate(frame["shrunk_rate"])]
    assert points(ax, "|") == [[rate, i] for i, rate in enumerate(frame["rate"])]
    dashed = [np.asarray(line.get_xdata()).tolist() for line in ax.lines if line.get_linestyle() == "--"]
    assert dashed == [[0.6, 0.6]]
    assert {"Rank", "1", "2", "6 of 3,000", "6 of 3,001"} <= set(texts(ax))


@pytest.mark.parametrize(
    ("q", "text"), [(0.0, "< 0.001"), (0.0009, "< 0.001"), (0.05, "0.050"), (1.0, "1.000"), (np.nan, "–")]
)
def test_q_values_are_written(make_keys: Any, q: float, text: str) -> None:
    """A q-value has three decimals; a tiny one is not written as 0, a missing one is a dash."""
    ax = plot_keys(make_keys(["a"], q_value=q))
    assert text in texts(ax)
    assert "adjusted for 1 key tested" in caption(ax)


def test_without_a_prior_the_counted_rates_remain(make_keys: Any) -> None:
    """Without a fitted prior there are ticks alone; the reason, the same for all keys, is told once."""
    nothing = dict.fromkeys(["shrunk_rate", "low", "high", "prior_mean"], np.nan)
    frame = make_keys(["a", "b"], rank=pd.NA, reason="fewer than 5 keys with two corrections", **nothing)
    ax = plot_keys(frame)
    assert points(ax, "o") == points(ax, "D") == []
    assert len(points(ax, "|")) == 2
    assert "No interval: fewer than 5 keys with two corrections." in caption(ax)
    assert "Circle" not in caption(ax)
    assert "fewer than 5 keys with two corrections" not in texts(ax)


def test_keys_that_do_not_differ_are_diamonds(make_keys: Any) -> None:
    """Where keys do not differ beyond chance, each is a hollow diamond at the rate of all."""
    frame = make_keys(["a"], shrunk_rate=0.5, low=np.nan, high=np.nan, reason="keys do not differ beyond chance")
    ax = plot_keys(frame)
    assert points(ax, "D") == [[0.5, 0]]
    assert "No interval: keys do not differ beyond chance." in caption(ax)


def test_key_without_corrections_keeps_its_row(make_keys: Any) -> None:
    """A key that nobody corrected has no tick, and says so."""
    ax = plot_keys(make_keys(["a"], n_yes=0, n_corrections=0, rate=np.nan, shrunk_rate=np.nan))
    assert points(ax, "|") == []
    assert "no corrections" in texts(ax)
    assert "Tick" not in caption(ax)


def test_draws_what_the_statistic_returns() -> None:
    """The statistic's own frame goes in as it is, best key on top."""
    yes, no = [0, 2, 3, 5, 9, 7, 1, 4, 12, 6], [3, 3, 1, 1, 1, 7, 0, 0, 8, 2]
    items = pd.DataFrame({"case_id": [f"c{i}" for i in range(10)], "key": list("abcdefghij"), "yes": yes, "no": no})
    ranks = rank_keys(items)
    ax = plot_keys(ranks)
    assert [label.get_text() for label in ax.get_yticklabels()] == ranks["key"].tolist()
    assert "9 of 10" in texts(ax)
