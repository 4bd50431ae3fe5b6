"""What a load comes to when a server answers oddly: over real connections, from the first byte to the CaseSet."""

from __future__ import annotations

import json
import logging
import re
import traceback
from base64 import b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from client.conftest import Serve
from client.pages import PAGE, PAGE_TEXT, QUICK, TOKEN, Spec, always, at, case, first, page, refusal

import casekit as ck
from casekit import errors
from casekit.errors import (
    ApiError,
    AuthError,
    BadInputError,
    BusyError,
    CasekitError,
    ConflictError,
    CursorError,
    GoneError,
    NotFoundError,
    ProtocolError,
    RedirectError,
    SchemaError,
    ServerError,
    TooLargeError,
    TransportError,
)

REF = ("acme.drafting-accuracy", "1.2.0")
ClientOf = Callable[..., ck.Client]
FINE = always(body_json=PAGE)


def failure(client: ck.Client, kind: type[CasekitError]) -> Any:
    """The error of a load that must fail."""
    with pytest.raises(kind) as caught:
        ck.load_test_set(*REF, client=client)
    assert type(caught.value) is kind
    return caught.value


@pytest.mark.parametrize(
    ("status", "code", "kind", "requests"),
    [
        (400, "bad-input", BadInputError, 1),
        (400, "item-not-found", BadInputError, 1),
        (401, "unauthorized", AuthError, 1),
        (403, "permission-denied", AuthError, 1),
        (404, "test-set-not-found", NotFoundError, 1),
        (405, "x", BadInputError, 1),
        (409, "test-case-retired", ConflictError, 1),
        (409, "idempotency-key-replay-withheld", ConflictError, 1),
        (409, "idempotency-key-in-flight", BusyError, 4),
        (410, "run-erased", GoneError, 1),
        (413, "request-too-large", TooLargeError, 1),
        (418, "x", BadInputError, 1),
        (429, "slow-down", BusyError, 4),
        (500, "internal", ServerError, 1),
        (500, "database-busy", BusyError, 4),
        (501, "not-implemented", ServerError, 1),
        (502, "x", ServerError, 4),
        (503, "database-busy", BusyError, 4),
        (503, "idempotency-store-unavailable", BusyError, 4),
        (503, "x", BusyError, 4),
        (504, "x", ServerError, 4),
        (599, "x", ServerError, 1),
    ],
)
@pytest.mark.parametrize("envelope", [True, False])
def test_an_error_has_its_kind_and_is_tried_again_only_where_that_may_help(
    serve: Serve, client_of: ClientOf, status: int, code: str, kind: type[ApiError], requests: int, envelope: bool
) -> None:
    """Status and code must decide on class and retries; without an envelope the status alone."""
    if not envelope and (status, code) in [(409, "idempotency-key-in-flight"), (500, "database-busy")]:
        kind, requests = (ConflictError, 1) if status == 409 else (ServerError, 1)
    answer = refusal(status, code) if envelope else {"status": status, "body_text": "<h1>Sorry</h1>"}
    server = serve(always(**answer))
    error = failure(client_of(server), kind)
    assert (error.status, error.attempts, len(server.requests)) == (status, requests, requests)
    assert (error.code, error.message, error.request_id) == (
        (code, "made up", "req-1") if envelope else (None, "", None)
    )
    assert str(error).startswith(f"test set {REF[0]} {REF[1]}: ")
    assert f"status {status}" in str(error)


@pytest.mark.parametrize(
    "body",
    ['{"error":"x"}', '{"error":{"code":7,"message":{},"requestId":[]}}', "[]", "null", "", '{"error":', "\x00\xff"],
)
def test_a_broken_envelope_leaves_the_status(serve: Serve, client_of: ClientOf, body: str) -> None:
    """An error without a readable envelope must be told by its status, with the id of the head."""
    answer = always(status=404, body_text=body, headers={"X-Request-Id": "req-head"})
    error = failure(client_of(serve(answer)), NotFoundError)
    assert (error.code, error.request_id) == (None, "req-head")


def test_details_are_kept_and_a_limit_is_said(serve: Serve, client_of: ClientOf) -> None:
    """The details must be an attribute, and the size that a server takes must stand in the message."""
    answer = refusal(413, "request-too-large", details={"maxBytes": 1048576, "more": [1]})
    error = failure(client_of(serve(always(**answer))), TooLargeError)
    assert error.details == {"maxBytes": 1048576, "more": [1]}
    assert "at most 1,048,576 bytes" in str(error)


@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "0"},
        {"Retry-After": "-5"},
        {"Retry-After": "soon"},
        {"Retry-After": ""},
        {"Retry-After": "0.05"},
        {"Retry-After": "{{http_date:-60}}"},
        {},
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_is_asked_again(serve: Serve, client_of: ClientOf, headers: dict[str, str], status: int) -> None:
    """Whatever the header holds, a busy server must be asked again a little later and not give up the load."""
    server = serve(refusal(status, "database-busy", headers), FINE)
    cases = ck.load_test_set(*REF, client=client_of(server))
    assert (len(cases), cases.report.retries, len(server.requests)) == (2, 1, 2)
    asked, got = server.requests
    assert got.came - (asked.answered or 0.0) >= max(0.0075, 0.05 if "0.05" in headers.values() else 0.0)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("6", "6 s"),
        ("3600", "3,600 s"),
        ("99999999999999999999", "1e+20 s"),
        ("9" * 400, "1.8e+308 s"),
        ("{{http_date:+900}}", " s"),
        ("Fri, 31 Dec 9999 23:59:59 GMT", " s"),
    ],
)
def test_a_wait_beyond_the_budget_is_told_at_once(serve: Serve, client_of: ClientOf, value: str, told: str) -> None:
    """A server that wants more time than there is must not be asked earlier, and nobody must wait for nothing."""
    server = serve(always(**refusal(503, "database-busy", {"Retry-After": value})))
    error = failure(client_of(server), BusyError)
    assert len(server.requests) == 1
    assert error.waited == 0.0
    assert error.retry_after >= 6
    assert re.search(rf"the server asks to wait [\d,.e+]*{re.escape(told)}, more than", str(error))
    assert "ck.Retry(budget=" in str(error)


def test_a_refusal_is_not_mistaken_for_a_wait(serve: Serve, client_of: ClientOf) -> None:
    """A header on an error that waiting does not mend must not change what the error says."""
    answer = refusal(401, "unauthorized", {"Retry-After": "3600"})
    assert "asks to wait" not in str(failure(client_of(serve(always(**answer))), AuthError))


@pytest.mark.parametrize(
    "lost",
    [
        {"fault": "close-before-response"},
        {"fault": "reset-before-response"},
        {"fault": "close-after-headers", "body_json": PAGE},
        {"fault": "close-mid-body", "after_bytes": 100, "body_json": PAGE},
        {"fault": "close-mid-body", "after_bytes": 100, "body_json": PAGE, "framing": "close"},
        {"fault": "close-mid-body", "after_bytes": 100, "body_json": PAGE, "framing": "chunked"},
        {"fault": "reset-mid-body", "after_bytes": 100, "body_json": PAGE},
        {"body_text": PAGE_TEXT[:-1]},
        {"body_text": PAGE_TEXT[:100]},
        {"body_json": PAGE, "encoding": "gzip-truncated"},
        {"body_json": PAGE, "encoding": "gzip-corrupt"},
        {"framing": "declared", "declared_length": 100, "body_json": PAGE},
        {"framing": "declared", "declared_length": 9999, "body_json": PAGE},
        {"raw_text": "nonsense\r\n\r\n"},
        {"fault": "close-after-headers", "status": 500, "body_json": PAGE},
        {"status": 502, "body_text": "<html>"},
    ],
)
def test_a_lost_answer_is_asked_for_again(serve: Serve, client_of: ClientOf, lost: Spec) -> None:
    """After an answer that broke off, the next one must give the whole list, and the report must count it."""
    server = serve(lost, FINE)
    cases = ck.load_test_set(*REF, client=client_of(server))
    assert cases.cases["case_id"].tolist() == ["c-1", "c-2"]
    assert (cases.report.retries, len(server.requests)) == (1, 2)


def test_a_connection_that_the_server_gave_up_costs_no_attempt(serve: Serve, client_of: ClientOf) -> None:
    """A server may close a connection between two requests: that is no failure, and must not be waited for."""
    closed = {"when": {"query": {"cursor": "b"}}, "fault": "close-before-response"}
    more = {"data": [case(1)], "nextCursor": "b", "hasMore": True}
    server = serve({"when": {"no_query": ["cursor"]}, "body_json": more}, closed, always(body_json=PAGE))
    cases = ck.load_test_set(*REF, client=client_of(server, retry=ck.Retry(attempts=1)))
    assert (len(cases), cases.report.retries, cases.report.waited) == (2, 0, 0.0)
    assert [request.connection for request in server.requests] == [1, 1, 2]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"fault": "close-before-response"}, "the answer broke off"),
        ({"fault": "reset-before-response"}, "the connection was lost"),
        ({"fault": "close-mid-body", "after_bytes": 100, "body_json": PAGE, "framing": "close"}, "cut short"),
        ({"body_json": PAGE, "encoding": "gzip-corrupt"}, "compression is broken"),
    ],
)
def test_answers_that_are_always_lost_end_in_an_error(
    serve: Serve, client_of: ClientOf, answer: Spec, words: str
) -> None:
    """A server that never answers whole must be given up after a few attempts, which the message counts."""
    server = serve(always(**answer))
    error = failure(client_of(server), TransportError)
    assert error.attempts == len(server.requests) == QUICK.attempts
    assert words in str(error)
    assert f"({QUICK.attempts} attempts, " in str(error)


def test_silence_ends_within_the_budget(serve: Serve, client_of: ClientOf) -> None:
    """A server that hangs must be given up after as many attempts as the budget has time for."""
    server = serve(always(fault="hang"))
    client = client_of(server, timeout=0.1, retry=ck.Retry(budget=0.35, attempts=100, first=0.01, most=0.01))
    error = failure(client, TransportError)
    assert "no answer in time" in str(error)
    assert 3 <= len(server.requests) <= 5


def test_a_body_that_drips_ends_within_the_budget(serve: Serve, client_of: ClientOf) -> None:
    """A body of which a little comes now and then must not be waited for without end."""
    server = serve(always(body_json=PAGE, drip={"bytes": 1, "every_ms": 30}))
    client = client_of(server, timeout=0.2, retry=ck.Retry(budget=0.4, first=0.01))
    assert "no answer in time" in str(failure(client, TransportError))


def test_a_head_that_drips_ends_within_the_budget(serve: Serve, client_of: ClientOf) -> None:
    """Bytes of a head that never ends must not keep a request alive: no time-out of the layers below sees them."""
    import socket
    import threading

    listener = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def drip() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            try:
                while not over.wait(0.02):
                    connection.sendall(b"X: y\r\n")
            except OSError:
                return

    thread = threading.Thread(target=drip)
    thread.start()
    retry = ck.Retry(budget=0.3, attempts=1)
    with ck.Client(f"http://127.0.0.1:{listener.getsockname()[1]}", token=TOKEN, timeout=0.2, retry=retry) as client:
        assert "no answer in time from" in str(failure(client, TransportError))
    over.set()
    thread.join()
    listener.close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "where", ["http://127.0.0.1:{{other_port}}/v1/x", "/v1/elsewhere", "//127.0.0.1:{{other_port}}/"]
)
def test_no_redirect_is_followed(serve: Serve, client_of: ClientOf, status: int, where: str) -> None:
    """No other address may be asked, and no other origin may see the token, on the same origin or another."""
    server = serve(always(status=status, headers={"Location": where, "X-Request-Id": "req-3"}), other=[FINE])
    error = failure(client_of(server), RedirectError)
    assert len(server.requests) == 1
    assert server.origins["other"].requests == []
    assert (error.status, error.request_id) == (status, "req-3")


@pytest.mark.parametrize("status", [101, 204, 300, 304])
def test_a_status_that_the_api_does_not_have_is_an_error(serve: Serve, client_of: ClientOf, status: int) -> None:
    """An answer without a page must never pass for an empty one."""
    with pytest.raises((ProtocolError, TransportError)):
        ck.load_test_set(*REF, client=client_of(serve(always(status=status))))


@pytest.mark.parametrize("status", [201, 202, 203, 205, 206, 207, 226, 299])
@pytest.mark.parametrize("encoding", [{}, {"encoding": "gzip"}, {"encoding": "gzip-truncated"}])
def test_only_status_200_holds_a_whole_page(
    serve: Serve, client_of: ClientOf, status: int, encoding: dict[str, str]
) -> None:
    """A part of a page, or a page that somebody changed, must not be read, whatever it looks like."""
    headers = {"X-Request-Id": "req-2", "Content-Range": "bytes 0-99/5000"}
    server = serve(always(status=status, body_json=PAGE, headers=headers, **encoding))
    error = failure(client_of(server), ProtocolError)
    assert (error.status, error.request_id, len(server.requests)) == (status, "req-2", 1)
    assert f"(status {status}, request id req-2)" in str(error)
    assert "check the address and what stands in between" in str(error)


@pytest.mark.parametrize(
    ("coding", "told"),
    [
        ("br", "'br'"),
        ("zstd, br", "'zstd, br'"),
        ("gzip, gzip", "'gzip, gzip'"),
        ("x" * 5000, "x…'"),
        (f"br {TOKEN}", "'br [token]'"),
        ("br\x07", "\\x07"),
    ],
)
def test_a_coding_that_nobody_asked_for_is_named(serve: Serve, client_of: ClientOf, coding: str, told: str) -> None:
    """The error must have the status and the request's id, name the coding safely, and say what to do."""
    headers = {"Content-Encoding": coding, "X-Request-Id": "req-8"}
    server = serve(always(body_json=PAGE, headers=headers))
    error = failure(client_of(server), ProtocolError)
    assert (error.status, error.request_id, len(server.requests)) == (200, "req-8", 1)
    assert told in str(error)
    assert "check what stands in between" in str(error)
    assert TOKEN not in str(error)
    assert len(str(error)) < 400


def test_json_that_breaks_off_keeps_status_and_request(serve: Serve, client_of: ClientOf) -> None:
    """A server that always ends too early must be told with what its operator needs to find the request."""
    server = serve(always(body_text=PAGE_TEXT[:-1], headers={"X-Request-Id": "req-3"}))
    error = failure(client_of(server), ProtocolError)
    assert (error.status, error.request_id) == (200, "req-3")


NO_PAGES = {
    "empty": "",
    "blank": " \r\n",
    "markup": "<!DOCTYPE html><html></html>",
    "array": "[]",
    "text": '"page"',
    "null": "null",
    "no members": "{}",
    "no hasMore": '{"data":[]}',
    "no data": '{"hasMore":false}',
    "hasMore as text": '{"data":[],"hasMore":"false"}',
    "data as object": '{"data":{},"hasMore":false}',
    "data null": '{"data":null,"hasMore":false}',
    "cursor as number": '{"data":[],"nextCursor":1,"hasMore":true}',
    "NaN": '{"data":[],"x":NaN,"hasMore":false}',
    "two documents": '{"data":[],"hasMore":false}{"data":[],"hasMore":false}',
    "single quotes": "{'data':[],'hasMore':false}",
    "deep": '{"data":' + "[" * 200_000 + "]" * 200_000 + ',"hasMore":false}',
}


@pytest.mark.parametrize("name", NO_PAGES)
def test_what_is_no_page_is_an_error(serve: Serve, client_of: ClientOf, name: str) -> None:
    """A 200 that holds no page must be told after few requests, with the list it was to be part of."""
    server = serve(always(body_text=NO_PAGES[name], headers={"X-Request-Id": "req-9"}))
    with pytest.raises((ProtocolError, SchemaError, errors.LimitError)) as caught:
        ck.load_test_set(*REF, client=client_of(server))
    assert len(server.requests) <= 3
    assert " ".join(REF) in str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
    assert "req-9" in str(caught.value) + "".join(getattr(caught.value, "__notes__", []))


@pytest.mark.parametrize(
    "body",
    [
        "\ufeff" + PAGE_TEXT,
        "\n\n" + PAGE_TEXT + "\n\t ",
        PAGE_TEXT.replace(", ", ",\n "),
        PAGE_TEXT[:-1] + ', "next": {"hasMore": true, "nextCursor": "no"}}',
        '{"hasMore": false, ' + PAGE_TEXT[1:].replace(', "hasMore": false', ""),
    ],
)
@pytest.mark.parametrize(
    "kind", ["application/json", "application/json; charset=iso-8859-1", "text/html", "text/plain", ""]
)
def test_a_page_is_read_however_it_is_wrapped(serve: Serve, client_of: ClientOf, body: str, kind: str) -> None:
    """White space, a byte order mark, the order of members and a wrong label must not keep a page from being read."""
    cases = ck.load_test_set(*REF, client=client_of(serve(always(body_text=body, headers={"Content-Type": kind}))))
    assert cases.cases["case_id"].tolist() == ["c-1", "c-2"]


@pytest.mark.parametrize("coding", ["latin-1", "utf-16", "utf-32"])
def test_another_charset_is_an_error(serve: Serve, client_of: ClientOf, coding: str) -> None:
    """Text in another coding must be told and never be guessed at."""
    body = PAGE_TEXT.replace('"o"', '"\u00e9"').encode(coding)
    headers = {"Content-Type": f"application/json; charset={coding}"}
    answer = always(body_b64=b64encode(body).decode(), headers=headers)
    assert "UTF-8" in str(failure(client_of(serve(answer)), ProtocolError)) or coding != "latin-1"


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        ({"body_json": {**page([2], "b"), "data": [case(2, items=7)]}}, "page 2, request id req-a"),
        ({"body_json": {**page([2], "b"), "data": [case(2, output=1)], "hasMore": 1}}, "page 2"),
    ],
)
def test_the_page_that_cannot_be_read_is_named(
    serve: Serve, client_of: ClientOf, answer: dict[str, Any], note: str
) -> None:
    """However many pages have come when it is read, the error must name the page that is at fault, and its request."""
    server = serve(
        first(body_json=page([1], "a"), headers={"X-Request-Id": "req-0"}),
        at("a", **answer, headers={"X-Request-Id": "req-a"}),
        at("b", body_json=page([3]), headers={"X-Request-Id": "req-b"}),
    )
    error = failure(client_of(server), SchemaError if "id" in note else ProtocolError)
    assert error.__notes__ == [f"test set {REF[0]} {REF[1]}, {note}"]
    assert "req-a" in str(error) + note


@pytest.mark.parametrize("members", [{"items": 7}, {"input": float("nan")}])
def test_no_word_of_a_page_stands_in_a_traceback(serve: Serve, client_of: ClientOf, members: dict[str, Any]) -> None:
    """A traceback with its locals must hold no text of a page that cannot be read, which may echo the token."""
    text = json.dumps({"data": [case(1, output=f"said by a person: {TOKEN}"), case(2, **members)], "hasMore": False})
    with pytest.raises((SchemaError, ProtocolError)) as caught:
        ck.load_test_set(*REF, client=client_of(serve(always(body_text=text))))
    led: BaseException | None = caught.value
    while led is not None:
        trace = led.__traceback__ if led is not caught.value else caught.tb.tb_next  # without this test's own locals
        shown = "".join(traceback.TracebackException(type(led), led, trace, capture_locals=True).format())
        assert "said by" not in shown
        assert TOKEN not in shown
        led = led.__cause__ or led.__context__


def test_one_unreadable_case_stops_the_load_or_is_reported(serve: Serve, client_of: ClientOf) -> None:
    """A case that is not what the contract says must be an error that names it, or be counted when asked to."""
    page = {"data": [case(1), case(2, items=7), case(3)], "hasMore": False}
    client = client_of(serve(always(body_json=page, headers={"X-Request-Id": "req-4"})))
    error = failure(client, SchemaError)
    assert (error.case_id, error.path) == ("c-2", "/items")
    assert error.__notes__ == [f"test set {REF[0]} {REF[1]}, page 1, request id req-4"]
    cases = ck.load_test_set(*REF, client=client, on_error="report")
    assert cases.cases["case_id"].tolist() == ["c-1", "c-3"]
    assert [bad.case_id for bad in cases.report.bad_cases] == ["c-2"]


ECHOES = {
    "plain": TOKEN,
    "header": f"Bearer {TOKEN}",
    "address": quote(TOKEN, safe="").replace("-", "%2D"),
    "base64": b64encode(TOKEN.encode()).decode(),
    "base64 of the header": b64encode(f"Bearer {TOKEN}".encode()).decode(),
}


@pytest.mark.parametrize("echo", ECHOES)
@pytest.mark.parametrize("status", [200, 302, 403, 503])
def test_a_token_that_comes_back_is_shown_nowhere(
    serve: Serve, client_of: ClientOf, caplog: pytest.LogCaptureFixture, echo: str, status: int
) -> None:
    """Whatever a server sends back of the token must stand in no message, attribute, traceback or log."""
    told = ECHOES[echo]
    envelope = {"error": {"code": told, "message": told, "requestId": told, "details": {told: [told, {"x": told}]}}}
    headers = {"X-Request-Id": told, "X-Echo": told, "Content-Type": told, "Location": f"http://x/{told}"}
    caplog.set_level(logging.DEBUG)
    client = client_of(serve(always(status=status, headers=headers, body_json=envelope)))
    with pytest.raises(CasekitError) as caught:
        ck.load_test_set(*REF, client=client)
    trace = caught.tb.tb_next  # this frame knows the token itself
    shown = traceback.TracebackException(caught.type, caught.value, trace, capture_locals=True).format()
    seen = "".join([*shown, repr(caught.value), repr(vars(caught.value)), *caplog.messages])
    assert told not in seen
    assert TOKEN not in seen
    assert any(record.name.startswith("httpcore") for record in caplog.records)


def test_a_request_id_that_holds_the_token_is_not_kept(serve: Serve, client_of: ClientOf) -> None:
    """The report goes into files: the ids in it must not hold the token."""
    cases = ck.load_test_set(*REF, client=client_of(serve(always(body_json=PAGE, headers={"X-Request-Id": TOKEN}))))
    assert cases.report.request_ids == ["[token]"]


def test_error_classes_used_here_are_those_of_the_table() -> None:
    """No class for an answer may be left out of the table above."""
    told = {AuthError, BadInputError, BusyError, ConflictError, GoneError, NotFoundError, ServerError, TooLargeError}
    assert {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ApiError)} == {
        ApiError,
        CursorError,  # of a later page alone
        *told,
    }
