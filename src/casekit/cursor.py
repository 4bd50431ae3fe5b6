"""The cursor of the next page, read off a page's bytes before anything else of it is parsed."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from casekit.errors import IncompletePull, ProtocolError

__all__ = ["next_cursor"]

# The last members of the outermost object. The match is anchored at the end and holds no bracket, so that nothing inside the
# cases can match; a quote inside a JSON string is always escaped, so the match cannot begin in one.
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
    found = _TAIL.search(body, max(0, len(body) - _WINDOW))
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
        tail = _decode(body.removeprefix(b"\xef\xbb\xbf"))
    except msgspec.ValidationError as error:
        raise ProtocolError(f"the answer is JSON but no page of cases: {str(error).replace('`$', '`page')}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError(f"the answer is not JSON: {error}") from None
    except RecursionError:
        raise ProtocolError("the answer nests too deep to be a page of cases") from None
    if tail.hasMore and not tail.nextCursor:
        raise IncompletePull("the server says hasMore but gives no nextCursor: the list cannot be read whole; report it to its operator")
    return tail.nextCursor if tail.hasMore else None
