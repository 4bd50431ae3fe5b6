"""JSON outside of lists: the case that answers a write, and an error's envelope."""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn

from casekit import surrogates
from casekit.errors import ProtocolError

__all__ = ["legible", "mended"]

LEVELS: Final = 100  # how deep a part of an envelope may nest: what shows or pickles an error recurses
DIGITS: Final = 4000  # of a whole number; Python reads few more

_BRACKET_OR_TEXT: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


def mended(body: bytes) -> bytes:
    r"""A body as JSON in UTF-8, each lone surrogate replaced, as in a list.

    Parameters
    ----------
    body
        As it came, perhaps with a byte order mark.

    Raises
    ------
    ValueError
        It is no UTF-8 or no JSON, which has no NaN and no infinity; the message shows no word of it.

    Examples
    --------
    >>> mended(b'{"id": "cor-1", "runId": "\\ud800", "weight": 1.0}')
    b'{"id": "cor-1", "runId": "\\ufffd", "weight": 1.0}'
    """
    try:
        text, _ = surrogates.mended(body)
        json.loads(text, parse_constant=_refuse)
        return text
    except ProtocolError:
        problem = "it is not UTF-8"
    except json.JSONDecodeError as error:
        problem = f"it is not JSON ({error.msg})"
    except (ValueError, RecursionError):
        problem = "it holds a number too long, or nests too deep, to be read"
    raise ValueError(problem)


def legible(body: bytes) -> bytes:
    r"""An error's body with all that can be read of it, in JSON that every parser takes.

    Bad bytes and lone surrogates are replaced, control characters in texts stay, and what nests deeper than 100 levels
    is null: nothing of this may hide the error's code.

    Parameters
    ----------
    body
        As it came.

    Returns
    -------
    bytes
        The body itself where it is no JSON.

    Examples
    --------
    >>> legible(b'{"error":{"code":"database-busy","message":"\xe9"}}').decode()
    '{"error": {"code": "database-busy", "message": "�"}}'
    """
    text, _ = surrogates.mended(body.decode("utf-8", "replace").encode())
    try:
        value = json.loads(_shallow(text.decode()), strict=False, parse_int=_number)
        return json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return body


def _shallow(text: str) -> str:
    """An envelope in which each part that nests too deep is null."""
    if text.count("[") + text.count("{") <= LEVELS:
        return text
    kept, start, depth, begun, deepest = list[str](), 0, 0, 0, 0
    for found in _BRACKET_OR_TEXT.finditer(text):
        sign = found[0]
        if sign in "[{":
            depth += 1
            if depth == 3:  # the envelope, its error, and a part of that
                begun, deepest = found.start(), depth
            deepest = max(deepest, depth)
        elif sign in "]}":
            if depth == 3 and deepest - 2 > LEVELS:
                kept += [text[start:begun], "null"]
                start = found.end()
            depth -= 1
    return "".join([*kept, text[start:]])


def _number(digits: str) -> float:
    """A whole number; infinity, as of a large exponent, where Python reads none so long."""
    return int(digits) if len(digits) <= DIGITS else float(digits)


def _refuse(token: str) -> NoReturn:
    raise json.JSONDecodeError(f"{token} is no number of JSON", "", 0)
