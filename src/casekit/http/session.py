"""What a client sends its requests with: the address, the token, the connections, and when to send one again."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any, Final, Self, TypeVar

from casekit.errors import ConfigError, TransportError
from casekit.http.address import checked_address, origin
from casekit.http.background import Background
from casekit.http.connection import Answer, Connection, Lost, Request, tls_context
from casekit.http.cursor import is_cut
from casekit.http.problem import error_of, loss_of, may_have_run
from casekit.http.retry import Retry
from casekit.http.secret import Token, keep_out_of_logs

__all__ = ["OnWait", "Session"]

RESULTS_AHEAD: Final = 4  # such as pages, fetched before they are asked for
PATIENCE_MIN: Final = 0.05  # seconds; the system takes no time-out of 0

_log = logging.getLogger("casekit")

Result = TypeVar("Result")
OnWait = Callable[[str, float], None]


class Session:
    """Sends requests to one origin, with one token; `casekit.Client` says what it is given."""

    def __init__(
        self, url: str | None = None, *, token: str | None = None, timeout: float = 30.0, retry: Retry | None = None
    ) -> None:
        address, wrong = checked_address(url if url is not None else os.environ.get("CASEKIT_URL"))
        secret, missing = _checked_token(token if token is not None else os.environ.get("CASEKIT_TOKEN"))
        url = token = None  # a traceback may be shown with its locals
        self.url = address
        if wrong or missing:
            raise ConfigError(wrong or missing or "")
        if isinstance(timeout, bool) or not (math.isfinite(timeout) and timeout > 0):
            raise ConfigError(f"timeout is a number of seconds above 0, not {timeout!r}")
        self.timeout, self.retry, self._token = float(timeout), retry or Retry(), secret
        self._open()

    def _open(self) -> None:
        self._lock, self._process, self._closed = threading.Lock(), os.getpid(), False
        self._tls = tls_context(self.url)
        self._idle, self._busy = [Connection(self.url, self._tls)], set[Connection]()
        weakref.finalize(self, _close_all, self._idle)  # no warning about sockets of a client that nobody closed

    def __repr__(self) -> str:
        """The address alone."""
        return f"{type(self).__name__}({self.origin!r})"

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the token and the connections."""
        return {"url": self.url, "timeout": self.timeout, "retry": self.retry}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """The token is taken from the environment when it is first needed."""
        self.__dict__.update(state)
        self._token = None
        self._open()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; requests on their way end with a `TransportError`."""
        with self._lock:
            self._closed = True
            _close_all(self._idle)
            for connection in self._busy:
                connection.abort()

    @property
    def origin(self) -> str:
        """Scheme, host and port: where the token goes, and nowhere else.

        Examples
        --------
        >>> import casekit as ck
        >>> ck.Client("https://api.example.com/v1", token="tok-123456").origin
        'https://api.example.com'
        """
        return origin(self.url)

    def _secret(self) -> Token:
        if self._token is None:
            self._token, missing = _checked_token(os.environ.get("CASEKIT_TOKEN"))
            if self._token is None:
                raise ConfigError(f"an unpickled client has {missing}")
        return self._token

    def _in_background(
        self, work: Callable[[Background[Result]], None], stop: threading.Event | None = None
    ) -> Generator[Result, None, None]:
        """Results of work on a connection that nobody else uses meanwhile."""
        keep_out_of_logs(self._secret())
        with self._lock:
            if self._closed:
                raise ConfigError("the client is closed: make another with ck.Client(…)")
            if self._process != os.getpid():  # after a fork, two processes must not read from one connection
                _close_all(self._idle)
                self._process = os.getpid()
            connection = self._idle.pop() if self._idle else Connection(self.url, self._tls)
            self._busy.add(connection)
        try:
            yield from Background(connection, work, RESULTS_AHEAD).results(stop)
        finally:
            with self._lock:
                self._busy.discard(connection)
                if connection.aborted or self._closed:
                    connection.close()
                else:
                    self._idle.append(connection)

    def _send(
        self,
        work: Background[Any],
        request: Request,
        on_wait: OnWait | None = None,
        on_sent: Callable[[], None] | None = None,
    ) -> tuple[Answer, int, float]:
        """A good answer, the attempts it took and the seconds waited; or the error that waiting did not mend."""
        token, retry = self._secret(), self.retry
        deadline = work.deadline = time.monotonic() + retry.budget
        waited, attempt = 0.0, 0
        while True:
            attempt += 1
            patience = max(PATIENCE_MIN, min(self.timeout, deadline - time.monotonic()))
            answer = work.connection.send(request, token, patience=patience, deadline=deadline, on_sent=on_sent)
            if isinstance(answer, Answer) and answer.status in request.good:
                if not is_cut(answer.body):
                    work.deadline = math.inf
                    return answer, attempt, waited
                answer = Lost("unfinished" if answer.framed else "cut", answer=answer)
            if work.connection.aborted:
                if time.monotonic() < deadline:
                    raise TransportError(f"{request.about}: ended early: the client was closed, or nobody waits for it")
                answer = Lost("timeout")
            if may_have_run(answer) and not request.unsure:
                request = replace(request, unsure=True)
            if isinstance(answer, Answer):
                pause, why = retry.pause(attempt, answer.asked), "server busy"
                late = time.monotonic() + pause > deadline
                short_of = retry.budget if late and pause == answer.asked else None
                problem, again = error_of(answer, request, token, attempt, waited, short_of)
            elif answer.stale:
                attempt -= 1  # the server closed a connection that nobody used: on a new one this is the same attempt
                continue
            else:
                pause, why = retry.pause(attempt, None), "connection lost"
                late = time.monotonic() + pause > deadline
                problem, again = loss_of(answer, request, token, self.origin, attempt, waited)
            if not again or late or attempt >= retry.attempts:
                raise problem
            _log.info("%s: %s, waiting %.1f s after attempt %d", request.about, why, pause, attempt)
            if on_wait is not None:
                on_wait(why, pause)
            if not work.pause(pause):
                raise problem
            waited += pause


def _checked_token(token: str | None) -> tuple[Token | None, str | None]:
    """The token, or what is wrong with it; nothing is raised with the token in hand."""
    if token is None or not token.strip():
        return None, "no token: set CASEKIT_TOKEN or pass Client(token=…)"
    token = token.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        return None, "a token with characters that no token has (spaces, control or non-ASCII characters)"
    return Token(token), None


def _close_all(connections: list[Connection]) -> None:
    while connections:
        connections.pop().close()
