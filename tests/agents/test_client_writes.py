from __future__ import annotations

import json
import pickle
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import casekit as ck
from casekit.documents import AgentCase
from casekit.errors import (
    ApiError,
    AuthError,
    BusyError,
    ConfigError,
    ConflictError,
    JournalError,
    NotFoundError,
    ProtocolError,
    ServerError,
    TransportError,
)
from casekit.http.connection import Answer, Connection, Lost
from casekit.journal import Journal

AGENT = "acme.drafting"
REASON = "the tool was removed"
QUICK = ck.Retry(budget=10.0, attempts=3, first=0.001, most=0.002)


def writes(server: ck.LocalServer) -> list[tuple[str | None, int | None]]:
    """Return key and status of each write that the server got."""
    return [(r.idempotency_key, r.status) for r in server.requests if r.method == "POST"]


def pending(state: Path) -> list[str]:
    """Return the keys in the journal."""
    if not (state / "writes.sqlite3").exists():
        return []
    db = sqlite3.connect(state / "writes.sqlite3")
    keys = [key for (key,) in db.execute("SELECT key FROM writes")]
    db.close()
    return keys


def another(server: ck.LocalServer) -> ck.Client:
    """Return a client as the process after a crash would make it."""
    return ck.Client(server.url, token=server.token, retry=QUICK)


def live_ids(client: ck.Client) -> list[str]:
    """Return the ids that the agent's test set lists."""
    return list(ck.load_agent_cases(AGENT, client=client, progress=False).cases["case_id"])


# ---------------------------------------------------------------- dry run


def test_a_dry_run_sends_nothing_and_keeps_nothing(server: ck.LocalServer, client: ck.Client, state: Path) -> None:
    """It says where which body would go, under which key, and shows no token."""
    plan = client.retire_case(AGENT, "cor/1", reason=REASON, dry_run=True)
    assert server.requests == []
    assert not state.exists()
    assert (plan.method, plan.url) == ("POST", f"{server.url}/v1/agents/acme.drafting/test-set/cases/cor%2F1/retire")
    assert json.loads(plan.body) == {"reason": REASON}
    assert plan.headers["Idempotency-Key"] == plan.key
    assert plan.headers["Content-Type"] == "application/json"
    assert "Authorization" not in plan.headers
    assert server.token not in f"{plan!r} {plan} {vars(plan)}"
    assert not plan.repeats


def test_the_write_goes_out_as_its_dry_run_said(server: ck.LocalServer, client: ck.Client) -> None:
    """Under the key that was shown, once; the next write of the same has another."""
    case: dict[str, Any] = {"decisions": "wrong", "should_call": [{"tool": "t", "args": {"n": None}}]}
    first, again = (client.add_case(AGENT, "run-1", **case, dry_run=True) for _ in range(2))
    assert first == again
    client.add_case(AGENT, "run-1", **case)
    client.add_case(AGENT, "run-1", **case)
    keys = [key for key, _ in writes(server)]
    assert keys[0] == first.key
    assert keys[1] != first.key


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_write_that_breaks_a_rule_is_refused_before_anything_is_kept(
    server: ck.LocalServer, client: ck.Client, state: Path, dry_run: bool
) -> None:
    """The message names the field; a dry run finds it too."""
    chosen: Any = {"dry_run": dry_run}
    with pytest.raises(ConfigError, match=r"should_call or must_not_call; nothing was sent"):
        client.add_case(AGENT, "run-1", decisions="wrong", **chosen)
    with pytest.raises(ConfigError, match=r"reason: .* at least 1 character"):
        client.retire_case(AGENT, "cor-1", reason="", **chosen)
    assert writes(server) == []
    assert pending(state) == []


# ---------------------------------------------------------------- the journal


def test_a_write_is_in_the_journal_before_it_is_sent(
    server: ck.LocalServer, client: ck.Client, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key is on disk when the request leaves, and gone when the answer is here."""
    seen = []
    send = Connection.send

    def spy(self: Any, request: Any, *more: Any, **named: Any) -> Any:
        seen.append((request.key, pending(state)))
        return send(self, request, *more, **named)

    monkeypatch.setattr(Connection, "send", spy)
    client.retire_case(AGENT, "cor-1", reason=REASON)
    assert [keys for _, keys in seen] == [[seen[0][0]]]
    assert pending(state) == []


def test_a_lost_answer_is_asked_for_again_under_the_same_key(server: ck.LocalServer, client: ck.Client) -> None:
    """The write is done once, and its case comes back."""
    server.lose_next(2, method="POST")
    added = client.add_case(AGENT, "run-1", decisions="right")
    keys = [key for key, _ in writes(server)]
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert live_ids(client).count(added.id) == 1
    assert len(live_ids(client)) == 4


def test_the_same_call_after_a_crash_repeats_the_write(server: ck.LocalServer, client: ck.Client, state: Path) -> None:
    """All answers are lost and the process ends; the cell is run again, and nothing is done twice."""
    server.lose_next(4, method="POST")
    with pytest.raises(TransportError, match="make the same call again, which finds out and does nothing twice"):
        client.add_case(AGENT, "run-1", decisions="right")
    assert len(pending(state)) == 1
    with another(server) as after:
        plan = after.add_case(AGENT, "run-1", decisions="right", dry_run=True)
        assert plan.repeats
        assert plan.key == pending(state)[0]
        added = after.add_case(AGENT, "run-1", decisions="right")
    assert {key for key, _ in writes(server)} == {plan.key}
    assert live_ids(client)[0] == added.id
    assert len(live_ids(client)) == 4
    assert pending(state) == []


def test_a_crash_before_anything_is_sent_loses_nothing(
    server: ck.LocalServer, client: ck.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key without a request is simply used by the next call."""

    def die(self: Any, *_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "send", die)
        with pytest.raises(KeyboardInterrupt):
            client.retire_case(AGENT, "cor-1", reason=REASON)
    assert writes(server) == []
    with another(server) as after:
        assert after.retire_case(AGENT, "cor-1", reason=REASON).retired is not None


def test_a_crash_between_the_answer_and_the_journal_does_nothing_twice(
    server: ck.LocalServer, client: ck.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key stands in the journal still, and the server gives the first answer again."""

    def die(self: Journal, key: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "settle", die)
        with pytest.raises(KeyboardInterrupt):
            client.add_case(AGENT, "run-1", decisions="right")
    with another(server) as after:
        added = after.add_case(AGENT, "run-1", decisions="right")
    assert live_ids(client)[0] == added.id
    assert len(live_ids(client)) == 4


def test_a_write_that_is_done_is_reported_though_its_journal_cannot_be_written(
    server: ck.LocalServer, client: ck.Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer counts; the log says what is left behind."""

    def full(self: Journal, key: str) -> None:
        raise JournalError("the disk is full")

    monkeypatch.setattr(Journal, "settle", full)
    assert client.retire_case(AGENT, "cor-1", reason=REASON).retired is not None
    assert "stays in the journal: the disk is full" in caplog.text


def test_without_a_journal_nothing_is_sent(server: ck.LocalServer, client: ck.Client, state: Path) -> None:
    """A write that a crash could make twice is refused, and says the way out."""
    state.parent.mkdir(exist_ok=True)
    state.write_text("a file where the folder should be")
    with pytest.raises(JournalError, match="no write is sent: set CASEKIT_STATE"):
        client.retire_case(AGENT, "cor-1", reason=REASON)
    assert writes(server) == []


@pytest.mark.parametrize(
    ("status", "code", "kind", "kept"),
    [
        (400, "bad-input", ApiError, False),
        (404, "run-not-found", NotFoundError, False),
        (409, "run-not-finished", ConflictError, False),
        (409, "idempotency-key-body-mismatch", ConflictError, False),
        (409, "idempotency-key-replay-withheld", ConflictError, False),
        (410, "run-erased", ApiError, False),
        (413, "request-too-large", ApiError, False),
        (401, "unauthorized", AuthError, True),
        (403, "permission-denied", AuthError, True),
        (409, "idempotency-key-in-flight", BusyError, True),
        (429, "slow-down", BusyError, True),
        (500, "internal", ServerError, True),
        (503, "idempotency-store-unavailable", BusyError, True),
    ],
)
def test_a_key_is_kept_until_the_outcome_is_sure(
    server: ck.LocalServer, client: ck.Client, state: Path, status: int, code: str, kind: type[ApiError], kept: bool
) -> None:
    """A refusal of the write itself settles it; one of the token, or a failure, leaves the outcome open."""
    server.fail_next(status, code, retry_after=None, times=4, method="POST")
    with pytest.raises(kind) as caught:
        client.retire_case(AGENT, "cor-1", reason=REASON)
    assert caught.value.code == code
    assert len(pending(state)) == kept


def test_a_write_that_still_runs_is_waited_for(server: ck.LocalServer) -> None:
    """The first attempt gives up waiting, the second is told that the first runs, the third gets its answer."""
    server.delay_next(0.6, method="POST")
    with ck.Client(server.url, token=server.token, timeout=0.3, retry=QUICK) as hasty:
        retired = hasty.retire_case(AGENT, "cor-1", reason=REASON)
    assert retired.retired is not None
    assert [status for _, status in writes(server)].count(409) >= 1
    assert len({key for key, _ in writes(server)}) == 1


# ---------------------------------------------------------------- whose retirement it was


def test_a_case_that_somebody_else_retired_is_told_as_that(server: ck.LocalServer, client: ck.Client) -> None:
    """One attempt, an error with its code, and nobody thinks that it was this call."""
    with ck.Client(server.url, token=server.add_token(caller_id="reviewer-2")) as other:
        other.retire_case(AGENT, "cor-1", reason="moved")
    with pytest.raises(ConflictError, match="retired before, by another call") as caught:
        client.retire_case(AGENT, "cor-1", reason=REASON)
    assert (caught.value.code, caught.value.attempts, caught.value.perhaps_own) == ("test-case-retired", 1, False)
    assert pickle.loads(pickle.dumps(caught.value)).perhaps_own is False


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[tuple[ck.LocalServer, Any]]:
    """Return a server, and a function that lets it forget the answers it keeps for idempotency keys."""
    with ck.LocalServer(tmp_path / "server.db") as server:
        server.add_run(AGENT, "run-1")
        with another(server) as client:
            client.add_case(AGENT, "run-1", decisions="right")

        def forget() -> None:
            db = sqlite3.connect(tmp_path / "server.db")
            with db:
                db.execute("DELETE FROM answers")
            db.close()

        yield server, forget


def test_a_retirement_of_ones_own_is_told_apart_when_the_server_forgot_the_key(
    forgetful: tuple[ck.LocalServer, Any],
) -> None:
    """After a lost answer, here or before a crash, the conflict may be the call's own doing, and says so."""
    server, forget = forgetful
    with another(server) as client:
        (case,) = live_ids(client)
        server.lose_next(4, method="POST")  # three attempts, and one on the connection of the list
        with pytest.raises(TransportError):
            client.retire_case(AGENT, case, reason=REASON)
    forget()
    with (
        another(server) as after,
        pytest.raises(ConflictError, match="perhaps by an earlier attempt of this") as caught,
    ):
        after.retire_case(AGENT, case, reason=REASON)
    assert caught.value.perhaps_own
    assert pickle.loads(pickle.dumps(caught.value)).perhaps_own


def test_an_attempt_that_cannot_have_run_makes_no_conflict_ones_own(server: ck.LocalServer, client: ck.Client) -> None:
    """A busy server did nothing: who retired the case meanwhile was somebody else."""
    with ck.Client(server.url, token=server.add_token(caller_id="reviewer-2")) as other:
        other.retire_case(AGENT, "cor-1", reason="moved")
    server.fail_next(503, "database-busy", retry_after=None, method="POST")
    with pytest.raises(ConflictError) as caught:
        client.retire_case(AGENT, "cor-1", reason=REASON)
    assert (caught.value.attempts, caught.value.perhaps_own) == (2, False)


@pytest.mark.parametrize("status", [502, 504])
def test_a_gateway_that_gave_up_may_hide_a_write(server: ck.LocalServer, client: ck.Client, status: int) -> None:
    """It does not know what the server did, so the conflict after it is perhaps the call's own doing."""
    with ck.Client(server.url, token=server.add_token(caller_id="reviewer-2")) as other:
        other.retire_case(AGENT, "cor-1", reason="moved")
    server.fail_next(status, "gateway", retry_after=None, method="POST")
    with pytest.raises(ConflictError) as caught:
        client.retire_case(AGENT, "cor-1", reason=REASON)
    assert (caught.value.attempts, caught.value.perhaps_own) == (2, True)


@pytest.mark.parametrize(
    ("lost", "own"),
    [(Lost("reset", stale=True), True), (Lost("timeout"), True), (Lost("cut"), True), (Lost("connect"), False)],
)
def test_a_lost_attempt_makes_the_conflict_perhaps_ones_own_where_it_may_have_run(
    server: ck.LocalServer, client: ck.Client, monkeypatch: pytest.MonkeyPatch, lost: Lost, own: bool
) -> None:
    """Where no connection was made, nothing ran; a connection that seemed open may have carried the write."""
    with ck.Client(server.url, token=server.add_token(caller_id="reviewer-2")) as other:
        other.retire_case(AGENT, "cor-1", reason="moved")
    send, losses = Connection.send, [lost]

    def losing(self: Any, *given: Any, **named: Any) -> Any:
        return losses.pop() if losses else send(self, *given, **named)

    monkeypatch.setattr(Connection, "send", losing)
    with pytest.raises(ConflictError) as caught:
        client.retire_case(AGENT, "cor-1", reason=REASON)
    assert caught.value.perhaps_own is own


def test_a_conflict_settles_what_was_open(server: ck.LocalServer, client: ck.Client) -> None:
    """After a failed call the conflict is perhaps its own doing; the call after that starts anew."""
    with ck.Client(server.url, token=server.add_token(caller_id="reviewer-2")) as other:
        other.retire_case(AGENT, "cor-1", reason="moved")
    server.fail_next(500, "internal", retry_after=None, method="POST")
    with pytest.raises(ServerError):
        client.retire_case(AGENT, "cor-1", reason=REASON)
    for own in (True, False):
        with pytest.raises(ConflictError) as caught:
            client.retire_case(AGENT, "cor-1", reason=REASON)
        assert caught.value.perhaps_own is own


# ---------------------------------------------------------------- callers


def test_two_callers_have_two_keys_for_the_same_write(server: ck.LocalServer, client: ck.Client) -> None:
    """What one began, the other does not repeat."""
    server.lose_next(4, method="POST")
    with pytest.raises(TransportError):
        client.add_case(AGENT, "run-1", decisions="right")
    with ck.Client(server.url, token=server.add_token(caller_id="reviewer-2")) as other:
        assert not other.add_case(AGENT, "run-1", decisions="right", dry_run=True).repeats
        other.add_case(AGENT, "run-1", decisions="right")
    assert len({key for key, _ in writes(server)}) == 2
    assert len(live_ids(client)) == 5


def test_a_sign_in_page_for_an_answer_leaves_the_outcome_open(
    server: ck.LocalServer, client: ck.Client, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A good status with markup, or with JSON that is no case, does not say that the write was done."""
    answered = Connection.send
    for body in (b"<html>", b"{}"):

        def page(self: Any, *given: Any, body: bytes = body, **named: Any) -> Any:
            answer = answered(self, *given, **named)
            assert isinstance(answer, Answer)
            return replace(answer, body=body, content_type="text/html")

        with monkeypatch.context() as patch:
            patch.setattr(Connection, "send", page)
            with pytest.raises(ProtocolError):
                client.retire_case(AGENT, "cor-1", reason=REASON)
        assert len(pending(state)) == 1
    retired = client.retire_case(AGENT, "cor-1", reason=REASON)
    assert isinstance(retired, AgentCase)
    assert len({key for key, _ in writes(server)}) == 1


def test_a_pickled_client_plans_anew(
    server: ck.LocalServer, client: ck.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes its token from the environment, and no plan with it."""
    plan = client.retire_case(AGENT, "cor-1", reason=REASON, dry_run=True)
    monkeypatch.setenv("CASEKIT_TOKEN", server.token)
    with pickle.loads(pickle.dumps(client)) as copy:
        assert copy.retire_case(AGENT, "cor-1", reason=REASON, dry_run=True).key != plan.key
