"""A token, and how it is kept out of every text: messages, tracebacks, logs and files."""

from __future__ import annotations

import base64
import hashlib
import hmac
import logging
import re
import weakref
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final, Never

__all__ = ["Token", "keep_out_of_logs"]

SHORTEST: Final = 6  # characters; a shorter text is no secret, and to hide it would blot out ordinary words
SHORTEST_CODED: Final = 8  # characters of base64 that tell a token from chance
TELLING: Final = 16  # characters of a token that tell it from any other text
STAND_IN: Final = "[token]"
CHATTY: Final = (
    "httpcore.connection",
    "httpcore.http11",
    "httpcore.proxy",
    "httpcore.socks",
)  # they log answers' headers


class Token:
    """A token that no repr and no pickle shows, and that can be taken out of other texts.

    Parameters
    ----------
    value
        What the server wants to see.

    Examples
    --------
    >>> token = Token("tok-123456")
    >>> token
    [token]
    >>> token.hide({"said": "Bearer tok-123456 is revoked"})
    {'said': 'Bearer [token] is revoked'}
    """

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return STAND_IN

    def __reduce__(self) -> Never:
        """Never: a pickle is a file."""
        raise TypeError("a token is never pickled")

    def header(self) -> str:
        """The value of the Authorization header."""
        return f"Bearer {self._value}"

    def sign(self, data: bytes) -> str:
        """Hex of some data's HMAC-SHA-256 under the token: without the token, no guess of the data can be tried.

        Parameters
        ----------
        data
            What to keep a trace of that says nothing.

        References
        ----------
        .. [1] H. Krawczyk, M. Bellare, R. Canetti, "HMAC: Keyed-Hashing for Message Authentication", RFC 2104, 1997.
           https://doi.org/10.17487/RFC2104
        """
        return hmac.digest(self._value.encode(), data, hashlib.sha256).hex()

    def hide(self, value: Any) -> Any:
        """The same value without the token, at any depth and in any usual coding.

        Parameters
        ----------
        value
            Text, or JSON as Python has it. Not changed.
        """
        if isinstance(value, str):
            # No coding is shorter than what it codes.
            return value if not SHORTEST <= len(self._value) <= len(value) else self._shapes.sub(STAND_IN, value)
        if isinstance(value, Mapping):
            return {self.hide(name): self.hide(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self.hide(one) for one in value]
        return value

    @cached_property
    def _shapes(self) -> re.Pattern[str]:
        return re.compile("|".join(dict.fromkeys(_shapes(self._value))))


def _shapes(value: str) -> Iterator[str]:
    """Patterns of the ways a text may come back: as it is, escaped, or inside something in base64."""
    yield _escaped(value)
    for alphabet in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):  # where the token begins in a group of three bytes
            coded = alphabet(b"\0" * before + value.encode()).decode().rstrip("=")
            coded = coded[before + (before > 0) :]  # of the first letters, other bytes make a part
            if len(coded) > SHORTEST_CODED:
                yield _escaped(coded[:-1]) + r"[\w+/-]{0,3}={0,2}"


def _escaped(text: str) -> str:
    """A pattern of a text in which any character may be escaped: for an address, JSON, Python or HTML.

    The first characters tell the text from any other; as many more as it has are taken with them.
    """
    named = {"&": "|&amp;", "<": "|&lt;", ">": "|&gt;", '"': "|&quot;", "'": "|&apos;"}
    head = "".join(
        rf"(?:(?i:%{ord(c):02x}|\\u00{ord(c):02x}|\\x{ord(c):02x}|&#x0*{ord(c):x};|&#0*{ord(c)};)"
        rf"|\\?{re.escape(c)}{named.get(c, '')})"
        for c in text[:TELLING]
    )
    anything = r"(?:%[0-9A-Fa-f]{2}|\\u[0-9A-Fa-f]{4}|\\x[0-9A-Fa-f]{2}|&#?\w+;|\\?\S)"
    return head + anything + f"{{0,{max(0, len(text) - TELLING)}}}"


class _Filter(logging.Filter):
    """Takes the tokens in use out of log records."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: weakref.WeakSet[Token] = weakref.WeakSet()

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        for token in self.tokens:
            said = token.hide(said)
        record.msg, record.args = said, None
        return True


_filter: Final = _Filter()


def keep_out_of_logs(token: Token) -> None:
    """See to it that what the HTTP library logs does not show the token that a server sent back."""
    _filter.tokens.add(token)
    for name in CHATTY:
        logging.getLogger(name).addFilter(_filter)
