"""What an answer, or a lost one, means: the exception that stands for it, and whether another attempt may help."""

from __future__ import annotations

from typing import Final

from casekit.documents import ErrorBody
from casekit.errors import (
    ApiError,
    AuthError,
    BadInputError,
    BusyError,
    CasekitError,
    ConflictError,
    CursorError,
    GoneError,
    LimitError,
    NotFoundError,
    ProtocolError,
    RedirectError,
    ServerError,
    TooLargeError,
    TransportError,
    one_line,
)
from casekit.http.body import legible
from casekit.http.connection import BODY_BYTES_MAX, Answer, Lost, Request
from casekit.http.secret import Token
from casekit.surrogates import BOM

__all__ = ["MAYBE_DONE", "error_of", "is_settled", "loss_of", "may_have_run", "refuse_markup", "request_id_of"]

READABLE_SECONDS: Final = 1e15  # of a wait; a longer one is told by its magnitude
FEW_ATTEMPTS: Final = 3  # where nothing listens, or an answer is wrong in itself, more waiting seldom helps
BUSY_STATUSES: Final = frozenset({429, 502, 503, 504})
BUSY_CODES: Final = frozenset({"database-busy", "idempotency-store-unavailable", "idempotency-key-in-flight"})
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
NEVER_SENT: Final = frozenset({"connect", "certificate", "proxy", "address"})
RETIRED: Final = "test-case-retired"
WITHHELD: Final = "idempotency-key-replay-withheld"
SETTLED: Final = frozenset({400, 404, 409, 410, 413})
MAYBE_DONE: Final = "the write may have been done: make the same call again, which finds out and does nothing twice"

_LOST: Final = {
    "connect": ("no connection to", "check the address, the network and that the server runs"),
    "certificate": ("no trusted certificate from", "check the address, or name your certificates in SSL_CERT_FILE"),
    "proxy": ("the proxy did not open a way to", "check the environment's proxy variables"),
    "timeout": ("no answer in time from", "try again later, or pass Client(timeout=…, retry=ck.Retry(budget=…))"),
    "reset": ("the connection was lost to", "check the network and that the server runs"),
    "broken": ("the answer broke off, or is no HTTP, from", "check the network and the address"),
    "cut": ("the answer was cut short by", "check the network and what stands in between"),
    "compression": ("the answer's compression is broken from", "check what stands in between"),
}
_MEANING: Final[dict[int, tuple[type[ApiError], str]]] = {
    401: (AuthError, "the token is missing, wrong, expired or revoked: set CASEKIT_TOKEN or pass token="),
    403: (AuthError, "the token may not do this: ask for the right to"),
    404: (NotFoundError, "not found: check the id and the version"),
    409: (ConflictError, "the state on the server does not allow this: load the case anew"),
    410: (GoneError, "an erasure cleared what this needs"),
    413: (TooLargeError, "the request is too large: send less"),
}


def request_id_of(answer: Answer, token: Token) -> str | None:
    """The server's id of a request, from the answer's head."""
    return None if answer.request_id is None else one_line(token.hide(answer.request_id), 200)


def refuse_markup(answer: Answer, request: Request, token: Token) -> None:
    """Refuse a good answer that holds no JSON at all: a sign-in page with status 200 is no data.

    Raises
    ------
    ProtocolError
        The body is empty or markup.
    """
    start = answer.body.removeprefix(BOM).lstrip()[:1]
    if start in (b"<", b""):
        kind = one_line(token.hide(answer.content_type or "no content type"), 60)
        what = "markup" if start else "an empty body"
        advice = _way_out(request, "check the address")
        raise ProtocolError(
            f"{request.about}: the server answered {what} ({kind}) instead of JSON: "
            f"a proxy or sign-in page may stand in front; {advice}",
            status=answer.status,
            request_id=request_id_of(answer, token),
        )


def loss_of(
    lost: Lost, request: Request, token: Token, origin: str, attempt: int, waited: float
) -> tuple[CasekitError, bool]:
    """The exception for an attempt without a whole answer, and whether another may help.

    Parameters
    ----------
    lost, request, token, origin
        What happened, to what, by whom, and where.
    attempt, waited
        Which attempt it was, and the seconds waited before it.
    """
    if lost.why == "large":
        size = BODY_BYTES_MAX // 2**20
        text = f"an answer has more than {size} MiB; {_way_out(request, 'casekit reads none so large')}"
        return LimitError(f"{request.about}: {text}"), False
    if lost.why == "address":
        return ProtocolError(f"{request.about}: the server's nextCursor is too long for an address"), False
    few = attempt < FEW_ATTEMPTS
    if lost.answer is not None and lost.why in ("encoding", "unfinished"):
        if lost.why == "encoding":
            coding = one_line(token.hide(lost.answer.coding or ""), 60)
            advice = _way_out(request, "check what stands in between, or report it to the server's operator")
            text = f"the answer has the Content-Encoding {coding!r}, which was not asked for; {advice}"
        else:
            text = f"the answer is JSON that breaks off; {_way_out(request, 'report it to its operator')}"
        status, request_id = lost.answer.status, request_id_of(lost.answer, token)
        again = lost.why == "unfinished" and few
        return ProtocolError(f"{request.about}: {text}", status=status, request_id=request_id), again
    what, advice = _LOST[lost.why]
    if lost.why not in NEVER_SENT:
        advice = _way_out(request, advice)
    problem = TransportError(f"{request.about}: {what} {origin}: {advice}", attempts=attempt, waited=waited)
    return problem, lost.why not in ("certificate", "proxy") and (lost.why != "connect" or few)


def _way_out(request: Request, of_reading: str) -> str:
    """What to do about an answer that cannot be used: of a write, nobody knows whether it was done."""
    return of_reading if request.method == "GET" else MAYBE_DONE


def error_of(
    answer: Answer, request: Request, token: Token, attempt: int, waited: float, short_of: float | None
) -> tuple[CasekitError, bool]:
    """The exception that an answer stands for, and whether another attempt may help.

    Parameters
    ----------
    answer, request
        What came, to what.
    token
        Kept out of every text.
    attempt, waited
        Which attempt it was, and the seconds waited before it.
    short_of
        Seconds that a request may take in all, where the server asks to wait longer than is left of them.
    """
    status = answer.status
    request_id = request_id_of(answer, token)
    if status in REDIRECTS:
        text = "the server sends the request elsewhere; casekit follows no redirect: check the address"
        return RedirectError(f"{request.about}: {text}", status=status, request_id=request_id), False
    if status < 400:
        advice = _way_out(request, "check the address and what stands in between")
        text = f"the server answered with a status that the API does not have for this; {advice}"
        return ProtocolError(f"{request.about}: {text}", status=status, request_id=request_id), False
    part = ErrorBody.read(legible(answer.body))
    spoilt = part.code is None or "\ufffd" in part.code  # it may be any, and must not settle a write
    code = None if spoilt else part.code
    kind, meaning = _meaning(status, code, request)
    again = kind is BusyError or status in BUSY_STATUSES or not answer.whole
    limit = (part.details or {}).get("maxBytes")
    if again and short_of is not None and answer.asked is not None:
        asked = f"{answer.asked:,.0f}" if answer.asked < READABLE_SECONDS else f"{answer.asked:.2g}"
        meaning = (
            f"the server asks to wait {asked} s, more than is left of the {short_of:,.0f} s that a request "
            "may take: try again later, or pass Client(retry=ck.Retry(budget=…))"
        )
    elif kind is TooLargeError and isinstance(limit, int):
        meaning = f"{meaning}, at most {limit:,} bytes"
    message = token.hide(part.message or "")
    problem = kind(
        f"{request.about}: {meaning}" + (f". The server says: {one_line(message, 500)}" if message else ""),
        status=status,
        code=token.hide(code),
        message=message,
        details=token.hide(part.details),
        request_id=request_id or token.hide(part.request_id),
        retry_after=answer.asked,
        attempts=attempt,
        waited=waited,
    )
    if isinstance(problem, ConflictError):
        problem.perhaps_own = request.unsure
    return problem, again


def may_have_run(answer: Answer | Lost) -> bool:
    """Whether an attempt without a good answer may have done the write all the same."""
    if isinstance(answer, Lost):
        return answer.why not in NEVER_SENT
    return answer.status >= 500 and answer.status != 503


def is_settled(error: ApiError) -> bool:
    """Whether an error says for sure that the write was not done, or done before: its key is of no more use.

    A refusal without a code may be a proxy's, and one of the token comes before the server looks at the key.
    """
    return error.code is not None and error.status in SETTLED and not isinstance(error, BusyError)


def _meaning(status: int, code: str | None, request: Request) -> tuple[type[ApiError], str]:
    """Class and first words of an error."""
    if status in (429, 503) or code in BUSY_CODES:
        return BusyError, "the server is busy and stayed so: try again later"
    if status == 400 and request.cursor:
        return CursorError, "the server does not take its cursor any more: read the list from its beginning"
    if code == RETIRED and request.unsure:
        return ConflictError, "retired before, perhaps by an earlier attempt of this call whose answer was lost"
    if code == RETIRED:
        return ConflictError, "retired before, by another call: load the case anew"
    if code == WITHHELD:
        return ConflictError, "done by an earlier attempt of this call, whose answer the server does not give again"
    if status < 500:
        return _MEANING.get(status, (BadInputError, "the server does not take the request: check its arguments"))
    return ServerError, "the server failed: try again later, and give its operator the request id"
