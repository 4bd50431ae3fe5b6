"""One request on one connection: bounds, compression, losses, and exceptions of the layers below."""

from __future__ import annotations

import gzip
import ssl
import threading
import time
import zlib
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cases.player import Player
from client.conftest import Serve
from client.pages import PAGE, PAGE_TEXT, TOKEN, always

import casekit as ck
from casekit.errors import CasekitError, ConfigError
from casekit.http import connection as subject
from casekit.http.connection import Answer, Connection, Lost, Request, tls_context
from casekit.http.secret import Token

BODY = PAGE_TEXT.encode()


@pytest.fixture
def connect() -> Iterator[Callable[[str], Connection]]:
    """Open connections that are closed when the test ends."""
    opened: list[Connection] = []

    def connected(address: str) -> Connection:
        opened.append(Connection(address, tls_context(address)))
        return opened[-1]

    yield connected
    for one in opened:
        one.close()


def sent(connection: Connection, *, patience: float = 2.0, seconds: float = 10.0) -> Answer | Lost:
    """What comes of one request."""
    request = Request("GET", "/v1/x", "a test")
    return connection.send(request, Token(TOKEN), patience=patience, deadline=time.monotonic() + seconds)


def packed(body: bytes, *, bits: int) -> dict[str, Any]:
    """An answer whose body is compressed with these window bits."""
    packer = zlib.compressobj(9, zlib.DEFLATED, bits)
    return {"body_b64": b64encode(packer.compress(body) + packer.flush()).decode()}


GZIP, DEFLATE, RAW = zlib.MAX_WBITS | 16, zlib.MAX_WBITS, -zlib.MAX_WBITS


@pytest.mark.parametrize(
    ("answer", "coding"),
    [
        ({"body_json": PAGE}, None),
        ({"body_json": PAGE}, ""),
        ({"body_json": PAGE}, "identity"),
        (packed(BODY, bits=GZIP), "gzip"),
        (packed(BODY, bits=GZIP), " X-GZip "),
        (packed(BODY, bits=GZIP), "identity, gzip"),
        (packed(BODY, bits=DEFLATE), "deflate"),
        (packed(BODY, bits=RAW), "deflate"),
        ({"body_b64": b64encode(gzip.compress(BODY[:9]) + gzip.compress(BODY[9:])).decode()}, "gzip"),
        ({"body_b64": b64encode(gzip.compress(BODY) + b"\0\0padding").decode()}, "gzip"),
        ({"body_b64": b64encode(gzip.compress(b"") + gzip.compress(BODY)).decode()}, "gzip"),
    ],
)
@pytest.mark.parametrize(
    "framing", [{"framing": "length"}, {"framing": "chunked", "chunk_size": 7}, {"framing": "close"}]
)
def test_a_body_comes_whole_in_any_coding_and_framing(
    serve: Serve,
    connect: Callable[[str], Connection],
    answer: dict[str, Any],
    coding: str | None,
    framing: dict[str, Any],
) -> None:
    """The bytes must be those the server meant, however they were packed."""
    headers = {} if coding is None else {"Content-Encoding": coding}
    got = sent(connect(serve(always(**answer, **framing, headers=headers)).url))
    assert isinstance(got, Answer)
    assert got.body.replace(b" ", b"") == BODY.replace(b" ", b"")


def test_a_large_body_comes_whole(serve: Serve, connect: Callable[[str], Connection]) -> None:
    """A body of many pieces must come whole, packed or not."""
    parts = ["[", {"repeat": '"row {{i}} of some text"', "times": 100_000, "join": ","}, "]"]
    whole = "[" + ",".join(f'"row {n} of some text"' for n in range(100_000)) + "]"
    for encoding in (None, "gzip", "deflate"):
        got = sent(connect(serve(always(body_parts=parts, encoding=encoding)).url))
        assert isinstance(got, Answer)
        assert got.body.decode() == whole


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ({"fault": "close-before-response"}, "broken"),
        ({"fault": "reset-before-response"}, "reset"),
        ({"fault": "close-after-headers", "body_json": PAGE}, "broken"),
        ({"fault": "close-mid-body", "after_bytes": 20, "body_json": PAGE}, "broken"),
        ({"fault": "reset-mid-body", "after_bytes": 20, "body_json": PAGE}, "reset"),
        ({"fault": "close-mid-body", "after_bytes": 20, "body_json": PAGE, "framing": "chunked"}, "broken"),
        ({"framing": "declared", "declared_length": 5000, "body_json": PAGE}, "broken"),
        ({"body_json": PAGE, "encoding": "gzip-truncated"}, "cut"),
        ({"body_json": PAGE, "encoding": "gzip-corrupt"}, "compression"),
        ({"body_json": PAGE, "headers": {"Content-Encoding": "gzip"}}, "compression"),
        ({"body_json": PAGE, "headers": {"Content-Encoding": "deflate"}}, "compression"),
        ({"body_json": PAGE, "headers": {"Content-Encoding": "br"}}, "encoding"),
        ({"body_json": PAGE, "headers": {"Content-Encoding": "gzip, gzip"}}, "encoding"),
        ({"raw_text": "hello\r\n\r\n"}, "broken"),
        ({"raw_text": "HTTP/1.1 200 OK\r\nno colon\r\n\r\n"}, "broken"),
        ({"raw_text": "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"}, "broken"),
        ({"raw_text": "HTTP/1.1 200 OK\r\nX: " + "x" * 300_000 + "\r\n\r\n"}, "broken"),
    ],
)
def test_a_loss_is_told_and_never_raised(
    serve: Serve, connect: Callable[[str], Connection], answer: dict[str, Any], why: str
) -> None:
    """Whatever breaks on the way must come back as a loss of its kind."""
    assert sent(connect(serve(always(**answer)).url)) == Lost(why)  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", [{"fault": "hang"}, {"delay_ms": 5000, "body_json": PAGE}])
def test_silence_ends_with_patience(serve: Serve, connect: Callable[[str], Connection], answer: dict[str, Any]) -> None:
    """A server that says nothing must be given up after as long as was asked for."""
    assert sent(connect(serve(always(**answer)).url), patience=0.1) == Lost("timeout")


def test_a_slow_body_ends_at_the_deadline(serve: Serve, connect: Callable[[str], Connection]) -> None:
    """A body that never stops coming must not be read past the deadline."""
    server = serve(always(body_json=PAGE, drip={"bytes": 1, "every_ms": 20}))
    assert sent(connect(server.url), seconds=0.3) == Lost("timeout")


def test_a_bomb_is_seen_before_it_goes_off(
    serve: Serve, connect: Callable[[str], Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small body that unpacks to a huge one must be refused with little more than the bound in memory."""
    monkeypatch.setattr(subject, "BODY_BYTES_MAX", 2**20)
    held: list[int] = []
    unpack = subject._Unpacker.__call__

    def counted(self: Any, chunk: bytes) -> Iterator[bytes]:
        for piece in unpack(self, chunk):
            held.append(len(piece))
            yield piece

    monkeypatch.setattr(subject._Unpacker, "__call__", counted)
    server = serve(always(body_parts=['"', {"repeat": "A", "times": 30_000_000}, '"'], encoding="gzip"))
    assert sent(connect(server.url)) == Lost("large")
    assert max(held) <= 2**19
    assert sum(held) <= 2**20 + 2**19


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_a_body_over_the_bound_is_refused(
    serve: Serve, connect: Callable[[str], Connection], monkeypatch: pytest.MonkeyPatch, framing: str
) -> None:
    """A body of exactly the bound must be read, and one byte more refused."""
    monkeypatch.setattr(subject, "BODY_BYTES_MAX", 100_000)
    fits = serve(always(body_text="x" * 100_000, framing=framing))
    got = sent(connect(fits.url))
    assert isinstance(got, Answer)
    assert len(got.body) == 100_000
    assert sent(connect(serve(always(body_text="x" * 100_001, framing=framing)).url)) == Lost("large")


def test_of_an_error_only_the_first_part_is_read(
    serve: Serve, connect: Callable[[str], Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error must keep its status, however much the server says with it."""
    monkeypatch.setattr(subject, "ERROR_BYTES_MAX", 1000)
    got = sent(connect(serve(always(status=503, body_text="x" * 500_000, headers={"Retry-After": "7"})).url))
    assert isinstance(got, Answer)
    assert (got.status, len(got.body), got.asked, got.whole) == (503, 1000, 7.0, True)


@pytest.mark.parametrize(
    "answer",
    [
        {"fault": "close-after-headers", "body_text": "x" * 100},
        {"fault": "close-mid-body", "after_bytes": 10, "body_text": "x" * 100},
        {"fault": "reset-mid-body", "after_bytes": 10, "body_text": "x" * 100},
    ],
)
def test_an_error_cut_short_keeps_its_status(
    serve: Serve, connect: Callable[[str], Connection], answer: dict[str, Any]
) -> None:
    """What the head said must not be lost with the body: the wait it asks for counts."""
    got = sent(connect(serve(always(status=503, headers={"Retry-After": "7"}, **answer)).url))
    assert isinstance(got, Answer)
    assert (got.status, got.asked, got.whole) == (503, 7.0, False)


def test_a_date_counts_from_the_servers_own_clock(serve: Serve, connect: Callable[[str], Connection]) -> None:
    """A server whose clock is wrong must get the wait that it meant."""
    headers = {"Date": "Sun, 01 Mar 2020 12:00:00 GMT", "Retry-After": "Sun, 01 Mar 2020 12:00:09 GMT"}
    got = sent(connect(serve(always(status=503, headers=headers)).url))
    assert isinstance(got, Answer)
    assert got.asked == 9.0


def test_an_answer_shows_no_word_of_the_server(serve: Serve, connect: Callable[[str], Connection]) -> None:
    """A traceback with locals must not show what a server sent."""
    got = sent(connect(serve(always(body_text="their words", headers={"X-Request-Id": "their id"})).url))
    assert repr(got) == "Answer(200, 11 bytes)"


def test_a_closed_idle_connection_is_opened_anew(serve: Serve, connect: Callable[[str], Connection]) -> None:
    """A server that hangs up after each answer must cost nothing but a new connection."""
    server = serve(always(body_json=PAGE, fault="close-after-response"))
    connection = connect(server.url)
    for _ in range(5):
        got = sent(connection)
        assert isinstance(got, Answer) or got.stale  # the server's goodbye may cross the next request
    assert len({request.connection for request in server.requests}) == len(server.requests)


def test_a_connection_is_used_again(serve: Serve, connect: Callable[[str], Connection]) -> None:
    """Requests that follow each other must share one connection."""
    server = serve(always(body_json=PAGE))
    connection = connect(server.url)
    assert all(isinstance(sent(connection), Answer) for _ in range(5))
    assert {request.connection for request in server.requests} == {1}


@pytest.mark.parametrize("answer", [{"fault": "hang"}, {"body_json": PAGE, "drip": {"bytes": 1, "every_ms": 50}}])
def test_an_abort_ends_a_request_from_another_thread(
    serve: Serve, connect: Callable[[str], Connection], answer: dict[str, Any]
) -> None:
    """A request must end at once when somebody aborts it, wherever it waits."""
    server = serve(always(**answer))
    connection = connect(server.url)

    def abort() -> None:
        with server.arrived:
            server.arrived.wait_for(lambda: server.requests, 10)
        connection.abort()

    thread = threading.Thread(target=abort)
    thread.start()
    got = sent(connection, patience=60.0, seconds=60.0)
    thread.join()
    assert isinstance(got, Lost)
    assert connection.aborted


def test_nothing_listens(connect: Callable[[str], Connection]) -> None:
    """A refused connection must be told as one that could not be opened."""
    with Player({"responses": []}, Path()) as gone:
        address = gone.url
    assert sent(connect(address)) == Lost("connect")


def test_an_address_too_long_for_http_is_told(serve: Serve, connect: Callable[[str], Connection]) -> None:
    """A cursor that no address can hold must not raise an error of the library below."""
    request = Request("GET", "/v1/x?cursor=" + "x" * 70_000, "a test", cursor=True)
    got = connect(serve(always(body_json=PAGE)).url).send(
        request, Token(TOKEN), patience=1, deadline=time.monotonic() + 1
    )
    assert got == Lost("address")


@pytest.mark.parametrize(
    ("value", "words"),
    [("nonsense://%%", "http_proxy"), ("http://[::1", "http_proxy"), ("socks5://127.0.0.1:1", "socksio")],
)
def test_a_proxy_that_cannot_be_used_is_named_by_its_variable(
    monkeypatch: pytest.MonkeyPatch, value: str, words: str
) -> None:
    """An unusable proxy must be told when the client is made, without its address, which may hold a password."""
    monkeypatch.setenv("HTTP_PROXY", value)
    with pytest.raises(ConfigError, match=words) as caught:
        ck.Client("http://api.example.com", token=TOKEN)
    assert value not in str(caught.value)


def below() -> list[type[Exception]]:
    """Every exception of httpx that a request can end with."""
    classes = [one for one in vars(httpx).values() if isinstance(one, type) and issubclass(one, Exception)]
    return sorted((one for one in classes if one not in (httpx.CookieConflict,)), key=lambda one: one.__name__)


class Failing:
    """A transport on which everything fails in one way."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Fail."""
        raise self.error

    def close(self) -> None:
        """Nothing is open."""


def made(kind: type[Exception]) -> Exception:
    """An instance of an exception of httpx, whatever it needs."""
    if issubclass(kind, httpx.HTTPStatusError):
        return kind("x", request=httpx.Request("GET", "http://x"), response=httpx.Response(500))
    wordless = issubclass(kind, httpx.StreamError) and kind is not httpx.StreamError
    return kind(*([] if wordless else [TOKEN]))


@pytest.mark.parametrize("kind", [*below(), OSError, ssl.SSLError, UnicodeError], ids=lambda kind: kind.__name__)
def test_no_exception_of_the_layers_below_escapes(
    monkeypatch: pytest.MonkeyPatch, serve: Serve, client_of: Callable[..., ck.Client], kind: type[Exception]
) -> None:
    """Every exception that httpx has must reach the caller as one of casekit's, without what it said."""
    client = client_of(serve())
    for connection in client._idle:
        connection._transport.close()
        monkeypatch.setattr(connection, "_transport", Failing(made(kind)))
    with pytest.raises(CasekitError) as caught:
        list(client.test_set_pages("acme.a", "1.0.0"))
    assert TOKEN not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_the_list_of_exceptions_below_is_not_empty() -> None:
    """The test above must have something to prove."""
    assert {httpx.ReadTimeout, httpx.RemoteProtocolError, httpx.InvalidURL, httpx.ProxyError} <= set(below())


def test_an_untrusted_certificate_is_not_tried_again(
    monkeypatch: pytest.MonkeyPatch, serve: Serve, client_of: Callable[..., ck.Client]
) -> None:
    """A certificate does not get better by waiting: the message must say what is wrong after one attempt."""
    error = httpx.ConnectError("x")
    error.__cause__ = OSError("y")
    error.__cause__.__context__ = ssl.SSLCertVerificationError("z")
    client = client_of(serve())
    for connection in client._idle:
        connection._transport.close()
        monkeypatch.setattr(connection, "_transport", Failing(error))
    with pytest.raises(ck.errors.TransportError, match=r"no trusted certificate .*SSL_CERT_FILE.*\(1 attempt\)"):
        list(client.test_set_pages("acme.a", "1.0.0"))
