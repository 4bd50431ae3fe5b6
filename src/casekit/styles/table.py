"""A statistic's frame, shown for reading: rates in per cent with their intervals, and words on what they are."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import Final, NamedTuple

import pandas as pd

from casekit.errors import counted
from casekit.plots.columns import flags
from casekit.plots.labels import plain, width_of
from casekit.styles.cells import NOTE_WIDTH
from casekit.styles.looks import look_of

__all__ = ["Styled", "styled"]

ROWS_SHOWN: Final = 200
SHORT: Final = 24  # columns; cells of words that are no longer stay on one line
CAPTION_WIDTH: Final = 100  # columns of the text's last lines

# All colours are the page's own, or a half transparent grey. Every rule stands on its element, where it outdoes what a
# page says of all its tables.
_BOX: Final = "max-width:100%;font-family:sans-serif;font-size:13px;line-height:1.4;color:inherit;text-align:left"
_SCROLL: Final = "max-width:100%;overflow-x:auto"
_TABLE: Final = (
    "table-layout:auto;width:auto;margin:0;border:none;border-collapse:collapse;font-size:inherit;color:inherit;"
    "background:transparent;font-variant-numeric:tabular-nums"
)
_TITLE: Final = "margin:0 0 4px;font-weight:600"
_CAPTION: Final = "margin:6px 0 2px;max-width:60em;opacity:.75;font-size:12px;overflow-wrap:anywhere"
_ROW: Final = "background:transparent;border-top:1px solid rgba(128,128,128,.3)"
_PAD: Final = "padding:3px 16px 3px 0;vertical-align:top"
_NUMBER: Final = f"{_PAD};text-align:right;white-space:nowrap"
_WORDS: Final = f"{_PAD};text-align:left;white-space:normal;min-width:16em;max-width:28em;overflow-wrap:anywhere"
_SHORT: Final = f"{_PAD};text-align:left;white-space:nowrap;font-weight:400"
_KEY: Final = f"{_PAD};text-align:left;white-space:normal;min-width:9em;overflow-wrap:anywhere;font-weight:400"
_HEAD: Final = "padding:3px 16px 3px 0;vertical-align:bottom;white-space:normal;font-weight:600;opacity:.75"
_HEADS: Final = {False: f"{_HEAD};text-align:right", True: f"{_HEAD};text-align:left"}
_PLAIN: Final = "tex2jax_ignore mathjax_ignore"  # a dollar sign is no formula


@dataclass(frozen=True, repr=False, eq=False)
class Styled:
    """A frame that a notebook shows as a table for reading; `styled` makes it.

    Attributes
    ----------
    frame : pd.DataFrame
        The frame itself, with all its rows and columns: what is shown is less.
    title : str
        What it is.
    headings : tuple of str
        Of the columns shown.
    rows : tuple of tuple of str
        The texts shown, the first 200 rows. A line break parts the lines of one cell.
    words : tuple of bool
        Whether a column holds words rather than numbers.
    n_keys : int
        How many of the columns name the row.
    caption : str
        What is shown, in sentences.

    Examples
    --------
    >>> from casekit.stats import yes_rates
    >>> items = pd.DataFrame({"case_id": ["c1", "c2"], "yes": [2, 1], "no": [0, 1], "yes_weight": [2.0, 1.0],
    ...                       "total_weight": [2.0, 2.0]})
    >>> table = styled(yes_rates(items))
    >>> table.title, len(table.rows)
    ('How often people said yes', 1)
    """

    frame: pd.DataFrame
    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: tuple[bool, ...]
    n_keys: int
    caption: str

    def __repr__(self) -> str:
        """The table in text."""
        lines = [self.headings, *(tuple(cell.replace("\n", " / ") for cell in row) for row in self.rows)]
        widths = [max(width_of(line[i]) for line in lines) for i in range(len(self.headings))]
        shown = [
            "  ".join(_padded(*cell) for cell in zip(line, widths, self.words, strict=True)).rstrip() for line in lines
        ]
        return "\n".join([self.title, *(f"  {line}" for line in shown), *wrap(self.caption, CAPTION_WIDTH)])

    def _repr_html_(self) -> str:
        """The table that a notebook shows: valid HTML without script, style sheet, id or address."""
        heads = "".join(
            f'<th scope="col" style="{_HEADS[words]}">{html.escape(heading)}</th>'
            for heading, words in zip(self.headings, self.words, strict=True)
        )
        styles = [self._style(place) for place in range(len(self.words))]
        rows = "".join(f'<tr style="{_ROW}">{self._cells(row, styles)}</tr>' for row in self.rows)
        return (
            f'<div class="{_PLAIN}" style="{_BOX}"><div style="{_TITLE}">{html.escape(self.title)}</div>'
            f'<div style="{_SCROLL}"><table class="casekit" style="{_TABLE}"><thead><tr style="background:transparent">'
            f"{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
            f'<div style="{_CAPTION}">{html.escape(self.caption)}</div></div>'
        )

    def _cells(self, row: Sequence[str], styles: Sequence[str]) -> str:
        cells = []
        for place, text in enumerate(row):
            safe = html.escape(text).replace("\n", "<br>")
            if place < self.n_keys:
                cells.append(f'<th scope="row" style="{styles[place]}">{safe}</th>')
            else:
                cells.append(f'<td style="{styles[place]}">{safe}</td>')
        return "".join(cells)

    def _style(self, place: int) -> str:
        if not self.words[place]:
            return _NUMBER
        if all(width_of(row[place]) <= SHORT for row in self.rows):
            return _SHORT
        return _KEY if place < self.n_keys else _WORDS


def styled(frame: pd.DataFrame) -> Styled:
    """Show a statistic's frame for reading: rates in per cent with their intervals, and words on what they are.

    Parameters
    ----------
    frame
        As `casekit.yes_rates`, `casekit.expert_weights`, `casekit.agreement`, `casekit.compare` or any other statistic
        returns it, or ``CaseSet.summary`` or ``CaseSet.contested``; rows may be chosen and sorted. Not changed.

    Returns
    -------
    Styled
        An object that a notebook shows as a table and ``print`` as text, the same in any process; ``.frame`` is the
        frame. Shown are the columns that name a row and the figures to read first, of the first 200 rows. A missing
        figure is an en dash; the column Note has the reason, where the frame knows one.

    Raises
    ------
    TypeError
        ``frame`` is no pandas DataFrame.
    KeyError
        It is no statistic's frame, or columns are missing; the message names them and the nearest ones.
    ValueError
        A column holds something else than the statistic puts there; the message names it.

    Examples
    --------
    >>> from casekit.stats import yes_rates
    >>> items = pd.DataFrame({"case_id": ["c1", "c1", "c2", "c3"], "yes": [2, 0, 1, 1], "no": [0, 1, 1, 0],
    ...                       "yes_weight": [4.0, 0.0, 1.0, 3.0], "total_weight": [4.0, 1.0, 4.0, 3.0]})
    >>> styled(yes_rates(items))
    How often people said yes
              Share of yes  Note       Cases  Items  Corrections  Weight
      66.7 % (9.8 to 97.4)  few cases      3      4            6      12
    In brackets: 95 % interval, Wilson's score at the effective number of corrections; clustered by run. Weights as
    recorded: every correction at its group's weight.
    """
    if not isinstance(frame, pd.DataFrame):
        raise TypeError(f"styled takes the pandas DataFrame that a statistic returns, not a {type(frame).__name__}.")
    look = look_of("styled", frame)
    keys = look.key_names(frame)
    head = frame.iloc[:ROWS_SHOWN]
    columns = [_Column(plain(name), [plain(key) for key in head[name]], True) for name in keys]
    columns += [_Column(heading, figure.cells(head), figure.words) for heading, figure in look.figures.items()]
    if any(notes := _notes(head)):  # beside the first figure with an interval: it is what may be missing
        place = next((i for i, figure in enumerate(look.figures.values()) if len(figure.columns) > 2), 0)
        columns.insert(len(keys) + place + 1, _Column("Note", notes, True))
    caption = look.caption(frame)
    if len(frame) > ROWS_SHOWN:
        rest = len(frame) - ROWS_SHOWN
        caption.insert(0, f"The first {ROWS_SHOWN} rows; {counted(rest, 'more row')} in .frame.")
    if not len(frame):
        caption.insert(0, "No rows.")
    return Styled(
        frame=frame,
        title=look.title,
        headings=tuple(column.heading for column in columns),
        rows=tuple(zip(*(column.cells for column in columns), strict=True)),
        words=tuple(column.words for column in columns),
        n_keys=len(keys),
        caption=" ".join(caption),
    )


class _Column(NamedTuple):
    heading: str
    cells: list[str]
    words: bool


def _notes(frame: pd.DataFrame) -> list[str]:
    """Why something is missing, and whether a row rests on few cases."""
    none = [False] * len(frame)
    few = flags(frame["few_cases"]).tolist() if "few_cases" in frame.columns else none
    known = frame["reason"].notna().tolist() if "reason" in frame.columns else none
    reasons = frame["reason"].tolist() if "reason" in frame.columns else none
    return [
        "; ".join([*([plain(reason, NOTE_WIDTH)] if some else []), *(["few cases"] if is_few else [])])
        for reason, some, is_few in zip(reasons, known, few, strict=True)
    ]


def _padded(text: str, width: int, words: bool) -> str:
    blanks = " " * (width - width_of(text))
    return text + blanks if words else blanks + text
