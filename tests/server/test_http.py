from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator

import httpx
import pytest

from casekit.server import LocalServer
from casekit.server.store import Store

CASES = "/v1/test-sets/acme.set/versions/1.0.0/cases"
AGENT_CASES = "/v1/agents/acme.drafting/test-set/cases"
RETIRE = f"{AGENT_CASES}/case-1/retire"

ClientOf = Callable[[str | None], httpx.Client]


def code(answer: httpx.Response) -> str:
    """Check the envelope of a refusal, and return its code."""
    assert answer.headers["Content-Type"] == "application/json"
    error = answer.json()["error"]
    assert set(error) - {"details"} == {"code", "message", "requestId"}
    assert error["requestId"] == answer.headers["X-Request-Id"]
    assert error["message"]
    return str(error["code"])


def raw_answer(server: LocalServer, request: bytes) -> bytes:
    """Send bytes, and return all that comes back until the server closes."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(request)
        received = b""
        while chunk := connection.recv(65_536):
            received += chunk
    return received


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer nobody", "Basic {token}", "{token}", "Bearer {token}x", "Bearer {token} {token}"],
)
@pytest.mark.parametrize(
    ("method", "path"), [("GET", CASES), ("GET", AGENT_CASES), ("POST", AGENT_CASES), ("POST", RETIRE)]
)
def test_a_missing_malformed_or_unknown_token_is_401(
    server: LocalServer, client_of: ClientOf, method: str, path: str, authorization: str | None
) -> None:
    """Every route refuses a request whose bearer token is missing, malformed or unknown."""
    headers = {} if authorization is None else {"Authorization": authorization.format(token=server.token)}
    answer = client_of(None).request(method, path, headers=headers)
    assert (answer.status_code, code(answer)) == (401, "unauthorized")
    assert server.requests[-1].caller_id is None


def test_two_tokens_in_one_request_are_401(server: LocalServer, client_of: ClientOf) -> None:
    """A request with two Authorization headers is malformed, even when both are right."""
    header = ("Authorization", f"Bearer {server.token}")
    assert client_of(None).get(CASES, headers=[header, header]).status_code == 401


def test_the_scheme_is_known_in_any_case(server: LocalServer, client_of: ClientOf) -> None:
    """The scheme ``bearer`` counts in any mixture of case, as HTTP says."""
    answer = client_of(None).get(AGENT_CASES, headers={"Authorization": f"bEARER {server.token}"})
    assert answer.status_code == 200


@pytest.mark.parametrize("path", [AGENT_CASES, RETIRE])
def test_a_token_that_may_not_write_is_403(server: LocalServer, client_of: ClientOf, path: str) -> None:
    """A write with a token for reading is refused before its body is looked at."""
    reader = client_of(server.add_token(caller_id="reviewer-1", can_write=False))
    answer = reader.post(path, content=b"no json")
    assert (answer.status_code, code(answer)) == (403, "permission-denied")
    assert reader.get(AGENT_CASES).status_code == 200


@pytest.mark.parametrize(
    "path",
    ["/", "/v1", CASES + "/", "/v1/test-sets//versions/1.0.0/cases", RETIRE + "/again", "/v1/test-sets/a/b/cases"],
)
def test_an_unknown_route_is_404_in_the_envelope(api: httpx.Client, path: str) -> None:
    """A path that is no route, be it by a slash, is 404 and no redirect."""
    answer = api.get(path)
    assert (answer.status_code, code(answer)) == (404, "not-found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", CASES, "GET, HEAD"),
        ("DELETE", AGENT_CASES, "GET, HEAD, POST"),
        ("GET", RETIRE, "POST"),
        ("TRACE", RETIRE, "POST"),
    ],
)
def test_an_unknown_method_is_405_and_names_the_known(api: httpx.Client, method: str, path: str, allowed: str) -> None:
    """A method that a route does not have is 405 in the envelope, with Allow."""
    answer = api.request(method, path)
    assert (answer.status_code, code(answer), answer.headers["Allow"]) == (405, "method-not-allowed", allowed)


def test_head_is_get_without_the_body(server: LocalServer, api: httpx.Client) -> None:
    """HEAD has the status and length of GET, and no body."""
    got, head = api.get(AGENT_CASES), api.head(AGENT_CASES)
    assert (head.status_code, head.content, head.headers["Content-Length"]) == (200, b"", got.headers["Content-Length"])
    assert [record.method for record in server.requests] == ["GET", "HEAD"]


@pytest.mark.parametrize("size", [1_048_577, 3_000_000])
@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_over_the_limit_is_413_and_says_the_limit(api: httpx.Client, size: int, chunked: bool) -> None:
    """A body over 1 MiB is refused with the limit in its details, and the connection stays usable."""

    def chunks() -> Iterator[bytes]:
        yield b"x" * size

    headers = {"Content-Type": "application/json"}
    answer = api.post(AGENT_CASES, content=chunks() if chunked else b"x" * size, headers=headers)
    assert (answer.status_code, code(answer)) == (413, "request-too-large")
    assert answer.json()["error"]["details"] == {"maxBytes": 1_048_576}
    assert api.get(AGENT_CASES).status_code == 200


def test_a_body_at_the_limit_is_read(api: httpx.Client) -> None:
    """A body of exactly 1 MiB is read as any other."""
    body = b'{"runId":"run-1","answer":"right"' + b" " * (1_048_576 - 34) + b"}"
    assert len(body) == 1_048_576
    assert api.post(AGENT_CASES, content=body, headers={"Content-Type": "application/json"}).status_code == 201


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx"])
@pytest.mark.parametrize("path", [AGENT_CASES, RETIRE])
def test_a_write_that_does_not_say_json_is_400(api: httpx.Client, path: str, content_type: str | None) -> None:
    """A write whose Content-Type is not JSON is refused, even if its body is."""
    headers = {} if content_type is None else {"Content-Type": content_type}
    answer = api.post(path, content=b'{"runId":"run-1","answer":"right"}', headers=headers)
    assert (answer.status_code, code(answer)) == (400, "bad-input")


def test_a_charset_beside_json_is_fine(api: httpx.Client) -> None:
    """Parameters of the Content-Type change nothing."""
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    answer = api.post(AGENT_CASES, content=b'{"runId":"run-1","answer":"right"}', headers=headers)
    assert answer.status_code == 201


@pytest.mark.parametrize("segment", ["%FF", "%C3%28"])
def test_a_path_that_is_no_utf8_is_400(api: httpx.Client, segment: str) -> None:
    """An id in the path that does not decode is refused, and not guessed at."""
    answer = api.get(f"/v1/test-sets/{segment}/versions/1.0.0/cases")
    assert (answer.status_code, code(answer)) == (400, "bad-input")


@pytest.mark.parametrize("test_set_id", ["a/b", "a b", "ü/✓", "a%2Fb", "..", "a?b#c", "x" * 2_000])
def test_an_id_of_any_characters_is_found(server: LocalServer, api: httpx.Client, test_set_id: str) -> None:
    """An id reaches the route whole, its encoded slash and percent sign included."""
    server.add_test_set(test_set_id, "1.0.0", [{"caseId": "case-1"}])
    encoded = "".join(f"%{byte:02X}" for byte in test_set_id.encode())
    answer = api.get(f"/v1/test-sets/{encoded}/versions/1.0.0/cases")
    assert [case["caseId"] for case in answer.json()["data"]] == ["case-1"]


def test_each_request_has_an_id_of_its_own(server: LocalServer, api: httpx.Client) -> None:
    """Every answer, good or bad, carries an X-Request-Id, and no two are the same."""
    answers = [api.get(AGENT_CASES), api.get(AGENT_CASES), api.get(CASES), api.get("/"), api.put(AGENT_CASES)]
    ids = [answer.headers["X-Request-Id"] for answer in answers]
    assert len(set(ids)) == 5
    assert [record.request_id for record in server.requests] == ids


@pytest.mark.parametrize(
    "request_bytes",
    [b"hello\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nIdempotency-Key: \x00\r\n\r\n"],
)
def test_what_is_no_http_gets_the_envelope_too(server: LocalServer, request_bytes: bytes) -> None:
    """A request that cannot be read as HTTP is 400 in the envelope, with an id."""
    head, _, body = raw_answer(server, request_bytes).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    assert b"content-type: application/json" in head
    headers = [(name, value) for name, _, value in (line.partition(b": ") for line in head.split(b"\r\n")[1:])]
    answer = httpx.Response(400, headers=headers, content=body)
    assert code(answer) == "bad-input"


def test_a_broken_chunk_gets_one_answer(server: LocalServer) -> None:
    """A body whose chunks are malformed is answered once, and the connection is closed."""
    head = f"POST {AGENT_CASES} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {server.token}\r\n"
    request = f"{head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nnot a size\r\n"
    assert raw_answer(server, request.encode()).count(b"HTTP/1.1 ") == 1


def test_garbage_after_an_answer_gets_no_second_one(server: LocalServer) -> None:
    """When the body goes on as garbage after its refusal, the connection is closed without another answer."""
    head = f"POST {AGENT_CASES} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {server.token}\r\n"
    chunks = b"200000\r\n" + b"x" * 0x200000 + b"\r\nnot a size\r\n"
    request = f"{head}Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n".encode() + chunks
    received = raw_answer(server, request)
    assert received.startswith(b"HTTP/1.1 413 ")
    assert received.count(b"HTTP/1.1 ") == 1


def test_a_crash_is_500_and_its_cause_is_logged(
    api: httpx.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault of the server itself is 500 in the envelope; the log has the cause and the request's id."""

    def fail(*_: object) -> bool:
        raise ZeroDivisionError("the cause")

    monkeypatch.setattr(Store, "knows_agent", fail)
    with caplog.at_level(logging.ERROR, logger="casekit.server"):
        answer = api.get(AGENT_CASES)
    assert (answer.status_code, code(answer)) == (500, "internal")
    assert "the cause" not in answer.text
    assert answer.headers["X-Request-Id"] in caplog.text
    assert "ZeroDivisionError: the cause" in caplog.text


def test_records_tell_what_was_asked_and_never_the_token(server: LocalServer, api: httpx.Client) -> None:
    """A record has method, path, query, status, key and caller of a request, and no trace of the token."""
    api.get("/v1/agents/a%2Fb/test-set/cases?limit=7&cursor=%2B")
    api.post(RETIRE, json={"reason": "x"}, headers={"Idempotency-Key": "key-1"})
    first, second = server.requests
    assert (first.method, first.path, first.query) == ("GET", "/v1/agents/a%2Fb/test-set/cases", "limit=7&cursor=%2B")
    assert (first.status, first.idempotency_key, first.caller_id) == (404, None, "local")
    assert (second.method, second.path, second.query) == ("POST", RETIRE, "")
    assert (second.status, second.idempotency_key, second.caller_id) == (404, "key-1", "local")
    assert server.token not in repr(server.requests) + repr(server)
