"""The plot of agreement item by item: the share of yes against the number of corrections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from casekit.errors import counted
from casekit.plots.canvas import LETTER
from casekit.plots.captions import line_words
from casekit.plots.colours import VERMILION
from casekit.plots.columns import check_frame, counts, flags, floats
from casekit.plots.intervals import interval_texts
from casekit.plots.labels import group_labels, width_of
from casekit.plots.plane import Plane

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from casekit.plots.colours import Colour

__all__ = ["plot_agreement"]

NEEDED: Final = (
    "n_yes",
    "n_corrections",
    "yes_share",
    "low",
    "high",
    "weight",
    "contested",
    "contested_from",
    "level",
)
SUMMARY: Final = ("percent", "ac1", "ac1_low", "ac1_high", "alpha", "alpha_low", "alpha_high", "n_compared", "level")
MAX_DOTS: Final = 5000
MAX_NAMED: Final = 8
GAP: Final = 3  # letters between two columns
MAX_TICKS: Final = 12  # numbers of corrections that are counted below the axis
WIDE: Final = 10**6  # corrections from which on the axis has no room for every digit
GOLDEN: Final = np.pi * (3 - np.sqrt(5))  # angle from one dot to the next: no two lie on one ray
SPREAD: Final = (0.38, 0.035)  # how far the dots of one place are spread: corrections, share


def plot_agreement(agreed: pd.DataFrame, *, summary: pd.DataFrame | None = None, ax: Axes | None = None) -> Axes:
    """Share of yes against the number of corrections, one dot per item, the first contested items named.

    Parameters
    ----------
    agreed
        The frame that `casekit.item_agreement` returns: the item's name, then ``n_yes``, ``n_corrections``,
        ``yes_share`` and the rest. Not changed. Past 5,000 rows the rest is counted in the caption. The first 8
        contested rows are named.
    summary
        The one row that `casekit.agreement` returns for the same items: its coefficients go into the caption.
    ax
        Axes to draw on. None makes a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The axes. Dots are items, squares contested ones, hollow those without weight; where several share a place
        they lie around it. The shaded region is where an item is contested. An item without corrections has no dot.

    Raises
    ------
    KeyError
        A needed column is missing; the message names it.
    ValueError
        ``summary`` has more or fewer than one row, or a column of numbers holds something else.
    TypeError
        ``agreed`` is no pandas DataFrame, or ``ax`` no axes.
    MissingExtraError
        matplotlib is not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> agreed = pd.DataFrame({
    ...     "key": ["a", "b"], "n_yes": [2, 3], "n_corrections": [4, 3], "yes_share": [0.5, 1.0], "low": [0.15, 0.44],
    ...     "high": [0.85, 1.0], "weight": [4.0, 3.0], "contested": [True, False], "contested_from": 0.4,
    ...     "level": 0.95,
    ... })
    >>> ax = plot_agreement(agreed)
    >>> ax.get_xlabel()
    'Corrections of the item'
    """
    check_frame(agreed, NEEDED, plot="plot_agreement", made_by="item_agreement")
    if summary is not None:
        check_frame(summary, SUMMARY, plot="plot_agreement(summary=...)", made_by="agreement")
        if len(summary) != 1:
            raise ValueError(f"summary has {len(summary)} rows: give the one row of agreement(items), without by.")
    frame = agreed.iloc[:MAX_DOTS]
    n, share = floats(frame["n_corrections"]), floats(frame["yes_share"])
    drawn = np.isfinite(share) & np.isfinite(n)
    contested = flags(frame["contested"]) & drawn
    named = frame[contested].iloc[:MAX_NAMED]
    columns = _table(named, list(agreed.columns).index("n_yes"))
    widths = [GAP + max(map(width_of, [heading, *texts])) for heading, texts in columns.items()] if len(named) else []
    right = n[drawn].max(initial=0.0)
    below = {"Items": drawn, "Contested": contested} if 0 < right <= MAX_TICKS else {}
    plane = Plane(
        ax,
        texts=[text for texts in columns.values() for text in texts],
        title="Share of yes of each item",
        names=("Corrections of the item", "Share of yes"),
        caption=[
            f"Each mark is an item: {counted(drawn.sum(), 'item')}, {contested.sum():,} contested.",
            _region_words(frame) if right >= 2 else "",
            "Marks of equal counts lie around their place." if drawn.any() else "",
            line_words(named, "Wilson's score of the item alone", sign="In brackets"),
            _not_drawn(frame, len(agreed) - len(frame), drawn),
            "" if summary is None else _coefficients(summary),
        ],
        beside=sum(widths),
        rows=len(below),
        legend_rows=1,
    )
    if not drawn.any():
        plane.nothing("no corrections" if len(frame) else "no items")
        plane.ax.set_xticks([])
        return plane.ax
    x, y = _spread(n, share, drawn, right)
    plane.ax.set_xlim(min(n[drawn].min(), 1) - 0.6, right + 0.6 * max(1, right / 12))
    _count_axis(plane, 1, right)
    for row, (name, rows) in enumerate(below.items()):
        found = np.bincount(n[rows].astype(int), minlength=int(right) + 1)[1:]
        plane.numbers(row, name, range(1, int(right) + 1), [f"{some:,}" for some in found])
    _region(plane, frame)
    _dots(plane, x, y, drawn, contested, floats(frame["weight"]) == 0)
    if len(named):
        at = np.flatnonzero(contested)[: len(named)]
        _names(plane, columns, x[at], y[at], (LETTER * np.cumsum(widths)).tolist())
    return plane.ax


def _table(named: pd.DataFrame, n_names: int) -> dict[str, list[str]]:
    """Write the columns beside the plot: the contested items' names and figures."""
    keys = named.iloc[:, :n_names]
    telling = [name for name in keys.columns if name != "item_no" and keys[name].nunique(dropna=False) > 1]
    names = group_labels(keys[telling] if telling else keys)
    pairs = zip(counts(named["n_yes"]), counts(named["n_corrections"]), strict=True)
    return {
        "Yes": [f"{yes} of {n}" for yes, n in pairs],
        "Share (interval)": interval_texts(named, "yes_share", "low", "high", form="{:.0f} %"),
        "Contested": names,
    }


def _region_words(frame: pd.DataFrame) -> str:
    shares = frame["contested_from"].dropna().unique()
    return (
        f"Contested, shaded: two corrections or more, at least {100 * shares[0]:g} % of them on the side of fewer."
        if len(shares) == 1
        else ""
    )


def _not_drawn(frame: pd.DataFrame, n_cut: int, drawn: NDArray[np.bool_]) -> str:
    without = int((~drawn).sum())
    return " ".join(
        [
            *([f"{counted(without, 'item')} without corrections: no mark."] if without else []),
            *([f"The first {len(frame):,} of {len(frame) + n_cut:,} items; {n_cut:,} are not shown."] if n_cut else []),
        ]
    )


def _coefficients(summary: pd.DataFrame) -> str:
    """Say the coefficients of all items together."""
    row = summary.iloc[0]

    def written(name: str, form: str = "{:.2f}") -> str:
        point, low, high = (floats(summary[column])[0] for column in (name, f"{name}_low", f"{name}_high"))
        if not np.isfinite(point):
            return "undefined"
        ends = f" ({form.format(low)} to {form.format(high)})" if np.isfinite(low) and np.isfinite(high) else ""
        return (form.format(point) + ends).replace("-", "−")

    n = floats(summary["n_compared"])[0]
    percent = floats(summary["percent"])[0]
    share = f"{100 * percent:.0f} %" if np.isfinite(percent) else "undefined"
    return (
        f"Of {counted(n if np.isfinite(n) else 0, 'item')} with two corrections or more: percent agreement {share}, "
        f"Gwet's AC1 {written('ac1')}, Krippendorff's alpha {written('alpha')}; in brackets {100 * row['level']:g} % "
        f"intervals."
    )


def _spread(
    n: NDArray[np.float64], share: NDArray[np.float64], drawn: NDArray[np.bool_], right: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lay the dots of one place around it, as seeds lie in a sunflower: the more there are, the wider."""
    x, y = n.copy(), share.copy()
    places = np.column_stack([n[drawn], share[drawn]])
    _, place, sizes = np.unique(places, axis=0, return_inverse=True, return_counts=True)
    place = place.ravel()
    order = np.argsort(place, kind="stable")
    within = np.empty(len(place))
    within[order] = np.arange(len(place)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    size = sizes[place]
    away = np.where(size > 1, np.sqrt((within + 0.5) / sizes.max()), 0.0)
    wide, high = SPREAD
    x[drawn] += max(wide, right * wide / 12) * away * np.cos(within * GOLDEN)
    y[drawn] += high * away * np.sin(within * GOLDEN)
    return x, y


def _count_axis(plane: Plane, first: float, last: float) -> None:
    """Set ticks at whole numbers, at each of them while there are few."""
    from matplotlib.ticker import MaxNLocator

    if last > MAX_TICKS:
        ticks = np.asarray(MaxNLocator(10, integer=True).tick_values(first, last))
    else:
        ticks = np.arange(1, last + 1)
    plane.ax.set_xticks(ticks[(first <= ticks) & (ticks <= last)])
    plane.ax.xaxis.set_major_formatter("{x:,.0f}" if last < WIDE else "{x:.2g}")


def _region(plane: Plane, frame: pd.DataFrame) -> None:
    """Shade where an item is contested."""
    from matplotlib.patches import Rectangle

    shares = frame["contested_from"].dropna().unique()
    right = plane.ax.get_xlim()[1]
    if len(shares) == 1 and right > 2:
        corner, size = (1.5, shares[0]), (right - 1.5, 1 - 2 * shares[0])
        plane.ax.add_patch(Rectangle(corner, *size, facecolor=plane.faint, edgecolor="none", zorder=0.6))


def _dots(
    plane: Plane,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    drawn: NDArray[np.bool_],
    contested: NDArray[np.bool_],
    weightless: NDArray[np.bool_],
) -> None:
    from matplotlib.colors import to_rgb
    from matplotlib.lines import Line2D

    red: Colour = to_rgb(VERMILION)
    looks: dict[str, tuple[NDArray[np.bool_], str, Colour, Colour]] = {
        "contested": (drawn & contested & ~weightless, "s", red, red),
        "other": (drawn & ~contested & ~weightless, "o", plane.accent, plane.accent),
        "contested, weight 0": (drawn & contested & weightless, "s", red, plane.paper),
        "other, weight 0": (drawn & ~contested & weightless, "o", plane.accent, plane.paper),
    }
    size = 4.5 if drawn.sum() < 200 else 3.0
    handles = []
    for name, (rows, marker, edge, face) in looks.items():
        look = {**plane.mark_look(edge, face), "markersize": size, "markeredgewidth": 0.8}
        plane.ax.plot(x[rows], y[rows], marker, zorder=3 if "contested" in name else 2, **look)
        if rows.any():
            handles.append(Line2D([], [], linestyle="none", marker=marker, label=name, **look))
    plane.legend(handles, columns=len(handles))


def _names(
    plane: Plane, columns: dict[str, list[str]], x: NDArray[np.float64], y: NDArray[np.float64], ends: list[float]
) -> None:
    """Write a table beside the axes, its rows in the order of the marks' heights: few of the lines to them cross."""
    order = np.lexsort((x, -y))
    heights = (0.93 - (np.arange(len(order)) + 1) * 0.93 / (MAX_NAMED + 1)).tolist()
    for number, (heading, texts) in enumerate(columns.items()):
        last = number == len(columns) - 1  # names, which may be wider than counted
        at = ends[number - 1] + LETTER * GAP if last else ends[number]
        plane.beside(heading, 0.93, at, colour=plane.muted, left=last)
        for row, height in zip(order.tolist(), heights, strict=True):
            plane.beside(texts[row], height, at, colour=plane.text, left=last)
    for row, height in zip(order.tolist(), heights, strict=True):
        plane.ax.annotate(
            "",
            (x[row], y[row]),
            xytext=(1, height),
            textcoords="axes fraction",
            arrowprops={"arrowstyle": "-", "color": plane.guide, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 3},
            annotation_clip=False,
            zorder=1,
        )
