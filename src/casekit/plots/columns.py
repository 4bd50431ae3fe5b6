"""Columns of a statistic's frame: checked, read as numbers, written as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from casekit.errors import nearest
from casekit.plots.labels import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

__all__ = [
    "REASON_WIDTH",
    "check_frame",
    "counts",
    "flags",
    "floats",
    "item_changes",
    "levels",
    "p_values",
    "percents",
    "reason_texts",
]

REASON_WIDTH: Final = 60  # letters


def check_frame(frame: pd.DataFrame, needed: Sequence[str], *, plot: str, made_by: str) -> None:
    """Refuse what is not the frame of the statistic.

    Raises
    ------
    TypeError
        ``frame`` is no pandas DataFrame.
    KeyError
        Columns are missing; the message names them, the nearest one to the first of them, and the function that makes
        such a frame.
    ValueError
        Two columns have one name.
    """
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"{plot} takes the pandas DataFrame that {made_by} returns, not a {type(frame).__name__}.")
    if missing := [name for name in needed if name not in frame.columns]:
        others = [name for name in frame.columns if name not in needed]  # a misspelt name is none of those needed
        hint = nearest(missing[0], others)
        near = f" ({missing[0]}: {hint})" if hint.endswith("?") else ""
        raise KeyError(
            f"{plot} needs the columns {', '.join(missing)}{near}: give it the frame that {made_by} returns."
        )
    if not frame.columns.is_unique:
        twice = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"{plot} takes each column once, and {plain(twice)} stands twice: drop or rename one.")


def floats(column: pd.Series[Any]) -> NDArray[np.float64]:
    """Read a column of numbers as floats; missing is NaN, whatever the dtype.

    Raises
    ------
    ValueError
        The column holds something else; the message names it.
    """
    try:
        return pd.to_numeric(column).to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError):  # whose words would show a cell
        raise ValueError(f"The column {plain(column.name)} must hold numbers, as the statistic has it.") from None


def counts(column: pd.Series[Any]) -> list[str]:
    """Write counts with thousands set apart; a missing one is an en dash."""
    return [f"{value:,.0f}" if np.isfinite(value) else "–" for value in floats(column)]


def percents(column: pd.Series[Any]) -> list[str]:
    """Write shares in [0, 1] in per cent; a missing one is an en dash."""
    return [f"{100 * value:.1f} %" if np.isfinite(value) else "–" for value in floats(column)]


def p_values(column: pd.Series[Any]) -> list[str]:
    """Write p-values to three digits; a missing one is an en dash."""
    return ["–" if np.isnan(p) else "< 0.001" if p < 0.001 else f"{p:.3f}" for p in floats(column)]


def item_changes(frame: pd.DataFrame) -> list[str]:
    """Write how many items were added, removed and changed, in one text."""
    signs = {"n_items_added": "+", "n_items_removed": "−", "n_items_changed": "~"}
    columns = [[sign + n for n in counts(frame[name])] for name, sign in signs.items()]
    return [" ".join(row) for row in zip(*columns, strict=True)]


def levels(frame: pd.DataFrame) -> str:
    """Write the levels of the intervals; empty when the frame tells none."""
    return " and ".join(f"{100 * level:g} %" for level in frame["level"].dropna().unique())


def flags(column: pd.Series[Any]) -> NDArray[np.bool_]:
    """Read a column of yes and no; missing is no."""
    return column.eq(True).fillna(False).to_numpy(dtype=np.bool_)


def reason_texts(frame: pd.DataFrame) -> list[str]:
    """Write the column ``reason``; empty where a row has none."""
    return [
        plain(reason, REASON_WIDTH) if known else ""
        for reason, known in zip(frame["reason"], frame["reason"].notna(), strict=True)
    ]
