"""The stacked bars of correction weight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from casekit.errors import counted
from casekit.plots.captions import WILSON, line_words
from casekit.plots.colours import BLUE, ORANGE, mix
from casekit.plots.columns import check_frame, counts, floats, reason_texts
from casekit.plots.intervals import interval_texts
from casekit.plots.sheet import Groups, Sheet

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.patches import Patch
    from numpy.typing import NDArray

__all__ = ["plot_weights"]

PARTS: Final = {  # column: name in the legend, from the axis outwards
    "expert_yes_weight": "experts: yes",
    "expert_no_weight": "experts: no",
    "other_yes_weight": "others: yes",
    "other_no_weight": "others: no",
}
UNKNOWN: Final = "experts unknown"
NEEDED: Final = (
    "weight",
    *PARTS,
    "expert_share",
    "share_low",
    "share_high",
    "n_cases",
    "n_corrections",
    "n_unknown_expert",
    "level",
    "reason",
)
ROUNDING: Final = 1e-9  # of a bar: what sums of weights in another order may differ by
PLAIN: Final = (1e-100, 1e100)  # longest bars that axes draw as they are


def plot_weights(weights: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Stacked bars of correction weight: one per group, experts apart from others, yes apart from no.

    Parameters
    ----------
    weights
        The frame that `casekit.expert_weights` returns: the by columns, then ``weight``, its parts and the rest.
        Not changed. Rows keep their order, the first on top; past 50 rows the rest is counted in the caption.
    ax
        Axes to draw on. None makes a new figure, sized to the number of groups.

    Returns
    -------
    matplotlib.axes.Axes
        The axes. A bar's length is the group's weight; the piece of it of which nobody knows whether it is
        experts' is grey and dotted. A group without weight has its reason in place of a bar.

    Raises
    ------
    KeyError
        A needed column is missing; the message names it.
    ValueError
        A column of numbers holds something else.
    TypeError
        ``weights`` is no pandas DataFrame, or ``ax`` no axes.
    MissingExtraError
        matplotlib is not installed.

    Examples
    --------
    >>> import pandas as pd
    >>> weights = pd.DataFrame({
    ...     "version": ["1.0"], "weight": [10.0], "expert_yes_weight": [4.0], "expert_no_weight": [2.0],
    ...     "other_yes_weight": [1.0], "other_no_weight": [3.0], "expert_share": [0.6], "share_low": [0.4],
    ...     "share_high": [0.8], "n_cases": [4], "n_corrections": [7], "n_unknown_expert": [0], "level": 0.95,
    ...     "reason": [None],
    ... })
    >>> ax = plot_weights(weights)
    >>> ax.get_xlabel()
    'Correction weight'
    """
    check_frame(weights, NEEDED, plot="plot_weights", made_by="expert_weights")
    groups = Groups.of(weights, first="weight")
    frame = groups.frame
    weight = floats(frame["weight"])
    unit = _unit(weight)
    weight = weight / unit
    parts = {name: np.nan_to_num(floats(frame[column])) / unit for column, name in PARTS.items()}
    rest = weight - sum(parts.values(), np.zeros(len(frame)))
    parts[UNKNOWN] = np.where(rest > ROUNDING * weight, rest, 0.0)  # a weight that is missing has no bar
    some_unknown = bool(parts[UNKNOWN].any())

    reasons = reason_texts(frame)
    shares = interval_texts(frame, "expert_share", "share_low", "share_high")
    for row, reason in enumerate(reasons):
        if parts[UNKNOWN][row] > 0:
            shares[row] = UNKNOWN
        elif reason and weight[row] > 0:  # a share without interval
            shares[row] += f" ({reason})"
    sheet = Sheet(
        ax,
        groups,
        title=groups.titled("Experts' and others' correction weight"),
        caption=[
            "Bar: sum of the weights of a group's corrections.",
            line_words(frame, WILSON, sign="In brackets", what="interval of the share")
            if frame["share_low"].notna().any()
            else "",
            _unknown_words(frame) if some_unknown else "",
        ],
        columns=[
            ("Experts' share", shares),
            ("Cases", counts(frame["n_cases"])),
            ("Corrections", counts(frame["n_corrections"])),
        ],
        legend_rows=2,
    )
    axes = sheet.ax
    axes.set_xlabel("Correction weight" if unit == 1 else f"Correction weight, in {unit:.0e}")
    y = np.arange(len(frame))
    left = np.zeros(len(frame))
    looks = {name: look for name, look in _looks().items() if name != UNKNOWN or some_unknown}
    for name, look in looks.items():
        some = parts[name] > 0  # an empty piece would still draw its edge
        axes.barh(y[some], parts[name][some], 0.62, left[some], **look)
        left += parts[name]
    longest = left.max(initial=0.0)
    axes.set_xlim(0, 1.02 * longest if longest > 0 else 1)
    axes.xaxis.set_major_formatter("{x:,.6g}")
    for row in np.flatnonzero(~(weight > 0)).tolist():
        sheet.inside(reasons[row] or ("no weight" if weight[row] == 0 else "no value"), 0, row)
    sheet.legend(_patches(looks), columns=(len(looks) + 1) // 2)  # yes above no
    return axes


def _unit(weight: NDArray[np.float64]) -> float:
    """A power of ten to draw bars in, where axes could not show their length as it is; else 1."""
    longest = float(weight.max(initial=0.0, where=np.isfinite(weight)))
    least, most = PLAIN
    return 1.0 if longest == 0 or least <= longest <= most else 10.0 ** max(np.floor(np.log10(longest)), -307)


def _patches(looks: dict[str, dict[str, Any]]) -> list[Patch]:
    """Make the legend's samples."""
    from matplotlib.patches import Patch

    return [Patch(label=name, **look) for name, look in looks.items()]


def _unknown_words(frame: pd.DataFrame) -> str:
    """Say why a bar is grey."""
    n = np.nansum(floats(frame["n_unknown_expert"]))
    return f"Dotted grey: nobody knows how much of it is experts' ({counted(n, 'item')} without experts' weights)."


def _looks() -> dict[str, dict[str, Any]]:
    """How each part is drawn: colour tells experts from others, hatch yes from no; grey print keeps both apart."""
    from matplotlib.colors import to_rgb

    white, black, blue, orange = (to_rgb(colour) for colour in ("white", "black", BLUE, ORANGE))
    look = {
        "experts: yes": (blue, "", blue),
        "experts: no": (mix(blue, white, 0.7), "////", blue),
        "others: yes": (orange, "", orange),
        "others: no": (mix(orange, white, 0.7), "\\\\\\\\", mix(orange, black, 0.3)),
        UNKNOWN: (mix(white, black, 0.15), "....", mix(white, black, 0.55)),
    }
    return {
        name: {"facecolor": face, "hatch": hatch, "edgecolor": edge, "linewidth": 0.5}
        for name, (face, hatch, edge) in look.items()
    }
