"""The bytes of a page before anything reads them: whether they are UTF-8, and how deep the JSON nests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec
import pyarrow as pa

__all__ = ["LEVELS", "is_deep", "last_case_id", "valid_utf8", "without_depth"]

# How deep a free value may nest. Decoders recurse, and how deep they can depends on the stack at hand; this many levels
# are within reach of every Python that casekit runs on, with room for the caller, and deeper JSON is always refused.
LEVELS: Final = 500
SPARE: Final = 16  # levels above those of free values: the page, its cases and their parts

_ID_NAME: Final = re.compile(rb'"(?:caseId|id)"\s*:')
_BRACKET_OR_TEXT: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[{]|[\]}]', re.DOTALL)


def valid_utf8(body: bytes) -> bool:
    """Whether the bytes are UTF-8; msgspec does not look inside the free JSON it cuts out."""
    offsets = pa.py_buffer(len(body).to_bytes(8, "little").rjust(16, b"\0"))
    try:
        pa.LargeStringArray.from_buffers(1, offsets, pa.py_buffer(body)).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _depths(text: bytes) -> Iterator[tuple[int, int, bool]]:
    """Where each bracket ends, how deep it stands (the outermost at 1), and whether it opens."""
    depth = 0
    for found in _BRACKET_OR_TEXT.finditer(text):
        sign = found[0]
        if sign in b"[{":
            depth += 1
            yield found.end(), depth, True
        elif sign in b"]}":
            yield found.end(), depth, False
            depth -= 1


def last_case_id(start: bytes) -> str | None:
    """The id of the case in which a broken page breaks off, if it came before the break.

    Parameters
    ----------
    start
        The page up to the break. A ``caseId`` inside free JSON is not taken for the case's own.

    Examples
    --------
    >>> last_case_id(b'{"data":[{"caseId":"case-1","output":{"caseId":"x","n":NaN')
    'case-1'
    """
    depth, case_id, named = 0, None, False
    for found in _BRACKET_OR_TEXT.finditer(start):
        sign = found[0]
        if sign in b"[{":
            depth += 1
        elif sign in b"]}":
            depth -= 1
        elif depth == 3:  # page, data, case
            if named:
                case_id = sign
            named = _ID_NAME.match(start, found.start()) is not None
            continue
        named = False
        if depth < 3:
            case_id = None
    try:
        return None if case_id is None else msgspec.json.decode(case_id, type=str)
    except msgspec.MsgspecError:
        return None


def is_deep(text: bytes) -> bool:
    """Whether JSON text nests deeper than `LEVELS`.

    Examples
    --------
    >>> is_deep(b"[" * 500 + b"]" * 500), is_deep(b"[" * 501 + b"]" * 501)
    (False, True)
    """
    # As many brackets must open and close; most texts are too short, or have too few, to be looked at.
    if len(text) <= 2 * LEVELS or text.count(b"[") + text.count(b"{") <= LEVELS:
        return False
    return any(depth > LEVELS for _, depth, _ in _depths(text))


def without_depth(body: bytes) -> bytes:
    """The page with every part that is nested beyond reading cut out, so that it can be taken apart into cases.

    What is cut out leaves ``null`` behind, still so deep that `is_deep` finds the value it was part of.
    """
    kept, start, most = [], 0, LEVELS + SPARE
    for end, depth, opens in _depths(body):
        if depth == most + 1:
            if opens:
                kept.append(body[start : end - 1])
                start = len(body)
            else:
                kept.append(b"null")
                start = end
    kept.append(body[start:])
    return b"".join(kept)
