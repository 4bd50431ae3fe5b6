"""What the server remembers of a request: enough to test a client by, and never the token."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Caller", "RequestRecord"]


@dataclass(frozen=True)
class Caller:
    """Who a token stands for; ``kind`` is ``"user"`` or ``"service"``."""

    kind: str
    id: str
    can_write: bool


@dataclass(frozen=True)
class RequestRecord:
    """One request, in the order of the answers.

    Attributes
    ----------
    method : str
        HTTP method.
    path : str
        Path as it was sent, percent-encoded.
    query : str
        Query as it was sent, percent-encoded; empty when there was none.
    status : int or None
        Status of the answer; ``None`` when none went out.
    request_id : str
        The ``X-Request-Id`` of the answer.
    idempotency_key : str or None
        The request's ``Idempotency-Key``; ``None`` when it had none.
    caller_id : str or None
        Whose token it was; ``None`` when the token was missing or unknown.
    """

    method: str
    path: str
    query: str
    status: int | None
    request_id: str
    idempotency_key: str | None
    caller_id: str | None
