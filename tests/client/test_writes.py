"""Writes: one idempotency key for each, whatever happens on the way."""

from __future__ import annotations

import json
import traceback
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pytest
from client.conftest import Serve
from client.pages import TOKEN, Spec, agent_case, always, refusal

import casekit as ck
from casekit.errors import (
    BusyError,
    ConfigError,
    ConflictError,
    LimitError,
    NotFoundError,
    ProtocolError,
    ServerError,
    TransportError,
)
from casekit.http import connection
from casekit.server import LocalServer

ClientOf = Callable[..., ck.Client]
AGENT = "acme.drafting"
RETIRED = agent_case(
    retired={"reason": "gone", "by": {"kind": "user", "id": "reviewer-1"}, "at": "2026-04-01T09:00:00Z"}
)
DONE = always(body_json=RETIRED)


def retire(client: ck.Client) -> Any:
    """Retire a case."""
    return client.retire_case(AGENT, "case-1", reason="gone")


def test_a_retirement_is_sent_once_with_a_key(serve: Serve, client_of: ClientOf) -> None:
    """The request must be the documented one, and the answer must be the case, retired."""
    server = serve(DONE)
    case = retire(client_of(server))
    [request] = server.requests
    assert (request.method, request.target) == ("POST", f"/v1/agents/{AGENT}/test-set/cases/case-1/retire")
    assert json.loads(request.body) == {"reason": "gone"}
    assert request.header("content-type") == ["application/json"]
    assert len(request.header("idempotency-key")[0]) == 36
    assert case.retired_at == datetime(2026, 4, 1, 9, tzinfo=UTC)


def test_an_added_case_is_sent_once_with_a_key(serve: Serve, client_of: ClientOf) -> None:
    """The request must be the documented one, with what was given and nothing else."""
    server = serve(always(status=201, body_json=agent_case()))
    call = {"tool": "crm.lookup", "args": {"id": 7}}
    case = client_of(server).add_case(AGENT, "run-1", decisions="wrong", should_call=[call], items=None)
    [request] = server.requests
    assert (request.method, request.target) == ("POST", f"/v1/agents/{AGENT}/test-set/cases")
    assert json.loads(request.body) == {"runId": "run-1", "decisions": "wrong", "shouldCall": [call]}
    assert case.id == "case-1"


@pytest.mark.parametrize(
    "lost",
    [
        refusal(503, "idempotency-store-unavailable", {"Retry-After": "0"}),
        refusal(503, "database-busy"),
        refusal(409, "idempotency-key-in-flight", {"Retry-After": "0.02"}),
        refusal(429, "slow-down"),
        {"status": 502, "body_text": "<html>"},
        {"fault": "close-before-response"},
        {"fault": "reset-before-response"},
        {"fault": "hang"},
        {"fault": "close-after-headers", "body_json": RETIRED},
        {"fault": "close-mid-body", "after_bytes": 30, "body_json": RETIRED},
        {"fault": "close-mid-body", "after_bytes": 30, "body_json": RETIRED, "framing": "close"},
        {"body_json": RETIRED, "encoding": "gzip-truncated"},
    ],
)
def test_a_repeat_has_the_same_key_and_body(serve: Serve, client_of: ClientOf, lost: Spec) -> None:
    """A write whose answer was lost or put off must be repeated as the same write."""
    server = serve(lost, lost, DONE)
    assert retire(client_of(server, timeout=0.2)).id == "case-1"
    assert len(server.requests) == 3
    assert len({(request.body, *request.header("idempotency-key")) for request in server.requests}) == 1


def test_each_write_has_a_key_of_its_own(serve: Serve, client_of: ClientOf) -> None:
    """Two writes that look alike must not be taken for one."""
    server = serve(DONE)
    client = client_of(server)
    retire(client)
    retire(client)
    first, second = (request.header("idempotency-key") for request in server.requests)
    assert first != second


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "test-case-not-found", NotFoundError),
        (409, "test-case-retired", ConflictError),
        (409, "run-not-finished", ConflictError),
        (409, "idempotency-key-body-mismatch", ConflictError),
        (409, "idempotency-key-replay-withheld", ConflictError),
        (500, "internal", ServerError),
    ],
)
def test_a_refused_write_is_not_repeated(
    serve: Serve, client_of: ClientOf, status: int, code: str, kind: type[Any]
) -> None:
    """A refusal must be told after one request, with the case and the server's code."""
    server = serve(always(**refusal(status, code)))
    with pytest.raises(kind) as caught:
        retire(client_of(server))
    assert (caught.value.code, len(server.requests)) == (code, 1)
    assert "case case-1 of agent acme.drafting" in str(caught.value)


def test_a_write_that_stays_in_flight_ends_as_busy(serve: Serve, client_of: ClientOf) -> None:
    """A key that never comes free must end in an error that says so."""
    server = serve(always(**refusal(409, "idempotency-key-in-flight", {"Retry-After": "0"})))
    with pytest.raises(BusyError) as caught:
        retire(client_of(server))
    assert (caught.value.status, caught.value.code) == (409, "idempotency-key-in-flight")
    assert caught.value.attempts == len(server.requests) == 4


def test_a_write_without_an_answer_says_that_it_may_have_been_done(serve: Serve, client_of: ClientOf) -> None:
    """The same call has the same key while the outcome is open: the message must say to make it again."""
    with pytest.raises(TransportError, match=r"may have been done: make the same call again"):
        retire(client_of(serve(always(fault="close-before-response"))))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"body_text": ""}, "an empty body"),
        ({"status": 200, "body_text": " "}, "an empty body"),
        ({"body_text": "<html>"}, "markup"),
        ({"body_text": "[]"}, "its answer is not a case"),
        ({"body_json": {"id": "case-1"}}, "its answer is not a case: kind: "),
        ({"body_json": {**RETIRED, "addedAt": "soon"}}, "its answer is not a case: addedAt: "),
    ],
)
def test_an_answer_that_is_no_case_is_an_error(serve: Serve, client_of: ClientOf, answer: Spec, words: str) -> None:
    """A write whose answer cannot be read must be told as such, with the field, and not be repeated."""
    server = serve(always(**answer, headers={"X-Request-Id": "req-5"}))
    with pytest.raises(ProtocolError) as caught:
        retire(client_of(server))
    assert words in str(caught.value)
    assert caught.value.request_id == "req-5"
    assert len(server.requests) == 1


@pytest.mark.parametrize("reason", ["", "x" * 4001, None, 7])
def test_a_wrong_write_is_not_sent(serve: Serve, client_of: ClientOf, reason: Any) -> None:
    """What breaks a documented rule must not reach the server."""
    server = serve(DONE)
    with pytest.raises(ConfigError, match="reason"):
        client_of(server).retire_case(AGENT, "case-1", reason=reason)
    assert server.requests == []


@pytest.mark.parametrize("case_id", ["a/b", "..", "", "a b?c#d%"])
def test_an_id_is_encoded_or_refused(serve: Serve, client_of: ClientOf, case_id: str) -> None:
    """A case's id must be one segment of the path, and never lead to another."""
    server = serve(always(body_json={**RETIRED, "id": case_id}))
    client = client_of(server)
    if case_id in ("..", ""):
        with pytest.raises(ConfigError, match="case id"):
            client.retire_case(AGENT, case_id, reason="gone")
        return
    client.retire_case(AGENT, case_id, reason="gone")
    parts = server.requests[0].path.split("/")
    assert [unquote(part) for part in parts[5:]] == ["cases", case_id, "retire"]


def test_lost_answers_of_a_real_server_make_one_case() -> None:
    """Against a server with a database, a write must be done once however often its answer is lost."""
    with LocalServer() as server:
        server.add_run(AGENT, "run-1", version="1.4.0")
        with ck.Client(server.url, token=server.token, retry=ck.Retry(first=0.01, most=0.02)) as client:
            server.lose_next(2)
            added = client.add_case(AGENT, "run-1", answer="right")
            assert ck.load_agent_cases(AGENT, client=client).cases["case_id"].tolist() == [added.id]
            server.lose_next(2)
            assert client.retire_case(AGENT, added.id, reason="gone").retired_at is not None
            with pytest.raises(ConflictError):
                client.retire_case(AGENT, added.id, reason="gone")
    assert server.token != TOKEN


OTHERS = {
    "not retired": agent_case(),
    "retired is null": agent_case(retired=None),
    "another case": {**RETIRED, "id": "case-2"},
    "another case, not retired": agent_case("case-2"),
    "the id in capitals": {**RETIRED, "id": "CASE-1"},
}


@pytest.mark.parametrize("name", OTHERS)
def test_an_answer_that_is_another_case_is_no_success(serve: Serve, client_of: ClientOf, name: str) -> None:
    """A retirement is told as done only by the case itself, retired; else the same call again is the same write."""
    server = serve({"body_json": OTHERS[name], "headers": {"X-Request-Id": "req-6"}}, DONE)
    client = client_of(server)
    with pytest.raises(ProtocolError) as caught:
        retire(client)
    told = (
        "another case, 'case-2'" if "case-2" in str(OTHERS[name]) else "'CASE-1'" if "capitals" in name else "but not"
    )
    assert told in str(caught.value)
    assert "may have been done: make the same call again" in str(caught.value)
    assert (caught.value.status, caught.value.request_id) == (200, "req-6")
    assert client.retire_case(AGENT, "case-1", reason="gone", dry_run=True).repeats
    assert retire(client).retired_at is not None
    assert len({(request.body, *request.header("idempotency-key")) for request in server.requests}) == 1
    assert not client.retire_case(AGENT, "case-1", reason="gone", dry_run=True).repeats


def test_an_added_case_of_another_run_is_no_success(serve: Serve, client_of: ClientOf) -> None:
    """The answer to an addition must be of the run that was asked for, and its name must be shown safely."""
    wrong = {"status": 201, "body_json": agent_case(runId=f"run-9\x1b {TOKEN}")}
    server = serve(wrong, always(status=201, body_json=agent_case()))
    client = client_of(server)
    with pytest.raises(ProtocolError, match=r"another run, .*may have been done: make the same call again") as caught:
        client.add_case(AGENT, "run-1", decisions="right")
    assert "\x1b" not in str(caught.value)
    assert TOKEN not in str(caught.value)
    assert client.add_case(AGENT, "run-1", decisions="right").run_id == "run-1"
    first, second = (request.header("idempotency-key") for request in server.requests)
    assert first == second


def test_no_word_of_a_case_stands_in_the_traceback_of_a_write(serve: Serve, client_of: ClientOf) -> None:
    """A traceback with its locals must hold nothing of an answer that is another case, or none."""
    said = {"answer": {"verdict": "wrong", "why": "said by a person"}}
    for body in ({**RETIRED, "id": "case-2", "expect": said}, {**RETIRED, "addedAt": None, "expect": said}):
        with pytest.raises(ProtocolError) as caught:
            retire(client_of(serve(always(body_json=body))))
        trace = caught.tb.tb_next  # without this test's own locals
        shown = traceback.TracebackException(caught.type, caught.value, trace, capture_locals=True).format()
        assert "said by" not in "".join(shown)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize("member", ["expect", "new"])
def test_a_number_that_json_does_not_have_is_refused(
    serve: Serve, client_of: ClientOf, number: str, member: str
) -> None:
    """In a write's answer as in a list, and wherever it stands; the write may have been done."""
    text = json.dumps({**RETIRED, member: {"x": "?"}}).replace('"?"', number)
    with pytest.raises(ProtocolError, match=rf"{number} is no number of JSON.*make the same call again"):
        retire(client_of(serve(always(body_text=text))))


@pytest.mark.parametrize("half", [b"\\ud800", b"\xed\xa0\x80"])
def test_half_a_character_hides_no_write_that_was_done(serve: Serve, client_of: ClientOf, half: bytes) -> None:
    """It must become U+FFFD, as in a list, and the answer count."""
    body = json.dumps({**RETIRED, "madeOn": "?", "new": ["?"]}).encode().replace(b"?", half)
    case = retire(client_of(serve(always(body_b64=b64encode(body).decode()))))
    assert (case.made_on, case.model_extra["new"]) == ("\ufffd", ["\ufffd"])


@pytest.mark.parametrize("status", [200, 201, 202])
def test_an_addition_is_read_from_any_good_status(serve: Serve, client_of: ClientOf, status: int) -> None:
    """No status is documented for an addition: what tells that it was done is the case."""
    server = serve(always(status=status, body_json=agent_case()))
    assert client_of(server).add_case(AGENT, "run-1", answer="right").run_id == "run-1"


@pytest.mark.parametrize("status", [201, 202, 203, 204, 206, 226, 304])
def test_a_retirement_with_another_status_is_not_known_to_be_done(
    serve: Serve, client_of: ClientOf, status: int
) -> None:
    """Only the documented status tells that it was done; the error must name the other one, and the way out."""
    server = serve({"status": status, "body_json": RETIRED}, DONE)
    client = client_of(server)
    with pytest.raises(ProtocolError, match=rf"make the same call again.*\(status {status}\)") as caught:
        retire(client)
    assert (caught.value.status, len(server.requests)) == (status, 1)
    assert retire(client).retired_at is not None
    first, second = (request.header("idempotency-key") for request in server.requests)
    assert first == second


@pytest.mark.parametrize(
    "spoilt",
    [
        b'"message":"\\ud800"',
        b'"message":"\xe9"',
        b'"message":"two\nlines"',
        b'"details":' + b'{"a":' * 300 + b"1" + b"}" * 300,
        b'"details":{"n":' + b"9" * 5000 + b"}",
    ],
)
def test_a_write_in_flight_is_waited_for_though_its_error_is_spoilt(
    serve: Serve, client_of: ClientOf, spoilt: bytes
) -> None:
    """Whatever stands beside the code, the same write must be sent again, under the same key."""
    body = b'{"error":{' + spoilt + b',"code":"idempotency-key-in-flight","requestId":"req-7"}}'
    busy = {"status": 409, "headers": {"Retry-After": "0"}, "body_b64": b64encode(body).decode()}
    server = serve(busy, DONE)
    assert retire(client_of(server)).id == "case-1"
    assert len({tuple(request.header("idempotency-key")) for request in server.requests}) == 1
    with pytest.raises(BusyError) as caught:
        retire(client_of(serve(always(**busy))))
    assert (caught.value.code, caught.value.request_id) == ("idempotency-key-in-flight", "req-7")


@pytest.mark.parametrize(
    "answer",
    [{"body_text": "<html>"}, {"body_text": ""}, {"headers": {"Content-Encoding": "br"}, "body_json": RETIRED}],
)
def test_every_answer_of_no_use_says_how_to_find_out(serve: Serve, client_of: ClientOf, answer: Spec) -> None:
    """Of a write nobody knows then whether it was done: the error must say so, with the status."""
    with pytest.raises(ProtocolError, match=r"may have been done: make the same call again.*\(status 200\)"):
        retire(client_of(serve(always(**answer))))


@pytest.mark.parametrize("code", [b"idempotency-key-in-fl\xefght", b"idempotency-key-in-flight\\ud800"])
def test_a_spoilt_code_settles_no_write(serve: Serve, client_of: ClientOf, code: bytes) -> None:
    """A code that is not whole may be that of a write under way: the next call must be the same write."""
    body = b'{"error":{"code":"' + code + b'","message":"m","requestId":"req-7"}}'
    server = serve({"status": 409, "body_b64": b64encode(body).decode()}, DONE)
    client = client_of(server)
    with pytest.raises(ConflictError) as caught:
        retire(client)
    assert (caught.value.code, caught.value.request_id) == (None, "req-7")
    assert retire(client).id == "case-1"
    first, second = (request.header("idempotency-key") for request in server.requests)
    assert first == second


def test_an_answer_too_large_leaves_the_outcome_open(
    serve: Serve, client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write whose answer is not read must say how to find out; a list whose page is not read only that."""
    monkeypatch.setattr(connection, "BODY_BYTES_MAX", 100)
    client = client_of(serve(DONE))
    with pytest.raises(LimitError, match=r"more than \d+ MiB; the write may have been done: make the same call again"):
        retire(client)
    assert client.retire_case(AGENT, "case-1", reason="gone", dry_run=True).repeats
    with pytest.raises(LimitError, match="casekit reads none so large"):
        ck.load_agent_cases(AGENT, client=client)
