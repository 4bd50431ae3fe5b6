"""Sealed cursors: where a page ended, good for one list, its filters and one caller, for one day.

A cursor is base64 of 32 bytes: the position (8), the end of its life in Unix seconds (8), and 16 bytes of
HMAC-SHA256 over both and what it is bound to. Plain base64 on purpose: its ``+``, ``/`` and ``=`` show at once a
client that does not encode them in a URL.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from base64 import b64decode, b64encode
from time import time

from casekit.server.problems import Problem, bad_input

__all__ = ["LIFETIME", "binding", "seal", "unseal"]

LIFETIME = 86_400  # seconds

_HEAD = struct.Struct(">qq")
_MAC_BYTES = 16


def binding(*parts: str | None) -> bytes:
    """Return what a cursor is bound to, as bytes that differ whenever a part does."""
    return json.dumps(parts).encode()


def _mac(key: bytes, bound_to: bytes, head: bytes) -> bytes:
    return hmac.digest(key, head + bound_to, hashlib.sha256)[:_MAC_BYTES]


def seal(key: bytes, bound_to: bytes, position: int) -> str:
    """Return the cursor that goes on after ``position``.

    Examples
    --------
    >>> bound_to = binding("test-set", "acme.drafting", "1.0.0", "user", "reviewer-1")
    >>> unseal(b"key", bound_to, seal(b"key", bound_to, 25))
    25
    """
    head = _HEAD.pack(position, int(time()) + LIFETIME)
    return b64encode(head + _mac(key, bound_to, head)).decode("ascii")


def unseal(key: bytes, bound_to: bytes, cursor: str) -> int:
    """Return the position in a cursor.

    Raises
    ------
    Problem
        400 ``bad-input``: damaged, of another list, filter or caller, or older than a day.
    """
    head, mac = _open(cursor)
    if not hmac.compare_digest(mac, _mac(key, bound_to, head)):
        raise _refused("is damaged, or belongs to another list, other filters or another caller")
    position, expires = _HEAD.unpack(head)
    if time() >= expires:
        raise _refused("has expired: a cursor holds for one day")
    return int(position)


def _open(cursor: str) -> tuple[bytes, bytes]:
    try:
        sealed = b64decode(cursor, validate=True)
    except ValueError:  # characters that are not base64's, or not ASCII
        raise _refused("is none of this server's") from None
    if len(sealed) != _HEAD.size + _MAC_BYTES:
        raise _refused("is none of this server's")
    return sealed[: _HEAD.size], sealed[_HEAD.size :]


def _refused(why: str) -> Problem:
    return bad_input(f"The cursor {why}. Start the list again without a cursor.", parameter="cursor")
