"""An answer of the API, and the refusals that become one: status, code and the error envelope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

__all__ = ["Answer", "Problem", "bad_input"]


@dataclass(frozen=True)
class Answer:
    """What goes out: the status, the JSON body and the request's id, which is also its ``X-Request-Id``."""

    status: int
    body: bytes
    request_id: str


class Problem(Exception):
    """A refusal of the API.

    Parameters
    ----------
    status
        HTTP status, 400 to 599.
    code
        The envelope's code.
    message
        One sentence that names the thing and the way out; no text of a case, no token.
    details
        The envelope's details; ``None`` leaves the member out.
    headers
        Further headers, such as ``Retry-After`` in whole seconds.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = details
        self.headers = headers or {}

    def answer(self, request_id: str) -> Answer:
        """Return the envelope as an answer."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.details is not None:
            error["details"] = self.details
        error["requestId"] = request_id
        return Answer(self.status, msgspec.json.encode({"error": error}), request_id)


def bad_input(message: str, **details: Any) -> Problem:
    """Return the 400 that says the request itself is wrong."""
    return Problem(400, "bad-input", message, details=details or None)
