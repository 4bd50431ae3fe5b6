"""Every error casekit raises on purpose.

The tree::

    CasekitError
    ├── ConfigError              no URL, no token, an argument that cannot be used
    ├── ApiError                 the server answered with an error envelope or status
    │   ├── BadInputError        400, or a 4xx that nobody documents
    │   │   └── CursorError      400 for a cursor: expired, or of another list or caller
    │   ├── AuthError            401, 403
    │   ├── NotFoundError        404
    │   ├── ConflictError        409
    │   ├── GoneError            410
    │   ├── TooLargeError        413
    │   ├── BusyError            429, 503, or a code that asks to wait: tried again, still busy
    │   └── ServerError          any other 5xx
    ├── TransportError           no whole answer came
    ├── ProtocolError            an answer came that the contract does not know
    │   ├── RedirectError        the server sent the request elsewhere; it was not followed
    │   └── IncompletePull       the pages do not prove that the list is whole
    ├── JournalError             the journal of writes cannot be kept, so nothing was sent
    ├── SchemaError              a case is not what the contract says: names case and path
    ├── LimitError               a bound of casekit's own (size, nesting) was met
    ├── SnapshotError            a folder that is no whole, readable snapshot
    │   └── SnapshotBusyError    another process is writing there
    └── MissingExtraError        an optional library is not installed; names the extra

and one warning, StaleSnapshotWarning (a UserWarning): a snapshot is older than the reader wants.

A message never holds a token, nor the words of a case.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

__all__ = [
    "ApiError",
    "AuthError",
    "BadInputError",
    "BusyError",
    "CasekitError",
    "ConfigError",
    "ConflictError",
    "CursorError",
    "GoneError",
    "IncompletePull",
    "JournalError",
    "LimitError",
    "MissingExtraError",
    "NotFoundError",
    "ProtocolError",
    "RedirectError",
    "SchemaError",
    "ServerError",
    "SnapshotBusyError",
    "SnapshotError",
    "StaleSnapshotWarning",
    "TooLargeError",
    "TransportError",
]

MESSAGE_MAX = 2000  # characters; longer messages are cut, so that a log line stays a line
NAME_MAX = 60  # characters of one name in a list of names
NAMES_LISTED = 40  # names that a hint lists when none is near; of more, how many


def one_line(text: str, limit: int = MESSAGE_MAX) -> str:
    r"""Text made safe for a terminal and a log: no control characters, bounded length.

    Examples
    --------
    >>> one_line("a\x1b[31mred\nb")
    'a\\x1b[31mred\\nb'
    """
    head = text[: limit + 1]
    safe = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in head)
    return safe if len(text) <= limit and len(safe) <= limit else safe[: limit - 1] + "…"


def counted(count: float, noun: str) -> str:
    """A count and its noun.

    Examples
    --------
    >>> counted(1, "case"), counted(1200.0, "case")
    ('1 case', '1,200 cases')
    """
    return f"{int(count):,} {noun}" + ("" if count == 1 else "s")


def did_you_mean(name: object, choices: Iterable[object]) -> str:
    """The question after the nearest name to one that is not there; empty where none is near.

    Parameters
    ----------
    name, choices
        As for `nearest`.

    Examples
    --------
    >>> did_you_mean("subject_verion", ["case_id", "subject_version"]), did_you_mean("x", ["case_id"])
    ("did you mean 'subject_version'?", '')
    """
    if not isinstance(name, str) or len(name) > MESSAGE_MAX:
        return ""
    have = [one for one in choices if isinstance(one, str) and len(one) <= MESSAGE_MAX]
    folded = {one.casefold(): one for one in reversed(have)}
    near = get_close_matches(name.casefold(), folded, n=1)
    return f"did you mean {one_line(repr(folded[near[0]]), NAME_MAX)}?" if near else ""


def nearest(name: object, choices: Iterable[object]) -> str:
    """The hint for a name that is not there: the nearest one that is, or else all of them.

    Parameters
    ----------
    name
        What was asked for.
    choices
        What there is, in any type; only texts are compared, and case is no difference.

    Examples
    --------
    >>> nearest("subject_verion", ["case_id", "subject_version"])
    "did you mean 'subject_version'?"
    >>> nearest("x", ["bh", "by"]), nearest("x", [])
    ("there are 'bh', 'by'", 'there is none')
    """
    have = list(choices)
    if near := did_you_mean(name, have):
        return near
    listed = ", ".join(one_line(repr(one), NAME_MAX) for one in have[:NAMES_LISTED])
    more = f" and {len(have) - NAMES_LISTED:,} more" if len(have) > NAMES_LISTED else ""
    return f"there are {listed}{more}" if have else "there is none"


def _effort(attempts: int, waited: float) -> str:
    return f"{attempts} attempts, {waited:.1f} s waited" if attempts > 1 else "1 attempt"


class CasekitError(Exception):
    """Base of all errors that casekit raises on purpose.

    Parameters
    ----------
    message
        What is wrong and the way out, in one sentence; it is made safe to print, and cut after 2,000 characters.

    Examples
    --------
    >>> import casekit as ck
    >>> try:
    ...     ck.Retry(attempts=0)
    ... except ck.CasekitError as error:
    ...     print(type(error).__name__, error, sep=": ")
    ConfigError: Retry: attempts is a finite number above 0, not 0
    """

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class ConfigError(CasekitError):
    """Something the caller set (URL, token, argument, environment) cannot be used."""


class ApiError(CasekitError):
    """The server answered with an error.

    Attributes
    ----------
    status : int
        HTTP status.
    code : str or None
        The envelope's stable code; ``None`` when a proxy answered without one.
    message : str
        The server's own message, made safe to print.
    details : dict or None
        The envelope's details, if any that can be read.
    request_id : str or None
        The server's id of the request, from the envelope or ``X-Request-Id``.
    retry_after : float or None
        Seconds the server asked to wait; ``None`` when it did not say.
    attempts : int
        How many times the request was sent.
    waited : float
        Seconds spent waiting between attempts.
    """

    def __init__(
        self,
        summary: str,
        *,
        status: int,
        code: str | None = None,
        message: str = "",
        details: dict[str, Any] | None = None,
        request_id: str | None = None,
        retry_after: float | None = None,
        attempts: int = 1,
        waited: float = 0.0,
    ) -> None:
        self.status = status
        self.code = code
        self.message = one_line(message)
        self.details = details
        self.request_id = request_id
        self.retry_after = retry_after
        self.attempts = attempts
        self.waited = waited
        facts = [f"status {status}"]
        facts += [f"code {one_line(code, 100)}"] if code else []
        facts += [f"request id {one_line(request_id, 100)}"] if request_id else []
        facts += [_effort(attempts, waited)]
        super().__init__(f"{one_line(summary, MESSAGE_MAX - 400)} ({', '.join(facts)})")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by state: the constructor's arguments are not the exception's ``args``."""
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(cls: type[CasekitError], args: tuple[Any, ...], state: dict[str, Any]) -> CasekitError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class BadInputError(ApiError):
    """400, or a 4xx that nobody documents: the server does not take the request as it is."""


class CursorError(BadInputError):
    """400 for a cursor: it has expired, or belongs to another list, filter or caller."""


class AuthError(ApiError):
    """401 or 403: no valid token, or one that may not do this."""


class NotFoundError(ApiError):
    """404: no such test set, agent, run or case."""


class ConflictError(ApiError):
    """409: the state on the server does not allow the write.

    Attributes
    ----------
    perhaps_own : bool
        An earlier attempt of this very write got no answer: the state may be its doing, and nobody else's.
    """

    perhaps_own: bool = False


class GoneError(ApiError):
    """410: an erasure cleared what the request needs."""


class TooLargeError(ApiError):
    """413: the request is over the server's limit; ``details['maxBytes']`` says how much it takes."""


class BusyError(ApiError):
    """429, 503 or a code that asks to wait, after all the waiting the policy allows."""


class ServerError(ApiError):
    """A 5xx that waiting did not mend."""


class TransportError(CasekitError):
    """No whole answer came: connection refused, lost, timed out, or cut short.

    Attributes
    ----------
    attempts : int
        How many times the request was sent.
    waited : float
        Seconds spent waiting between attempts.
    """

    def __init__(self, message: str, *, attempts: int = 1, waited: float = 0.0) -> None:
        self.attempts = attempts
        self.waited = waited
        super().__init__(f"{message} ({_effort(attempts, waited)})")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by state, as ApiError does."""
        return _rebuild, (type(self), self.args, self.__dict__)


class ProtocolError(CasekitError):
    """The answer is not what the contract describes: no JSON, no page, the wrong shape.

    Attributes
    ----------
    status : int or None
        HTTP status of the answer, where one answer is at fault.
    request_id : str or None
        The server's id of its request, if it gave one.
    """

    def __init__(self, message: str, *, status: int | None = None, request_id: str | None = None) -> None:
        self.status = status
        self.request_id = request_id
        facts = [f"status {status}"] if status is not None else []
        facts += [f"request id {one_line(request_id, 100)}"] if request_id else []
        super().__init__(one_line(message, MESSAGE_MAX - 200) + (f" ({', '.join(facts)})" if facts else ""))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by state, as ApiError does."""
        return _rebuild, (type(self), self.args, self.__dict__)


class RedirectError(ProtocolError):
    """The server sent the request elsewhere; casekit follows no redirect, so no token leaves its origin."""


class IncompletePull(ProtocolError):
    """The pages do not prove that every case came; nothing was given out."""


class JournalError(CasekitError):
    """The journal of writes cannot be kept; a write that a crash could make twice is not sent."""


class SchemaError(CasekitError):
    """A case is not what the contract says.

    Attributes
    ----------
    case_id : str or None
        The case, as far as it could be read.
    path : str
        JSON Pointer (RFC 6901) from the case to the field.
    """

    def __init__(self, problem: str, *, case_id: str | None, path: str) -> None:
        self.case_id = case_id
        self.path = path
        name = f"case {one_line(case_id, 200)!r}" if case_id is not None else "a case without a readable caseId"
        super().__init__(
            f"{name}, field {path or '/'}: {problem}. "
            "Load with on_error='report' to leave such cases out and count them."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by state, as ApiError does."""
        return _rebuild, (type(self), self.args, self.__dict__)


class LimitError(CasekitError):
    """A bound of casekit's own was met: the size of a body, or how deep JSON may nest."""


class SnapshotError(CasekitError):
    """A folder is not a whole, readable snapshot, or it cannot be written."""


class SnapshotBusyError(SnapshotError):
    """Another process is writing this snapshot; it will stand whole, one of the two wins."""


class MissingExtraError(CasekitError, ImportError):
    """An optional library is not installed; the message names the extra to install."""


class StaleSnapshotWarning(UserWarning):
    """A snapshot is older than its reader wants: what it holds may have been erased since."""
