"""Lone surrogates in JSON: halves of a character, which no text file can hold; nothing else of a body is changed."""

from __future__ import annotations

import re
from typing import Final

from casekit.errors import ProtocolError

__all__ = ["BOM", "mended"]

BOM: Final = b"\xef\xbb\xbf"

_MAYBE_LONE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
# Every escape in turn, so that the backslash of an escaped backslash never starts one; a pair before its halves.
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_LONE_CHARACTER: Final = re.compile("[\ud800-\udfff]")


def mended(body: bytes) -> tuple[bytes, int]:
    r"""JSON in UTF-8 without byte order mark and lone surrogates, and how many of these were replaced.

    Raises
    ------
    ProtocolError
        The bytes are no UTF-8, even with surrogates allowed.

    Examples
    --------
    >>> mended(b'["\\ud800", 1.0]')
    (b'["\\ufffd", 1.0]', 1)
    """
    replaced = 0
    body = body.removeprefix(BOM)
    try:
        body.decode()
    except UnicodeDecodeError as error:
        try:
            halves = body.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise ProtocolError(f"the page is not UTF-8 (byte {error.start:,}); check the server's charset") from None
        whole = halves.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        text, replaced = _LONE_CHARACTER.subn("\ufffd", whole)
        body = text.encode()
    if _MAYBE_LONE.search(body):

        def mend(escape: re.Match[bytes]) -> bytes:
            nonlocal replaced
            if escape[1] is None:
                return escape[0]
            replaced += 1
            return b"\\ufffd"

        body = _ESCAPE.sub(mend, body)
    return body, replaced
