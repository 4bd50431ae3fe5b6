from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from casekit.server import LocalServer
from casekit.server.store import Store

AGENT_CASES = "/v1/agents/acme.drafting/test-set/cases"
BODY = {"runId": "run-1", "answer": "right"}
KEY = {"Idempotency-Key": "key-1"}

ClientOf = Callable[[str | None], httpx.Client]


def code(answer: httpx.Response) -> str:
    """Return the code of a refusal."""
    return str(answer.json()["error"]["code"])


def count(api: httpx.Client) -> int:
    """Return how many cases the agent has."""
    return len(api.get(AGENT_CASES).json()["data"])


def same(first: httpx.Response, second: httpx.Response) -> bool:
    """Whether two answers are the same, byte for byte, in status, body and request id."""
    return (
        all(getattr(first, part) == getattr(second, part) for part in ("status_code", "content"))
        and first.headers["X-Request-Id"] == second.headers["X-Request-Id"]
    )


def test_a_repeat_gets_the_first_answer_and_writes_nothing(api: httpx.Client) -> None:
    """The same write with the same key is answered byte for byte as at first, and adds no second case."""
    answers = [api.post(AGENT_CASES, json=BODY, headers=KEY) for _ in range(3)]
    assert answers[0].status_code == 201
    assert all(same(answers[0], answer) for answer in answers)
    assert count(api) == 1


def test_a_repeated_retirement_is_no_conflict(api: httpx.Client) -> None:
    """A retirement repeated with its key is 200 again; with another key it is 409, and that answer is kept too."""
    path = f"{AGENT_CASES}/{api.post(AGENT_CASES, json=BODY).json()['id']}/retire"
    first, again = (api.post(path, json={"reason": "x"}, headers=KEY) for _ in range(2))
    assert first.status_code == 200
    assert same(first, again)
    other = {"Idempotency-Key": "key-2"}
    conflict, repeated = (api.post(path, json={"reason": "x"}, headers=other) for _ in range(2))
    assert (conflict.status_code, code(conflict)) == (409, "test-case-retired")
    assert same(conflict, repeated)


def test_a_refusal_that_ran_is_answered_again_though_the_state_has_changed(
    server: LocalServer, api: httpx.Client
) -> None:
    """A key keeps its 404 even when the run is there by then; a new key sees the run."""
    body = BODY | {"runId": "run-later"}
    first = api.post(AGENT_CASES, json=body, headers=KEY)
    assert (first.status_code, code(first)) == (404, "run-not-found")
    server.add_run("acme.drafting", "run-later")
    assert same(first, api.post(AGENT_CASES, json=body, headers=KEY))
    assert api.post(AGENT_CASES, json=body, headers={"Idempotency-Key": "key-2"}).status_code == 201


def test_a_body_that_broke_a_rule_leaves_its_key_free(api: httpx.Client) -> None:
    """A malformed body has not run: its key may still be used for the body that was meant."""
    assert api.post(AGENT_CASES, json={"runId": "run-1"}, headers=KEY).status_code == 400
    assert api.post(AGENT_CASES, json=BODY, headers=KEY).status_code == 201


def test_a_key_is_for_one_request(api: httpx.Client) -> None:
    """The same key with another body, route, case or a malformed body is 409, and nothing more is written."""
    case_id = api.post(AGENT_CASES, json=BODY, headers=KEY).json()["id"]
    others: list[tuple[str, Any]] = [
        (AGENT_CASES, BODY | {"answer": "wrong", "why": "x"}),
        (AGENT_CASES, {}),
        ("/v1/agents/acme.other/test-set/cases", BODY),
        (f"{AGENT_CASES}/{case_id}/retire", {"reason": "x"}),
    ]
    for path, body in others:
        answer = api.post(path, json=body, headers=KEY)
        assert (answer.status_code, code(answer)) == (409, "idempotency-key-body-mismatch")
    assert count(api) == 1


def test_a_key_belongs_to_its_caller(server: LocalServer, api: httpx.Client, client_of: ClientOf) -> None:
    """The same key from another caller is a request of its own; from another token of the caller it is the same."""
    first = api.post(AGENT_CASES, json=BODY, headers=KEY)
    colleague = client_of(server.add_token(caller_id="reviewer-1"))
    namesake = client_of(server.add_token(caller_id="local", kind="service"))
    second_token = client_of(server.add_token(caller_id="local"))
    assert colleague.post(AGENT_CASES, json=BODY, headers=KEY).json()["id"] != first.json()["id"]
    assert namesake.post(AGENT_CASES, json=BODY, headers=KEY).json()["id"] != first.json()["id"]
    assert same(first, second_token.post(AGENT_CASES, json=BODY, headers=KEY))
    assert count(api) == 3


@pytest.mark.parametrize("keys", [[""], ["a", "b"], ["a", "a"]])
def test_a_key_that_is_empty_or_not_alone_is_400(api: httpx.Client, keys: list[str]) -> None:
    """An empty key, or two of them, is refused."""
    answer = api.post(AGENT_CASES, json=BODY, headers=[("Idempotency-Key", key) for key in keys])
    assert (answer.status_code, code(answer)) == (400, "bad-input")


def test_while_the_first_runs_a_repeat_is_told_to_wait(server: LocalServer, api: httpx.Client) -> None:
    """A repeat during the first request is 409 in-flight with Retry-After, another body is a mismatch."""
    server.delay_next(30, method="POST")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(api.post, AGENT_CASES, json=BODY, headers=KEY)
        wait_until_claimed(server)
        repeat = api.post(AGENT_CASES, json=BODY, headers=KEY)
        other = api.post(AGENT_CASES, json=BODY | {"answer": "wrong", "why": "x"}, headers=KEY)
        server.stop()
        with pytest.raises(httpx.RemoteProtocolError):
            first.result()
    assert (repeat.status_code, code(repeat), repeat.headers["Retry-After"]) == (409, "idempotency-key-in-flight", "1")
    assert (other.status_code, code(other)) == (409, "idempotency-key-body-mismatch")


def wait_until_claimed(server: LocalServer) -> None:
    """Return when the delayed write waits: its fault is used up."""
    for _ in range(10_000):
        if not server._faults._waiting:
            return
        threading.Event().wait(0.001)
    raise AssertionError("the write never came")


def test_after_the_first_has_run_a_repeat_gets_its_answer(server: LocalServer, api: httpx.Client) -> None:
    """A repeat that was told to wait gets the first request's answer when that has run."""
    server.delay_next(0.3, method="POST")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(api.post, AGENT_CASES, json=BODY, headers=KEY)
        wait_until_claimed(server)
        assert code(api.post(AGENT_CASES, json=BODY, headers=KEY)) == "idempotency-key-in-flight"
        first = running.result()
    assert same(first, api.post(AGENT_CASES, json=BODY, headers=KEY))
    assert count(api) == 1


def test_threads_with_one_key_write_once(server: LocalServer, api: httpx.Client) -> None:
    """Whatever the order in which eight threads write with the same key, there is one case and one answer."""
    start = threading.Barrier(8)

    def write() -> httpx.Response:
        start.wait()
        while True:
            answer = api.post(AGENT_CASES, json=BODY, headers=KEY)
            if answer.status_code != 409:
                return answer

    server.delay_next(0.02, method="POST")
    with ThreadPoolExecutor(8) as pool:
        answers = [future.result() for future in [pool.submit(write) for _ in range(8)]]
    assert all(same(answers[0], answer) for answer in answers)
    assert count(api) == 1


def test_a_crash_between_write_and_answer_leaves_neither(
    server: LocalServer, api: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the answer cannot be kept the write is undone, and the key is free again."""
    real = Store._rows

    def fail(store: Store, query: str, *values: Any) -> list[tuple[Any, ...]]:
        if query.startswith("INSERT INTO answers"):
            raise MemoryError("no room for the answer")
        return real(store, query, *values)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "_rows", fail)
        assert api.post(AGENT_CASES, json=BODY, headers=KEY).status_code == 500
    assert count(api) == 0
    assert api.post(AGENT_CASES, json=BODY, headers=KEY).status_code == 201
    assert count(api) == 1


def test_a_locked_database_is_503_and_nothing_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process holds the file, a write is 503 with Retry-After; repeated later, it runs."""
    monkeypatch.setattr("casekit.server.store.BUSY_TIMEOUT", 0.05)
    file = tmp_path / "server.db"
    with LocalServer(db=file) as server:
        server.add_run("acme.drafting", "run-1")
        headers = {"Authorization": f"Bearer {server.token}"}
        with httpx.Client(base_url=server.url, headers=headers, trust_env=False, verify=False) as api:
            other = sqlite3.connect(file, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            keyed, plain = api.post(AGENT_CASES, json=BODY, headers=KEY), api.post(AGENT_CASES, json=BODY)
            assert count(api) == 0
            other.close()
            assert (keyed.status_code, code(keyed)) == (503, "idempotency-store-unavailable")
            assert (plain.status_code, code(plain)) == (503, "database-busy")
            assert keyed.headers["Retry-After"] == plain.headers["Retry-After"] == "1"
            assert api.post(AGENT_CASES, json=BODY, headers=KEY).status_code == 201
