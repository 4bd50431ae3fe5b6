"""How the cells of a shown frame are written: shares in per cent, thousands set apart, a missing one as a dash."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from casekit.plots.columns import counts, flags, floats, item_changes, p_values, percents
from casekit.plots.intervals import interval_texts
from casekit.plots.labels import plain

__all__ = [
    "NOTE_WIDTH",
    "Figure",
    "change",
    "coefficients",
    "count",
    "lists",
    "measured",
    "moved",
    "one_digit",
    "p_value",
    "percent",
    "reasons",
    "share",
    "weights",
    "words",
    "yes_or_no",
]

NONE: Final = "–"  # a value that is missing
NOTE_WIDTH: Final = 70  # columns of why a number is missing
REASONS_SHOWN: Final = 3  # of one item's people
READ: Final = 160  # characters of a reason somebody gave
LIST_SHOWN: Final = 5  # names in one cell


@dataclass(frozen=True)
class Figure:
    """One column that is shown: how its cells are written, of which columns of the frame."""

    write: Callable[..., list[str]]
    columns: tuple[str, ...]
    words: bool = False  # read from the left and broken into lines; numbers stand on the right

    def cells(self, frame: pd.DataFrame) -> list[str]:
        """The texts, one per row.

        Raises
        ------
        ValueError
            A column holds something else than the statistic's; the message names it, without its words.
        """
        try:
            return self.write(frame, *self.columns)
        except (TypeError, ValueError, AttributeError):
            names = " and ".join(map(repr, self.columns))
            raise ValueError(f"Of {names} one holds something else than the statistic puts there.") from None


def share(point: str, low: str = "low", high: str = "high") -> Figure:
    """A share with its interval."""
    return Figure(interval_texts, (point, low, high))


def _points(frame: pd.DataFrame, *columns: str) -> list[str]:
    return interval_texts(frame, *columns, form="{:+.1f}")


def change(point: str, *ends: str) -> Figure:
    """A difference of shares in percentage points, with its interval where one is named."""
    return Figure(_points if ends else _bare_points, (point, *ends))


def _bare_points(frame: pd.DataFrame, name: str) -> list[str]:
    return [f"{100 * x:+.1f}".replace("-", "−") if np.isfinite(x) else NONE for x in floats(frame[name])]


def coefficients(frame: pd.DataFrame, name: str, low: str, high: str) -> list[str]:
    """Coefficients that are no shares, with their intervals."""
    values = zip(*(floats(frame[column]) for column in (name, low, high)), strict=True)
    texts = [
        NONE if np.isnan(x) else f"{x:.2f}" if np.isnan([a, b]).any() else f"{x:.2f} ({a:.2f} to {b:.2f})"
        for x, a, b in values
    ]
    return [text.replace("-", "−") for text in texts]


def weights(frame: pd.DataFrame, name: str) -> list[str]:
    """Sums of weights, and other numbers that are no counts."""
    return [_number(x) for x in floats(frame[name])]


def one_digit(frame: pd.DataFrame, name: str) -> list[str]:
    """Numbers that are about so large."""
    return [f"{x:,.1f}" if np.isfinite(x) else NONE for x in floats(frame[name])]


def _number(x: float) -> str:
    """A number to one digit, and a small one to three figures."""
    if not np.isfinite(x):
        return NONE
    return (f"{x:,.1f}".removesuffix(".0") if abs(x) >= 10 or x == round(x, 1) else f"{x:.3g}").replace("-", "−")


def p_value(name: str) -> Figure:
    """A p-value."""
    return Figure(lambda frame, column: p_values(frame[column]), (name,))


def count(name: str) -> Figure:
    """A number of things."""
    return Figure(lambda frame, column: counts(frame[column]), (name,))


def percent(name: str) -> Figure:
    """A share without an interval."""
    return Figure(lambda frame, column: percents(frame[column]), (name,))


def words(frame: pd.DataFrame, name: str) -> list[str]:
    """Texts of the frame."""
    return [plain(x) if known else NONE for x, known in zip(frame[name], frame[name].notna(), strict=True)]


def yes_or_no(frame: pd.DataFrame, name: str) -> list[str]:
    """Truth values; a missing one is no no."""
    known, yes = frame[name].notna(), flags(frame[name])
    return [("yes" if one else "no") if some else NONE for one, some in zip(yes, known, strict=True)]


def lists(frame: pd.DataFrame, name: str) -> list[str]:
    """Lists of names; a missing list is no empty one."""
    return [_listed(list(cell)) if isinstance(cell, Sequence | np.ndarray) else NONE for cell in frame[name]]


def _listed(names: Sequence[Any]) -> str:
    more = f" and {len(names) - LIST_SHOWN:,} more" if len(names) > LIST_SHOWN else ""
    return (", ".join(plain(name, 30) for name in names[:LIST_SHOWN]) or "none") + more


def reasons(frame: pd.DataFrame, name: str) -> list[str]:
    """What people said, one line each."""
    return [_said(cell) for cell in frame[name]]


def _said(reasons: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        f"{plain(one['verdict'], 10)}{' (expert)' if one['expert'] else ''}: {_read(one['reason'])}"
        for one in reasons[:REASONS_SHOWN]
    ]
    lines += [f"and {len(reasons) - REASONS_SHOWN:,} more"] if len(reasons) > REASONS_SHOWN else []
    return "\n".join(lines) or "none given"


def _read(text: str) -> str:
    """The beginning of a text that a person wrote."""
    return plain(text[:READ] + ("…" if len(text) > READ else ""), 2 * READ + 2)


def moved() -> Figure:
    """Items added, removed and changed, in one cell."""
    return Figure(lambda frame, *_: item_changes(frame), ("n_items_added", "n_items_removed", "n_items_changed"))


def measured(frame: pd.DataFrame, check: str, name: str) -> list[str]:
    """A gate's value or limit, in the unit of its check."""
    texts = []
    for which, x in zip(frame[check], floats(frame[name]), strict=True):
        if which == "max_drop" and np.isfinite(x):
            texts.append(f"{100 * x:+.1f} points".replace("-", "−"))
        else:
            texts.append(f"{100 * x:.1f} %" if which == "min_candidate" and np.isfinite(x) else _number(x))
    return texts
