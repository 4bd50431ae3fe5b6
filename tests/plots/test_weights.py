from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import Rectangle

from casekit.plots import plot_weights
from casekit.stats import expert_weights

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTS = [
    "expert_weight",
    "other_weight",
    "expert_yes_weight",
    "expert_no_weight",
    "other_yes_weight",
    "other_no_weight",
]
SHARE = ["expert_share", "share_low", "share_high"]


def pieces(ax: Axes, row: int) -> list[tuple[str, float, float]]:
    """Pieces of the bar in a row: name by the legend's look, left end, length; from the axis outwards."""
    legend = ax.get_legend()
    assert legend is not None
    names = {
        (patch.get_facecolor(), patch.get_hatch()): text.get_text()
        for patch, text in zip(legend.get_patches(), legend.get_texts(), strict=True)
    }
    bars = [p for p in ax.patches if isinstance(p, Rectangle) and p.get_y() < row < p.get_y() + p.get_height()]
    return [(names[bar.get_facecolor(), bar.get_hatch()], bar.get_x(), bar.get_width()) for bar in bars]


def texts(ax: Axes) -> list[str]:
    """Read the texts beside and within the rows."""
    return [text.get_text() for text in ax.texts if text.get_verticalalignment() != "top"]


def caption(ax: Axes) -> str:
    """Read the small print below the axes, the one text that hangs from its top."""
    (note,) = [text for text in ax.texts if text.get_verticalalignment() == "top"]
    return note.get_text().replace("\n", " ")


def test_pieces_are_the_frames_numbers(make_weights: Any) -> None:
    """A bar is made of four pieces that meet: experts' yes and no, then others' yes and no."""
    ax = plot_weights(make_weights(["a", "b"]))
    expected = [("experts: yes", 0, 4), ("experts: no", 4, 2), ("others: yes", 6, 1), ("others: no", 7, 3)]
    assert pieces(ax, 0) == pieces(ax, 1) == expected
    assert ax.get_xlabel() == "Correction weight"
    assert texts(ax).count("60.0 % (50.0 to 70.0)") == 2


def test_unknown_experts_are_told(make_weights: Any) -> None:
    """Where expert weights are unknown the whole bar is grey, and neither a share nor a zero is shown."""
    frame = make_weights(["a", "b"], n_unknown_expert=[0, 7])
    frame.loc[1, [*PARTS, *SHARE]] = np.nan
    ax = plot_weights(frame)
    assert len(pieces(ax, 0)) == 4
    assert pieces(ax, 1) == [("experts unknown", 0, 10)]
    assert texts(ax).count("experts unknown") == 1
    assert "(7 items without experts' weights)" in caption(ax)


def test_unknown_is_in_the_legend_only_when_there(make_weights: Any) -> None:
    """The legend names what is drawn: no grey without an unknown weight, nor for a rounding error."""
    ax = plot_weights(make_weights(["a"], weight=10.0 + 1e-12))
    legend = ax.get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["experts: yes", "experts: no", "others: yes", "others: no"]


def test_the_level_of_the_shares_interval_is_told(make_weights: Any) -> None:
    """The caption says at which level the interval in brackets is, and how it was found."""
    words = caption(plot_weights(make_weights(["a"], level=0.9)))
    assert "In brackets: 90 % interval of the share, Wilson's score" in words


def test_known_zero_is_not_unknown(make_weights: Any) -> None:
    """Experts with no weight are a share of 0 %, which is not the same as unknown."""
    frame = make_weights(["a"], expert_yes_weight=0.0, expert_no_weight=0.0, other_no_weight=9.0)
    ax = plot_weights(frame.assign(expert_share=0.0, share_low=0.0, share_high=0.2))
    assert pieces(ax, 0) == [("others: yes", 0, 1), ("others: no", 1, 9)]
    assert "0.0 % (0.0 to 20.0)" in texts(ax)


@pytest.mark.parametrize(
    ("weight", "reason", "said"), [(0.0, "no items", "no items"), (0.0, None, "no weight"), (np.nan, None, "no value")]
)
def test_group_without_weight_keeps_its_row(make_weights: Any, weight: float, reason: str | None, said: str) -> None:
    """A group without weight has a reason in place of a bar; zero and missing are told apart."""
    frame = make_weights(["a", "b"])
    frame[PARTS] = frame[PARTS].astype("float64")
    frame.loc[1, PARTS] = weight
    frame.loc[1, "weight"] = weight
    frame.loc[1, SHARE] = np.nan
    frame.loc[1, "reason"] = reason
    ax = plot_weights(frame)
    assert pieces(ax, 1) == []
    assert said in texts(ax)
    assert "–" in texts(ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]


def test_share_without_interval_has_its_reason(make_weights: Any) -> None:
    """A share without interval is written with the reason."""
    frame = make_weights(["a"], share_low=np.nan, share_high=np.nan, reason="one case")
    ax = plot_weights(frame)
    assert "60.0 % (one case)" in texts(ax)
    assert "In brackets" not in caption(ax)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e12])
def test_axis_holds_the_longest_bar(make_weights: Any, scale: float) -> None:
    """The axis starts at 0 and ends a little beyond the longest bar, at any scale."""
    frame = make_weights(["a", "b"])
    columns = ["weight", *PARTS]
    frame[columns] = frame[columns] * scale
    ax = plot_weights(frame)
    ax.figure.canvas.draw()
    start, end = ax.get_xlim()
    assert start == 0
    assert 10 * scale < end < 11 * scale


def test_looks_differ_also_in_grey(make_weights: Any) -> None:
    """Yes and no differ by hatch; experts and others differ by hatch or by a clear step of grey."""
    frame = make_weights(["a", "b"], weight=20.0)
    legend = plot_weights(frame).get_legend()
    assert legend is not None
    looks = [
        (p.get_hatch() or "", np.dot(p.get_facecolor()[:3], [0.2126, 0.7152, 0.0722])) for p in legend.get_patches()
    ]
    for i, (hatch, grey) in enumerate(looks):
        for other, shade in looks[:i]:
            assert hatch != other or abs(grey - shade) > 0.2


def test_legend_stands_outside_the_bars(make_weights: Any) -> None:
    """The legend lies above the axes, not over the bars."""
    ax = plot_weights(make_weights(["a"]))
    ax.figure.canvas.draw()
    legend = ax.get_legend()
    assert legend is not None
    assert legend.get_window_extent().y0 >= ax.get_window_extent().y1 - 1


def test_draws_what_the_statistic_returns() -> None:
    """The statistic's own frame goes in as it is, with groups of unknown and of no weight."""
    items = pd.DataFrame(
        {
            "case_id": ["c1", "c2", "c3", "c4"],
            "version": ["1.0", "1.0", None, "2.0"],
            "yes": [2, 0, 1, 0],
            "no": [0, 1, 0, 0],
            "yes_weight": [2.0, 0.0, 1.0, 0.0],
            "total_weight": [2.0, 1.0, 1.0, 0.0],
            "expert_yes_weight": [1.0, 0.0, np.nan, 0.0],
            "expert_total_weight": [1.0, 1.0, np.nan, 0.0],
        }
    )
    ax = plot_weights(expert_weights(items, by="version"))
    assert pieces(ax, 0) == [("experts: yes", 0, 1), ("experts: no", 1, 1), ("others: yes", 2, 1)]
    assert pieces(ax, 1) == []
    assert pieces(ax, 2) == [("experts unknown", 0, 1)]


@pytest.mark.parametrize("factor", [1e-310, 1e-300, 1e-150, 1e150, 4e306])
def test_bars_of_any_size_are_seen(make_weights: Any, factor: float) -> None:
    """Weights that no axes could show are drawn in a power of ten, which the axis names; no number overflows."""
    frame = make_weights(["a", "b"])
    columns = ["weight", *PARTS]
    ax = plot_weights(frame.assign(**{name: frame[name] * factor for name in columns}))
    ax.figure.canvas.draw()
    unit = float(ax.get_xlabel().rsplit(" ", 1)[1])
    lengths = [length * unit / factor for _, _, length in pieces(ax, 0)]
    assert lengths == pytest.approx([4, 2, 1, 3], rel=1e-3)
    assert ax.get_xlim()[1] < 20
    assert ax.get_xlim()[1] > 1e-4


def test_a_weight_too_large_has_its_reason(make_weights: Any) -> None:
    """A group whose weights are too large to add up has no bar, and the reason in its place."""
    frame = make_weights(["a", "b"])
    frame.loc[1, ["weight", *PARTS, *SHARE]] = np.nan
    frame["reason"] = [None, "weights too large to add up"]
    ax = plot_weights(frame)
    assert pieces(ax, 1) == []
    assert "weights too large to add up" in texts(ax)
    assert pieces(ax, 0)
