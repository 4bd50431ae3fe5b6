"""What a page's last bytes tell before anything else of it is parsed: whether it is whole, and the next cursor."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from casekit.errors import IncompletePull, ProtocolError
from casekit.surrogates import BOM

__all__ = ["is_cut", "next_cursor"]

# The last members of the outermost object. The match is anchored at the end and holds no bracket, so that nothing
# inside the cases can match; a quote inside a JSON string is always escaped, so the match cannot begin in one.
_CURSOR: Final = rb'"nextCursor"\s*:\s*(?:"([^"\\\x00-\x1f]*)"|null)'
_MORE: Final = rb'"hasMore"\s*:\s*(true|false)'
_TAIL: Final = re.compile(
    rb"[,{]\s*(?:" + _CURSOR + rb"\s*,\s*)?" + _MORE + rb"\s*\}\s*\Z|"
    rb"[,{]\s*" + _MORE + rb"\s*,\s*" + _CURSOR + rb"\s*\}\s*\Z"
)
_WINDOW: Final = 4096  # bytes at the end that are looked at


class _Tail(msgspec.Struct):
    hasMore: bool
    nextCursor: str | None = None


_decode: Final = msgspec.json.Decoder(_Tail).decode
_scan: Final = msgspec.json.Decoder(msgspec.Raw).decode


def _tail(body: bytes) -> re.Match[bytes] | None:
    return _TAIL.search(body, max(0, len(body) - _WINDOW))


def is_cut(body: bytes) -> bool:
    """Whether JSON began and did not end: where an answer names no length, nothing else tells that it was cut.

    Examples
    --------
    >>> is_cut(b'{"data":[{"caseId":"c-1"}'), is_cut(b'{"data":[],"hasMore":false}'), is_cut(b"<html>")
    (True, False, False)
    """
    if _tail(body) is not None or body.removeprefix(BOM).lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        _scan(body.removeprefix(BOM))
    except msgspec.DecodeError as error:
        closed = body[-_WINDOW:].rstrip()[-1:] in (b"}", b"]")  # a lone minus is no number, and ends in neither
        return "truncated" in str(error) or not (closed or "trailing" in str(error))
    except RecursionError:
        return False
    return False


def next_cursor(body: bytes) -> str | None:
    """The cursor that follows a page; None after the last.

    Parameters
    ----------
    body
        The page, as it came.

    Raises
    ------
    ProtocolError
        The body is no page.
    IncompletePull
        The page says that more follows and gives no cursor to ask for it.

    Examples
    --------
    >>> next_cursor(b'{"data":[],"nextCursor":"b2","hasMore":true}')
    'b2'
    >>> next_cursor(b'{"data":[],"hasMore":false}') is None
    True
    """
    found = _tail(body)
    if found is not None:
        more = found[2] or found[3]
        cursor = found[1] or found[4]
        if more == b"false":
            return None
        if cursor:
            try:
                return cursor.decode()
            except UnicodeDecodeError:
                raise ProtocolError("nextCursor is not UTF-8") from None
    # Members in another order, an escaped cursor, or none beside hasMore: parse, and let nothing pass for an end.
    try:
        tail = _decode(body.removeprefix(BOM))
    except msgspec.ValidationError as error:
        raise ProtocolError(f"the answer is JSON but no page of cases: {str(error).replace('`$', '`page')}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"the answer is not JSON: {error}") from None
    except RecursionError:
        raise ProtocolError("the answer nests too deep to be a page of cases") from None
    if tail.hasMore and not tail.nextCursor:
        raise IncompletePull(
            "the server says hasMore but gives no nextCursor: the list cannot be read whole; report it to its operator"
        )
    return tail.nextCursor if tail.hasMore else None
