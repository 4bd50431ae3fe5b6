"""Labels: the words of a frame made safe, short and unique, and drawn letter for letter.

Group keys are data: they may hold dollar signs (mathematics to matplotlib), line breaks, terminal codes, marks
that turn the writing direction, letters no font here can draw. None of that may change what a plot says.
"""

from __future__ import annotations

import unicodedata
import warnings
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from casekit.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from matplotlib.text import Text

__all__ = ["Words", "elide", "group_labels", "plain", "width_of"]

LABEL_WIDTH: Final = 40  # columns of a terminal: a Chinese letter takes two
PART_WIDTH: Final = 8  # what each key keeps when several must share LABEL_WIDTH
READ_MAX: Final = 400  # characters looked at on either end; the middle of a longer text is never shown
MARKS_MAX: Final = 2  # accents on one letter; more would climb over the rows above
BOX: Final = "□"  # stands for a letter that no font draws
FALLBACK_FONTS: Final = (  # tried in this order, when installed, for letters the reader's own fonts lack
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans CJK KR",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Droid Sans Fallback",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "PingFang SC",
    "Hiragino Sans",
    "Apple SD Gothic Neo",
    "Arial Unicode MS",
    "Noto Emoji",
    "Segoe UI Emoji",
    "Segoe UI Symbol",
    "Symbola",
    "DejaVu Sans",
)


def plain(value: Any, width: int = LABEL_WIDTH) -> str:
    r"""One value as a label: one line, nothing invisible, at most ``width`` columns wide.

    Parameters
    ----------
    value
        A group key, a column's name or any other cell. Missing becomes ``(missing)``, an empty text ``(empty)``.
    width
        Widest label, in columns (East Asian letters take two). The middle of a wider one becomes ``…``.

    Returns
    -------
    str
        The text. Control and format characters are written as Python escapes, outer blanks as ``␣``.

    Examples
    --------
    >>> plain("cost_$5"), plain(None), plain("")
    ('cost_$5', '(missing)', '(empty)')
    >>> print(plain("red\x1b[31m\nrow"))
    red\x1b[31m\nrow
    >>> plain("a-rather-long-version-name-2024-05-01", width=20)
    'a-rather-l…024-05-01'
    """
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return "(missing)"
    text = str(value)
    if not text:
        return "(empty)"
    if len(text) > 2 * READ_MAX:
        text = text[:READ_MAX] + "…" + text[-READ_MAX:]
    safe = _bare(one_line(text, limit=12 * len(text)))  # an escape is at most 10 characters: nothing is cut here
    inner = safe.strip(" ")
    left = len(safe) - len(safe.lstrip(" "))
    right = len(safe) - len(inner) - left if inner else 0
    return elide("␣" * left + inner + "␣" * right, width)


def group_labels(keys: pd.DataFrame) -> list[str]:
    """One label per row of ``keys``, all different.

    Parameters
    ----------
    keys
        The by columns alone, one row per group. Several columns are joined with `` · ``; none at all is one group.

    Returns
    -------
    list of str
        Labels in the frame's order. Groups that would look the same get a number behind: ``a``, ``a #2``.

    Examples
    --------
    >>> group_labels(pd.DataFrame({"version": ["1", None], "kind": ["agent", "flow"]}))
    ['1 · agent', '(missing) · flow']
    """
    columns = [keys.iloc[:, i].tolist() for i in range(keys.shape[1])]
    rows = list(zip(*columns, strict=True)) if columns else [("all",)] * len(keys)
    return _unique([_join(row) for row in rows])


def _join(parts: Sequence[Any]) -> str:
    whole = [plain(part) for part in parts]
    label = " · ".join(whole)
    if width_of(label) <= LABEL_WIDTH:
        return label
    room, kept = LABEL_WIDTH - 3 * (len(parts) - 1), whole.copy()
    by_width = sorted(range(len(whole)), key=lambda i: width_of(whole[i]))
    for done, i in enumerate(by_width):  # what a short key leaves of its share, longer ones take
        kept[i] = elide(whole[i], max(PART_WIDTH, room // (len(whole) - done)))
        room -= width_of(kept[i])
    return " · ".join(kept)


def _unique(labels: list[str]) -> list[str]:
    names: dict[str, None] = {}
    for label in labels:
        name, number = label, 1
        while name in names:
            number += 1
            name = f"{label} #{number}"
        names[name] = None
    return list(names)


def _bare(text: str) -> str:
    """Text with runs of accents beyond MARKS_MAX written as escapes."""
    out, run = [], 0
    for c in text:
        run = run + 1 if unicodedata.category(c) in ("Mn", "Me") else 0
        out.append(c if run <= MARKS_MAX else c.encode("unicode_escape").decode("ascii"))
    return "".join(out)


def width_of(text: str) -> int:
    """Count the columns that ``text`` takes: two for an East Asian wide letter, none for an accent."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.category(c) in ("Mn", "Me") for c in text)


def elide(text: str, width: int) -> str:
    """Shorten ``text``: the middle is cut out and marked when it is wider than ``width`` columns."""
    if width_of(text) <= width:
        return text
    return f"{_fitting(text, width // 2)}…{_fitting(text[::-1], width - width // 2 - 1)[::-1]}"


def _fitting(text: str, width: int) -> str:
    """The longest beginning of ``text`` that is at most ``width`` columns wide."""
    end, taken = 0, 0
    while end < len(text) and (taken := taken + width_of(text[end])) <= width:
        end += 1
    return text[:end]


class Words:
    """The texts of one plot, and the fonts that draw them.

    Parameters
    ----------
    texts
        Every text of the plot that comes from data. Letters that no font here draws are warned of once, and
        shown as a box.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        letters = {c for text in texts for c in text if not c.isascii()} | {BOX}
        self.families, self.lacking = _fonts_for(letters)
        self._box = "?" if BOX in self.lacking else BOX
        self.lacking.discard(BOX)
        if self.lacking:
            warnings.warn(
                f"{len(self.lacking)} characters of the labels are in none of the fonts here and are drawn as "
                f"{self._box}; install a font that has them, such as Noto Sans CJK or Noto Emoji.",
                UserWarning,
                stacklevel=4,
            )

    def drawn(self, text: str) -> str:
        """``text`` with a box for each letter that no font draws."""
        return "".join(self._box if c in self.lacking else c for c in text)

    def drawn_labels(self, labels: list[str]) -> list[str]:
        """Labels with boxes for letters that no font draws, all different."""
        return _unique([self.drawn(label) for label in labels])

    def set(self, artist: Text, text: str) -> None:
        """Let ``artist`` show ``text`` letter for letter: neither as mathematics nor as TeX."""
        artist.set_parse_math(False)
        artist.set_usetex(False)
        if self.families is not None:
            artist.set_fontfamily(self.families)
        artist.set_text(self.drawn(text))


def _fonts_for(letters: set[str]) -> tuple[list[str] | None, set[str]]:
    """Find the families to set (None: the reader's own are enough), and the letters in none of them."""
    import matplotlib as mpl
    from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font

    def has(family: str) -> set[str]:
        try:
            path = findfont(FontProperties(family=[family]), fallback_to_default=False)
        except ValueError:  # not installed: matplotlib passes over it, too
            return set()
        charmap: dict[Any, Any] = get_font(path).get_charmap()
        return {c for c in letters if ord(c) in charmap}

    families = list(mpl.rcParams["font.family"])
    lacking = letters.difference(*(has(family) for family in families))
    installed = {font.name for font in fontManager.ttflist} if lacking else set()
    added = []
    for family in FALLBACK_FONTS:
        if lacking and family in installed and (found := lacking & has(family)):
            lacking = lacking - found
            added.append(family)
    return (families + added if added else None), set(lacking)
