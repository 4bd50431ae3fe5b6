"""Writes: one idempotency key for each, whatever happens on the way."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from client.conftest import Serve
from client.pages import TOKEN, Spec, agent_case, always, refusal

import casekit as ck
from casekit.errors import (
    BusyError,
    ConfigError,
    ConflictError,
    NotFoundError,
    ProtocolError,
    ServerError,
    TransportError,
)
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
        ({"status": 204}, "an empty body"),
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
    from urllib.parse import unquote

    server = serve(DONE)
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
