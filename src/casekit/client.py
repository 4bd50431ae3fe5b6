"""The HTTP API: URLs, token, pages, retries, idempotency keys and errors. The one file that knows httpx."""

from __future__ import annotations

import ipaddress
import json
import logging
import math
import os
import queue
import random
import re
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, Self
from urllib.parse import quote, urlencode

import httpx
import pydantic

from casekit import __version__
from casekit.cursor import next_cursor
from casekit.documents import AddCase, AgentCase, ErrorBody, RetireCase
from casekit.errors import (
    ApiError,
    AuthError,
    BadInputError,
    BusyError,
    CasekitError,
    ConfigError,
    ConflictError,
    CursorError,
    GoneError,
    IncompletePull,
    LimitError,
    NotFoundError,
    ProtocolError,
    RedirectError,
    ServerError,
    TooLargeError,
    TransportError,
    one_line,
)

__all__ = ["Client", "Page", "Retry"]

PAGE_CASES: Final = 100  # cases a page: the most the API gives
PAGES_AHEAD: Final = 4  # pages fetched before they are asked for
BODY_BYTES_MAX: Final = 256 * 2**20  # of one answer, decompressed
CONNECT_SECONDS: Final = 10.0  # to open a connection
BUSY_STATUSES: Final = frozenset({429, 502, 503, 504})
BUSY_CODES: Final = frozenset({"database-busy", "idempotency-store-unavailable", "idempotency-key-in-flight"})
CONNECT_ATTEMPTS: Final = 3  # where nothing listens, more waiting seldom helps
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+")

_log = logging.getLogger("casekit")


@dataclass(frozen=True)
class Retry:
    """How long a request may take in all, and how often it is sent.

    Attributes
    ----------
    budget : float
        Seconds a request may take with all its waits and repeats. A server that asks for more is told no at once.
    attempts : int
        How often it is sent at most.
    first, most : float
        Seconds of the first wait, and of the longest, where the server does not say how long. Each wait doubles.
    """

    budget: float = 60.0
    attempts: int = 6
    first: float = 0.5
    most: float = 8.0

    def wait(self, attempt: int, asked: float | None) -> float:
        """Seconds to wait after the given attempt (1 is the first): never less than the server asked."""
        if asked is not None:
            return asked
        return min(self.most, self.first * 2.0 ** (attempt - 1)) * random.uniform(0.75, 1.0)


@dataclass(frozen=True)
class Page:
    """One page of a list.

    Attributes
    ----------
    body : bytes
        As it came, decompressed.
    request_id : str or None
        The server's id of the request.
    retries : int
        How often the request was repeated.
    waited : float
        Seconds waited in between.
    """

    body: bytes
    request_id: str | None
    retries: int
    waited: float


@dataclass(frozen=True)
class _Answer:
    """A whole answer, whatever its status."""

    status: int
    headers: httpx.Headers
    body: bytes


class _Token:
    """A token that no repr, traceback or pickle shows."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def __repr__(self) -> str:
        return "[token]"

    def __reduce__(self) -> tuple[Any, ...]:
        return _Token, ("",)

    def header(self) -> str:
        return f"Bearer {self._value}"

    def hide(self, value: Any) -> Any:
        """The same value without the token, at any depth."""
        if not self._value:
            return value
        if isinstance(value, str):
            return value.replace(self._value, "[token]")
        if isinstance(value, Mapping):
            return {self.hide(k): self.hide(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.hide(v) for v in value]
        return value


class Client:
    """Speaks to the server, in one origin, with one token.

    Parameters
    ----------
    url
        Address of the server, such as ``"https://api.example.com"``; else ``CASEKIT_URL``.
    token
        Bearer token; else ``CASEKIT_TOKEN``. Never shown, logged or pickled.
    timeout
        Seconds without a byte after which an attempt is given up.
    retry
        How long a request may take in all.

    Raises
    ------
    ConfigError
        No URL or no token, or one that cannot be used.

    Examples
    --------
    >>> Client("http://127.0.0.1:8765", token="t")
    Client('http://127.0.0.1:8765')
    """

    def __init__(
        self, url: str | None = None, *, token: str | None = None, timeout: float = 30.0, retry: Retry | None = None
    ) -> None:
        self.url = _checked_url(url if url is not None else os.environ.get("CASEKIT_URL"))
        self._token = _Token(_checked_token(token if token is not None else os.environ.get("CASEKIT_TOKEN")))
        if not (math.isfinite(timeout) and timeout > 0):
            raise ConfigError(f"timeout is a number of seconds above 0, not {timeout!r}")
        self.timeout = float(timeout)
        self.retry = retry or Retry()
        self._transport = httpx.HTTPTransport(proxy=_proxy(self.url), http2=False)

    def __repr__(self) -> str:
        """The address alone."""
        return f"Client({self.origin!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the token and the connections."""
        return {"url": self.url, "timeout": self.timeout, "retry": self.retry}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """An unpickled client takes its token from the environment."""
        self.__init__(state["url"], timeout=state["timeout"], retry=state["retry"])  # type: ignore[misc]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    @property
    def origin(self) -> str:
        """Scheme, host and port: where the token goes, and nowhere else."""
        url = httpx.URL(self.url)
        return f"{url.scheme}://{url.netloc.decode('ascii')}"

    # ------------------------------------------------------------ lists

    def test_set_pages(
        self, test_set_id: str, version: str, *, on_wait: Callable[[str, float], None] | None = None
    ) -> Iterator[Page]:
        """The pages of a version of a corrections test set, newest corrected run first.

        Parameters
        ----------
        test_set_id, version
            Such as ``"acme.drafting-accuracy"`` and ``"1.2.0"``.
        on_wait
            Called with a sentence and the seconds before each wait.

        Yields
        ------
        Page
            Fetched ahead, a few at a time.

        Raises
        ------
        ConfigError
            The version is not of the form 1.2.3.
        CasekitError
            See `casekit.errors`; an error ends the walk, and no page after it was given out.
        """
        if not isinstance(version, str) or not _VERSION.fullmatch(version):
            raise ConfigError(f"version {one_line(str(version), 60)!r} is not of the form 1.2.3")
        path = f"/v1/test-sets/{_segment(test_set_id, 'test set id')}/versions/{version}/cases"
        return self._pages(path, {}, on_wait)

    def agent_case_pages(
        self,
        agent_id: str,
        project_id: str | None = None,
        *,
        on_wait: Callable[[str, float], None] | None = None,
    ) -> Iterator[Page]:
        """The pages of an agent's live test set; otherwise as `test_set_pages`.

        Parameters
        ----------
        agent_id
            Such as ``"acme.drafting"``.
        project_id
            Only cases of this project (a UUID).
        on_wait
            As in `test_set_pages`.

        Yields
        ------
        Page
            Retired cases stay listed.
        """
        query = {} if project_id is None else {"projectId": _checked_uuid(project_id)}
        return self._pages(f"/v1/agents/{_segment(agent_id, 'agent id')}/test-set/cases", query, on_wait)

    def _pages(
        self, path: str, query: Mapping[str, str], on_wait: Callable[[str, float], None] | None
    ) -> Iterator[Page]:
        """A thread fetches ahead: the next request leaves as soon as its cursor is known."""
        ready: queue.Queue[Page | BaseException | None] = queue.Queue(PAGES_AHEAD)
        stop = threading.Event()

        def give(entry: Page | BaseException | None) -> None:
            while not stop.is_set():
                try:
                    return ready.put(entry, timeout=0.1)
                except queue.Full:
                    continue

        def fetch() -> None:
            try:
                for page in self._walk(path, query, on_wait, stop):
                    give(page)
                    if stop.is_set():
                        return
                give(None)
            except BaseException as error:  # handed to the caller, who raises it
                give(error)

        # A daemon, so that Ctrl-C need not wait for an answer that may never come.
        threading.Thread(target=fetch, name="casekit-pages", daemon=True).start()
        try:
            while (entry := ready.get()) is not None:
                if isinstance(entry, BaseException):
                    raise entry
                yield entry
        finally:
            stop.set()

    def _walk(
        self,
        path: str,
        query: Mapping[str, str],
        on_wait: Callable[[str, float], None] | None,
        stop: threading.Event,
    ) -> Iterator[Page]:
        cursor: str | None = None
        seen: set[str] = set()
        while True:
            parameters = {"limit": str(PAGE_CASES), **query, **({} if cursor is None else {"cursor": cursor})}
            page = self._page(path, parameters, on_wait, stop)
            following = next_cursor(page.body)
            if following in seen:
                raise IncompletePull("the server gave the same nextCursor twice: its pages go in a circle; report it to its operator")
            yield page
            if following is None:
                return
            seen.add(following)
            cursor = following

    def _page(
        self,
        path: str,
        query: Mapping[str, str],
        on_wait: Callable[[str, float], None] | None,
        stop: threading.Event,
    ) -> Page:
        target = f"{path}?{urlencode(query, quote_via=quote, safe='')}"
        answer, attempts, waited = self._send("GET", target, on_wait=on_wait, stop=stop, cursor="cursor" in query)
        _checked_json(answer)
        return Page(answer.body, self._request_id(answer), attempts - 1, waited)

    # ------------------------------------------------------------ writes

    def add_case(
        self,
        agent_id: str,
        run_id: str,
        *,
        decisions: str | None = None,
        should_call: Sequence[Mapping[str, Any]] | None = None,
        must_not_call: Sequence[str] | None = None,
        answer: str | None = None,
        should_say: str | None = None,
        why: str | None = None,
        items: Sequence[Mapping[str, Any]] | None = None,
    ) -> AgentCase:
        """Add a case by hand, from one of the agent's finished runs.

        Parameters
        ----------
        agent_id, run_id
            The agent, and the run the case is made of.
        decisions
            ``"right"`` or ``"wrong"``: the run's tool calls. ``"wrong"`` needs ``should_call`` or ``must_not_call``.
        should_call
            Calls the run should have made: ``{"tool": …, "args": {…}}``, args where they matter.
        must_not_call
            Tools it should not have called.
        answer
            ``"right"`` or ``"wrong"``: the run's answer. ``"wrong"`` needs ``should_say`` or ``why``.
        should_say, why
            What the answer should have said, and why it was wrong.
        items
            Verdicts on a ranked answer's items: ``{"key": …, "verdict": "right"}``, each key once.

        Returns
        -------
        AgentCase
            As the server answered it.

        Raises
        ------
        ConfigError
            The case breaks a documented rule; the message names the field. Nothing was sent.
        CasekitError
            See `casekit.errors`.
        """
        values = {
            "run_id": run_id,
            "decisions": decisions,
            "should_call": None if should_call is None else list(should_call),
            "must_not_call": None if must_not_call is None else list(must_not_call),
            "answer": answer,
            "should_say": should_say,
            "why": why,
            "items": None if items is None else list(items),
        }
        body = _checked_body(AddCase, values)
        return self._write(f"/v1/agents/{_segment(agent_id, 'agent id')}/test-set/cases", body)

    def retire_case(self, agent_id: str, case_id: str, *, reason: str) -> AgentCase:
        """Retire a case of an agent's live test set, for good: it stays listed, and no test run checks it.

        Parameters
        ----------
        agent_id, case_id
            The agent and its case.
        reason
            Why the case no longer applies, 1 to 4,000 characters.

        Returns
        -------
        AgentCase
            The case, retired.

        Raises
        ------
        ConflictError
            The case was retired before (code ``test-case-retired``).
        ConfigError
            The reason is missing or too long. Nothing was sent.
        CasekitError
            See `casekit.errors`.
        """
        body = _checked_body(RetireCase, {"reason": reason})
        agent, case = _segment(agent_id, "agent id"), _segment(case_id, "case id")
        return self._write(f"/v1/agents/{agent}/test-set/cases/{case}/retire", body)

    def _write(self, path: str, body: bytes) -> AgentCase:
        """Send a write under one idempotency key, however often it is sent."""
        answer, _, _ = self._send("POST", path, body=body, key=str(uuid.uuid4()))
        _checked_json(answer)
        try:
            return AgentCase.model_validate_json(answer.body)
        except pydantic.ValidationError as error:
            raise ProtocolError(
                f"the write was done, but its answer is not a case: {_first_problem(error)} (request id {self._request_id(answer)})"
            ) from None

    # ------------------------------------------------------------ requests

    def _send(
        self,
        method: str,
        target: str,
        *,
        body: bytes | None = None,
        key: str | None = None,
        on_wait: Callable[[str, float], None] | None = None,
        stop: threading.Event | None = None,
        cursor: bool = False,
    ) -> tuple[_Answer, int, float]:
        """A good answer, the attempts it took and the seconds waited; or the error that waiting did not mend."""
        problem: CasekitError
        deadline = time.monotonic() + self.retry.budget
        waited, attempt = 0.0, 0
        while True:
            attempt += 1
            answer = self._attempt(method, target, body, key, deadline)
            if isinstance(answer, _Answer) and 200 <= answer.status < 300:
                return answer, attempt, waited
            if isinstance(answer, _Answer):
                problem = self._error(answer, attempt, waited, cursor=cursor)
                again = isinstance(problem, ApiError) and (
                    isinstance(problem, BusyError) or problem.status in BUSY_STATUSES
                )
                asked, why = _retry_after(answer.headers.get("Retry-After")), "server busy"
            else:
                problem = TransportError(answer.sentence(self.origin), attempts=attempt, waited=waited)
                again = attempt < CONNECT_ATTEMPTS or not answer.refused
                asked, why = None, "connection lost"
            pause = self.retry.wait(attempt, asked)
            late = time.monotonic() + pause > deadline
            if again and late and asked is not None and isinstance(answer, _Answer):
                raise self._error(answer, attempt, waited, asked=asked)
            if not again or late or attempt >= self.retry.attempts:
                raise problem
            _log.info("%s %s: %s, waiting %.1f s (attempt %d)", method, self.origin, why, pause, attempt)
            if on_wait is not None:
                on_wait(why, pause)
            if stop is not None and stop.wait(pause):
                raise problem
            if stop is None:
                time.sleep(pause)
            waited += pause

    def _attempt(
        self, method: str, target: str, body: bytes | None, key: str | None, deadline: float
    ) -> _Answer | _Lost:
        """Send once. What went wrong below is told in our own words: its frames hold the token."""
        # Headers are made here, in this frame alone, and are gone when it is left.
        headers = {
            "Authorization": self._token.header(),
            "Accept": "application/json",
            "Accept-Encoding": "gzip, deflate",
            "User-Agent": f"casekit/{__version__}",
        }
        if body is not None:
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        patience = max(0.05, min(self.timeout, deadline - time.monotonic()))
        limits = {"connect": min(CONNECT_SECONDS, patience), "read": patience, "write": patience, "pool": patience}
        request = httpx.Request(method, self.url + target, headers=headers, content=body, extensions={"timeout": limits})
        del headers
        problem: CasekitError
        try:
            response = self._transport.handle_request(request)
            try:
                received = _received(response, deadline)
            finally:
                response.close()
            if _is_cut(response.status_code, received):
                return _Lost("Cut", False)
            return _Answer(response.status_code, response.headers, received)
        except httpx.TransportError as error:
            return _Lost(type(error).__name__, isinstance(error, httpx.ConnectError))
        except httpx.DecodingError:
            return _Lost("DecodingError", False)
        except LimitError as error:
            problem = error
        del request
        raise problem.with_traceback(None)

    def _request_id(self, answer: _Answer) -> str | None:
        """The server's id of a request, from the header."""
        value = answer.headers.get("X-Request-Id")
        return None if value is None else one_line(self._token.hide(value), 200)

    def _error(
        self, answer: _Answer, attempts: int, waited: float, *, cursor: bool = False, asked: float | None = None
    ) -> CasekitError:
        """The exception that an answer stands for; ``asked`` when the server wants more time than there is."""
        status = answer.status
        if 300 <= status < 400:
            return RedirectError(
                f"the server answered {status} and sends the request elsewhere; casekit follows no redirect: "
                f"check the address {self.origin}"
            )
        code, message, details, request_id = None, "", None, self._request_id(answer)
        try:
            envelope = ErrorBody.model_validate_json(answer.body).error
        except pydantic.ValidationError:
            pass  # a proxy's answer: the status has to do
        else:
            code, message = self._token.hide(envelope.code), self._token.hide(envelope.message)
            details = self._token.hide(envelope.details)
            request_id = request_id or self._token.hide(envelope.request_id)
        kind, summary = _meaning(status, code)
        if kind is BadInputError and cursor and code == "bad-input":
            kind, summary = CursorError, "the server does not take its cursor any more"
        if asked is not None:
            summary = (
                f"the server asks to wait {asked:,.0f} s, more than a request may take ({self.retry.budget:,.0f} s): "
                "try again later, or pass Client(retry=ck.Retry(budget=…))"
            )
        elif message:
            summary = f"{summary}: {one_line(message, 500)}"
        return kind(
            summary,
            status=status,
            code=code,
            message=message,
            details=details,
            request_id=request_id,
            retry_after=_retry_after(answer.headers.get("Retry-After")),
            attempts=attempts,
            waited=waited,
        )


@dataclass(frozen=True)
class _Lost:
    """An attempt without a whole answer."""

    kind: str
    refused: bool

    def sentence(self, origin: str) -> str:
        what = {
            "ConnectError": "no connection",
            "ConnectTimeout": "no connection in time",
            "ReadTimeout": "no answer in time",
            "WriteTimeout": "the request could not be sent in time",
            "RemoteProtocolError": "the answer broke off",
            "ReadError": "the connection was lost",
            "DecodingError": "the answer's compression is broken",
            "Cut": "the answer was cut short",
        }.get(self.kind, f"no whole answer ({self.kind})")
        return f"{what} from {origin}: check the address, the network and that the server runs"


def _meaning(status: int, code: str | None) -> tuple[type[ApiError], str]:
    """Class and first words of an error."""
    if status in (429, 503) or code in BUSY_CODES:
        return BusyError, "the server is busy and stayed so"
    known: dict[int, tuple[type[ApiError], str]] = {
        400: (BadInputError, "the server does not take the request"),
        401: (AuthError, "the token is missing, wrong, expired or revoked: set CASEKIT_TOKEN or pass token="),
        403: (AuthError, "the token may not do this: ask for the right on this agent or project"),
        404: (NotFoundError, "not found: check the id and the version"),
        409: (ConflictError, "the state on the server does not allow this"),
        410: (GoneError, "an erasure cleared what this needs"),
        413: (TooLargeError, "the request is too large"),
    }
    return known.get(status, (ServerError, f"the server failed with status {status}"))


def _retry_after(value: str | None) -> float | None:
    """Seconds to wait, from whole or broken seconds or an HTTP date; None where it says nothing usable."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            when = parsedate_to_datetime(value)
        except ValueError:
            return None
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return max(0.0, (when - datetime.now(UTC)).total_seconds())
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _received(response: httpx.Response, deadline: float) -> bytes:
    """The whole body, decompressed, within its bounds."""
    chunks, size = [], 0
    for chunk in response.iter_bytes():
        chunks.append(chunk)
        size += len(chunk)
        if size > BODY_BYTES_MAX:
            raise LimitError(f"an answer is larger than {BODY_BYTES_MAX // 2**20} MiB: casekit reads no such page")
        if time.monotonic() > deadline:
            raise httpx.ReadTimeout("the answer did not end in time")
    return b"".join(chunks)


def _is_cut(status: int, body: bytes) -> bool:
    """Whether a JSON object began and did not end: without a length, nothing else tells a lost connection from an end."""
    text = body.strip()
    return status < 300 and text[:1] == b"{" and text[-1:] != b"}"


def _checked_json(answer: _Answer) -> None:
    """A sign-in page with status 200 is no data."""
    kind = answer.headers.get("Content-Type", "").split(";")[0].strip().lower()
    if answer.body.lstrip()[:1] == b"<" or kind in ("text/html", "application/xhtml+xml"):
        raise ProtocolError(
            f"the server answered status {answer.status} with {one_line(kind or 'markup', 60)} instead of JSON: "
            "a proxy or sign-in page may stand in front; check the address"
        )
    if not answer.body.strip():
        raise ProtocolError(f"the server answered status {answer.status} with an empty body instead of JSON")


def _checked_url(url: str | None) -> str:
    if not url:
        raise ConfigError("no server address: set CASEKIT_URL or pass Client(url=…)")
    try:
        parsed = httpx.URL(url.strip())
    except httpx.InvalidURL:
        raise ConfigError("the server address cannot be read: it looks like https://api.example.com") from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ConfigError("the server address starts with http:// or https:// and names a host, like https://api.example.com")
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise ConfigError("the server address holds no user, query or fragment: give the token with token= or CASEKIT_TOKEN")
    return str(parsed).rstrip("/")


def _checked_token(token: str | None) -> str:
    token = (token or "").strip()
    if not token:
        raise ConfigError("no token: set CASEKIT_TOKEN or pass Client(token=…)")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError("the token holds characters that no token has (spaces, control or non-ASCII characters)")
    return token


def _checked_uuid(value: str) -> str:
    try:
        return str(uuid.UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise ConfigError(f"project_id {one_line(str(value), 60)!r} is not a UUID") from None


def _segment(value: str, what: str) -> str:
    """An id as one segment of a path."""
    if not isinstance(value, str) or not value:
        raise ConfigError(f"the {what} is empty")
    if value in (".", ".."):
        raise ConfigError(f"the {what} {value!r} cannot stand in an address")
    try:
        return quote(value, safe="")
    except UnicodeEncodeError:
        raise ConfigError(f"the {what} holds a lone surrogate") from None


def _proxy(url: str) -> str | None:
    """The environment's proxy for an address; none for this machine itself."""
    parsed = httpx.URL(url)
    if _is_loopback(parsed.host) or urllib.request.proxy_bypass(parsed.host):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(parsed.scheme) or proxies.get("all")


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _checked_body(model: type[AddCase] | type[RetireCase], values: Mapping[str, Any]) -> bytes:
    """The body to send, once it keeps the documented rules."""
    given = {name: value for name, value in values.items() if value is not None}
    try:
        # By way of JSON: what cannot be sent as it is (NaN, a date, a frame's NA) is an error, not a guess.
        return model.model_validate_json(json.dumps(given, allow_nan=False)).body()
    except pydantic.ValidationError as error:
        raise ConfigError(f"the request breaks a rule, nothing was sent: {_first_problem(error)}") from None
    except (TypeError, ValueError):
        raise ConfigError("the request holds a value that JSON does not have (NaN, a date, an object); nothing was sent") from None


def _first_problem(error: pydantic.ValidationError) -> str:
    """Field and rule of the first problem, without the value."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(step) for step in first["loc"])
    what = first["msg"].removeprefix("Value error, ")
    return f"{where}: {what}" if where else what
