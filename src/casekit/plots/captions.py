"""Sentences below a plot: what a line is, whose weights count, what was left out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from casekit.errors import counted
from casekit.plots.columns import floats, levels
from casekit.plots.labels import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pandas as pd

__all__ = ["WILSON", "left_out", "line_words", "weight_words"]

WILSON: Final = "Wilson's score at the effective number of corrections; clustered by run"
WEIGHTS: Final = {
    "recorded": "Weights as recorded: every correction at its group's weight.",
    "expert": "Experts' weights only.",
    "count": "No weights: every verdict counts once.",
}


def line_words(frame: pd.DataFrame, method: str, *, sign: str = "Line", what: str = "interval") -> str:
    """Say what the lines, or another ``sign``, are: at which level, found how. Empty when the frame tells no level."""
    shown = levels(frame)
    return f"{sign}: {shown} {what}, {method}." if shown and method else ""


def weight_words(frame: pd.DataFrame) -> list[str]:
    """Say whose weights count."""
    return [WEIGHTS.get(weights, f"Weights: {plain(weights)}.") for weights in frame["weights"].dropna().unique()]


def left_out(parts: Mapping[str, pd.Series[Any]]) -> str:
    """Say what the figures are not made of.

    Parameters
    ----------
    parts
        Numbers per group, by what they count: a noun, a blank, and the rest of the phrase.

    Examples
    --------
    >>> import pandas as pd
    >>> left_out({"item without weight": pd.Series([1, 2]), "case without output": pd.Series([1, 0])})
    'Left out: 3 items without weight and 1 case without output.'
    """
    words = []
    for phrase, column in parts.items():
        noun, _, rest = phrase.partition(" ")
        n = float(np.nansum(floats(column)))
        if n > 0:
            words.append(f"{counted(n, noun)} {rest}")
    return f"Left out: {' and '.join(words)}." if words else ""
