"""One connection to the server: a request out, a whole answer or none back. The one file that knows httpx."""

from __future__ import annotations

import socket
import ssl
import time
import zlib
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal

import httpx

from casekit import __version__
from casekit.errors import ConfigError
from casekit.http.address import proxy_variable
from casekit.http.retry import asked_wait, http_date
from casekit.http.secret import Token

__all__ = ["BODY_BYTES_MAX", "Answer", "Connection", "Lost", "Request", "head", "tls_context"]

CONNECT_SECONDS: Final = 10.0  # to open a connection
IDLE_SECONDS: Final = 30.0  # after which an unused connection is opened anew
BODY_BYTES_MAX: Final = 64 * 2**20  # of a good answer, decompressed
ERROR_BYTES_MAX: Final = 2**20  # of any other answer; what comes after is not read
PIECE_BYTES: Final = 2**18  # decompressed at a time, so that a bomb is seen before it goes off

Why = Literal[
    "connect",
    "certificate",
    "proxy",
    "timeout",
    "reset",
    "broken",
    "cut",
    "unfinished",
    "compression",
    "encoding",
    "large",
    "address",
]


@dataclass(frozen=True)
class Request:
    """What to send, and what it is about.

    Attributes
    ----------
    method, target : str
        Of the request line; the target is encoded.
    about : str
        In words, for messages.
    body : bytes or None
        JSON.
    key : str or None
        Idempotency key, the same on each attempt.
    cursor : bool
        It asks for a page by a cursor.
    unsure : bool
        An earlier attempt of this write got no answer, and may have done it.
    good : container of int
        Statuses of an answer that holds what was asked for.
    """

    method: str
    target: str
    about: str
    body: bytes | None = field(default=None, repr=False)
    key: str | None = None
    cursor: bool = False
    unsure: bool = False
    good: Container[int] = frozenset({200})


@dataclass(frozen=True, repr=False)
class Answer:
    """An answer's status, what its head says, and its body.

    Attributes
    ----------
    status : int
        HTTP status.
    body : bytes
        Decompressed; of an error, the first part.
    request_id, content_type : str or None
        As the server wrote them.
    asked : float or None
        Seconds the server asks to wait.
    framed : bool
        The head says where the body ends; otherwise the end of the connection does, and nobody knows whether it was
        meant.
    whole : bool
        False where the connection was lost before the end of an error.
    coding : str or None
        Content-Encoding, as the server wrote it.
    """

    status: int
    body: bytes
    request_id: str | None
    content_type: str | None
    asked: float | None
    framed: bool
    whole: bool = True
    coding: str | None = None

    def __repr__(self) -> str:
        """No word of the body or the head: a traceback may be shown with its locals."""
        return f"Answer({self.status}, {len(self.body):,} bytes)"


@dataclass(frozen=True)
class Lost:
    """An attempt without a whole answer.

    Attributes
    ----------
    why : str
        One word; `Client` has the sentence.
    stale : bool
        The connection had been open for an earlier answer and was gone: the server closed it while nobody looked.
    answer : Answer or None
        What came, where that is at fault and not the connection.
    """

    why: Why
    stale: bool = False
    answer: Answer | None = field(default=None, compare=False)


def tls_context(address: str) -> ssl.SSLContext:
    """The certificates to trust: those of httpx, or of ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``; none for plain HTTP."""
    return httpx.create_ssl_context() if address.startswith("https:") else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class Connection:
    """Sends one request at a time and stays open in between; another thread may abort it.

    Parameters
    ----------
    address
        Of the server.
    tls
        Certificates to trust.

    Raises
    ------
    ConfigError
        The environment's proxy cannot be used.
    """

    def __init__(self, address: str, tls: ssl.SSLContext) -> None:
        proxy = proxy_variable(address)
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=IDLE_SECONDS)
        problem = None
        try:
            self._transport = httpx.HTTPTransport(verify=tls, proxy=proxy[1] if proxy else None, limits=limits)
        except (ValueError, httpx.InvalidURL):
            problem = "is no address of a proxy"
        except ImportError:
            problem = "needs the package socksio: pip install 'httpx[socks]'"
        if proxy and problem:
            # An address of a proxy may hold a password: only its variable is named.
            raise ConfigError(f"the environment's proxy ({proxy[0]}_proxy) {problem}")
        self._address = address
        self._socket: socket.socket | None = None
        self._answered = False  # on the connection that is open now
        self._on_sent: Callable[[], None] | None = None
        self.aborted = False

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def abort(self) -> None:
        """End the request that is on its way, whatever it waits for; the connection is of no more use."""
        self.aborted = True
        self._shut()

    def _shut(self) -> None:
        if self._socket is not None:
            with suppress(OSError):  # closed already
                # Not the method of a TLS socket, which takes away what its reader works with.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def _notice(self, event: str, about: Mapping[str, Any]) -> None:
        """Keep the socket of a connection that has just been opened."""
        if event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._socket = about["return_value"].get_extra_info("socket")
            self._answered = False
            if self.aborted:
                self._shut()
        elif self._on_sent is not None and event.endswith("send_request_body.complete"):
            self._on_sent()

    def send(
        self,
        request: Request,
        token: Token,
        *,
        patience: float,
        deadline: float,
        on_sent: Callable[[], None] | None = None,
    ) -> Answer | Lost:
        """Send a request once.

        Parameters
        ----------
        request, token
            What to send, and who asks.
        patience
            Seconds without a byte after which to give up.
        deadline
            Time (`time.monotonic`) at which to give up in any case.
        on_sent
            Called once the request is out, before its answer is waited for.

        Returns
        -------
        Answer or Lost
            Never raises what went wrong below: the frames down there hold the token.
        """
        limits = {"connect": min(CONNECT_SECONDS, patience), "read": patience, "write": patience, "pool": patience}
        self._on_sent = on_sent
        response: httpx.Response | None = None
        try:
            extensions = {"timeout": limits, "trace": self._notice}
            url = self._address + request.target
            headers = {"Authorization": token.header(), **head(request)}
            response = self._transport.handle_request(
                httpx.Request(request.method, url, headers=headers, content=request.body, extensions=extensions)
            )
            self._answered = True
            return _received(response, deadline, response.status_code in request.good)
        except httpx.InvalidURL:
            return Lost("address")
        except (httpx.HTTPError, httpx.StreamError, OSError, UnicodeError) as error:
            if response is not None and response.status_code not in request.good:
                return _answer(response, b"", whole=False)
            why = _why(error)
            stale = self._answered and response is None and why in ("reset", "broken")
            self._answered = False
            return Lost(why, stale)
        finally:
            if response is not None:
                with suppress(httpx.HTTPError, OSError):  # there is nothing left to lose
                    response.close()


def head(request: Request) -> dict[str, str]:
    """The headers of a request, without the token."""
    headers = {
        "Accept": "application/json",
        "Accept-Encoding": "gzip, deflate",
        "User-Agent": f"casekit/{__version__}",
    }
    if request.body is not None:
        headers["Content-Type"] = "application/json"
    if request.key is not None:
        headers["Idempotency-Key"] = request.key
    return headers


def _why(error: Exception) -> Why:
    """What a lower layer's exception means."""
    if isinstance(error, httpx.TimeoutException):
        return "timeout"
    if isinstance(error, httpx.ProxyError):
        return "proxy"
    if isinstance(error, (httpx.ReadError, httpx.WriteError, httpx.CloseError)):
        return "reset"
    if isinstance(error, httpx.RemoteProtocolError):
        return "broken"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return "certificate"
        cause = cause.__cause__ or cause.__context__
    return "connect"


def _answer(response: httpx.Response, body: bytes, *, whole: bool = True) -> Answer:
    headers = response.headers
    now = http_date(headers.get("Date", "")) or datetime.now(UTC)
    return Answer(
        status=response.status_code,
        body=body,
        request_id=headers.get("X-Request-Id"),
        content_type=headers.get("Content-Type"),
        asked=asked_wait(headers.get_list("Retry-After"), now),
        framed="Content-Length" in headers or "Transfer-Encoding" in headers,
        whole=whole,
        coding=headers.get("Content-Encoding"),
    )


def _received(response: httpx.Response, deadline: float, good: bool) -> Answer | Lost:
    """The whole body, decompressed, within its bounds."""
    most = BODY_BYTES_MAX if good else ERROR_BYTES_MAX
    unpack = _Unpacker(response.headers.get("Content-Encoding", ""))
    pieces: list[bytes] = []
    size = raw = 0
    problem: Why | None = None if unpack.known else "encoding"
    try:
        for chunk in response.iter_raw() if unpack.known else ():
            raw += len(chunk)
            for piece in unpack(chunk):
                pieces.append(piece)
                size += len(piece)
                if size > most:
                    break
            if max(size, raw) > most:
                problem = "large"
                break
            if time.monotonic() > deadline:
                problem = "timeout"
                break
    except zlib.error:
        problem = "compression"
    if not good:
        return _answer(response, b"".join(pieces)[:most], whole=problem != "timeout")
    if problem is None and unpack.cut:
        problem = "cut"
    if problem is not None:
        return Lost(problem, answer=_answer(response, b""))
    return _answer(response, b"".join(pieces))


class _Unpacker:
    """Takes the compression off a body, a bounded piece at a time."""

    def __init__(self, encoding: str) -> None:
        codings = [name for part in encoding.split(",") if (name := part.strip().lower()) not in ("", "identity")]
        self.known = codings in ([], ["gzip"], ["x-gzip"], ["deflate"])
        self._kind = codings[0] if codings else ""
        self._stream = zlib.decompressobj(zlib.MAX_WBITS if self._kind == "deflate" else zlib.MAX_WBITS | 16)
        self._begun = False

    @property
    def cut(self) -> bool:
        """A compressed body began and did not end."""
        return bool(self._kind) and self._begun and not self._stream.eof

    def __call__(self, chunk: bytes) -> Iterator[bytes]:
        if not self._kind or not chunk:
            yield chunk
            return
        try:
            piece = self._stream.decompress(chunk, PIECE_BYTES)
        except zlib.error:
            if self._kind != "deflate" or self._begun:
                raise
            self._stream = zlib.decompressobj(
                -zlib.MAX_WBITS
            )  # some servers leave out the frame that RFC 9110 asks for
            piece = self._stream.decompress(chunk, PIECE_BYTES)
        self._begun = True
        while True:
            yield piece
            if self._stream.eof:
                chunk = self._stream.unused_data
                if not chunk.startswith(b"\x1f\x8b"):
                    return  # what follows the end is not ours
                self._stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
            elif len(piece) < PIECE_BYTES:
                return
            else:
                chunk = self._stream.unconsumed_tail
            piece = self._stream.decompress(chunk, PIECE_BYTES)
