from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from casekit.errors import ConfigError
from casekit.server import LocalServer

AGENT_CASES = "/v1/agents/acme.drafting/test-set/cases"
BODY = {"runId": "run-1", "answer": "right"}
KEY = {"Idempotency-Key": "key-1"}


def test_a_failure_has_the_status_code_and_wait_asked_for(server: LocalServer, api: httpx.Client) -> None:
    """Without arguments the next request is 503 database-busy with Retry-After 1, and the one after it is served."""
    server.fail_next()
    answer = api.get(AGENT_CASES)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "database-busy")
    assert (answer.headers["Retry-After"], answer.headers["Content-Type"]) == ("1", "application/json")
    assert answer.json()["error"]["requestId"] == answer.headers["X-Request-Id"]
    assert api.get(AGENT_CASES).status_code == 200


def test_a_failure_may_leave_the_wait_out(server: LocalServer, api: httpx.Client) -> None:
    """``retry_after=None`` sends no Retry-After, and 0 sends a zero."""
    server.fail_next(429, "rate-limited", retry_after=None)
    server.fail_next(500, "internal", retry_after=0)
    assert "Retry-After" not in api.get(AGENT_CASES).headers
    assert api.get(AGENT_CASES).headers["Retry-After"] == "0"


def test_a_failed_write_has_not_run_and_its_key_is_free(server: LocalServer, api: httpx.Client) -> None:
    """Nothing of a write that was made to fail is kept: the same key writes afterwards, once."""
    server.fail_next(503, "idempotency-store-unavailable", times=2, method="POST")
    assert api.get(AGENT_CASES).json()["data"] == []
    statuses = [api.post(AGENT_CASES, json=BODY, headers=KEY).status_code for _ in range(4)]
    assert statuses == [503, 503, 201, 201]
    assert len(api.get(AGENT_CASES).json()["data"]) == 1


def test_faults_come_in_the_order_they_were_asked_for(server: LocalServer, api: httpx.Client) -> None:
    """Several failures happen one after the other, each for its own method."""
    server.fail_next(500, "internal")
    server.fail_next(429, "rate-limited", method="POST")
    server.fail_next(503, "database-busy", method="GET")
    assert [api.get(AGENT_CASES).status_code for _ in range(3)] == [500, 503, 200]
    assert [api.post(AGENT_CASES, json=BODY).status_code for _ in range(2)] == [429, 201]


def test_a_lost_answer_was_written(server: LocalServer, api: httpx.Client) -> None:
    """The connection closes before any byte of the answer; the write stands, and its repeat gets the answer."""
    server.lose_next(method="POST")
    with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
        api.post(AGENT_CASES, json=BODY, headers=KEY)
    lost = server.requests[-1]
    assert (lost.method, lost.status, lost.idempotency_key) == ("POST", None, "key-1")
    cases = api.get(AGENT_CASES).json()["data"]
    assert len(cases) == 1
    assert api.post(AGENT_CASES, json=BODY, headers=KEY).json() == cases[0]


def test_a_refusal_can_be_lost_too(server: LocalServer, api: httpx.Client) -> None:
    """Whatever the answer would have been, a request whose answer is lost gets none."""
    server.lose_next()
    with pytest.raises(httpx.RemoteProtocolError):
        api.post(AGENT_CASES, json={})
    assert api.post(AGENT_CASES, json={}).status_code == 400


def test_losing_one_answer_leaves_other_connections_alone(server: LocalServer, api: httpx.Client) -> None:
    """Only the connection of the lost request is cut: a request on another one is answered."""
    server.delay_next(0.1, method="GET")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(api.get, AGENT_CASES)
        while server._faults._waiting:
            threading.Event().wait(0.001)
        server.lose_next(method="POST")
        with pytest.raises(httpx.RemoteProtocolError):
            api.post(AGENT_CASES, json=BODY)
        assert waiting.result().status_code == 200


def test_a_failing_request_loses_nothing(server: LocalServer, api: httpx.Client) -> None:
    """A request that fails leaves the losing of an answer for the next one."""
    server.lose_next()
    server.fail_next()
    assert api.get(AGENT_CASES).status_code == 503
    with pytest.raises(httpx.RemoteProtocolError):
        api.get(AGENT_CASES)


def test_a_delay_lets_the_client_give_up_first(server: LocalServer, api: httpx.Client) -> None:
    """A client that does not wait gets no answer, while the write runs all the same."""
    server.delay_next(0.2, method="POST")
    with pytest.raises(httpx.ReadTimeout):
        api.post(AGENT_CASES, json=BODY, headers=KEY, timeout=0.05)
    while not server.requests:
        threading.Event().wait(0.005)
    assert len(api.get(AGENT_CASES).json()["data"]) == 1


@pytest.mark.parametrize(
    "wrong",
    [{"status": 399}, {"status": 600}, {"times": 0}, {"times": -1}],
)
def test_a_failure_that_cannot_be_is_refused(server: LocalServer, wrong: dict[str, Any]) -> None:
    """A failure needs the status of an error, and happens at least once."""
    with pytest.raises(ConfigError):
        server.fail_next(**wrong)


@pytest.mark.parametrize("seconds", [-0.1, float("nan"), float("inf")])
def test_a_delay_that_cannot_be_is_refused(server: LocalServer, seconds: float) -> None:
    """A delay is a finite number of seconds, 0 or more."""
    with pytest.raises(ConfigError):
        server.delay_next(seconds)
