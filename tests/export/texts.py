"""Texts that people may write, and what a spreadsheet takes for a formula: an oracle of its own."""

from __future__ import annotations

import unicodedata
from typing import Final

from hypothesis import strategies as st

STARTS: Final = "=+-@＝＋－＠﹦﹢﹣﹫−\t\r\n"
QUOTES: Final = "'\"‘’“”＇＂"
BEFORE: Final = " \t\u00a0\u3000\u200b\ufeff\x01\x85" + QUOTES

_PARTS: Final = st.sampled_from(
    [*STARTS, *BEFORE, "a", "1", "<r>", "</r>", "_x0041_", ",", ";", "🙂", "\x00", "\x1f", "&"]
)
TEXTS: Final = st.one_of(
    st.lists(_PARTS, max_size=8).map("".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
)
SAFE: Final = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn"]), max_size=12).map(lambda text: "a" + text)


def computed(text: str) -> bool:
    """Whether a spreadsheet may take a text for a formula."""
    for character in text:
        if character in STARTS:
            return True
        if character not in QUOTES and unicodedata.category(character)[0] in "LMNPS":
            return False
    return False


def undone(cell: str) -> str:
    """The text that a cell was made of, where nothing but an apostrophe was put in front."""
    return cell[1:] if cell[:1] == "'" and (computed(cell[1:]) or cell.lstrip("'").startswith("<r>")) else cell
