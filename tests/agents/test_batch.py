from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal

import casekit as ck
from casekit.caseset import CaseSet
from casekit.errors import ConfigError, JournalError, NotFoundError
from casekit.http.connection import Answer, Connection
from casekit.journal import Journal
from casekit.writes import add_cases, retire_cases

AGENT = "acme.drafting"
ALL = ["cor-1", "cor-2", "cor-3"]
EVERY_ATTEMPT = 5  # four, and one on the list's connection, which may have been closed before it was used


def stale(*case_ids: str | None, reason: str | None = "the tool was removed") -> pd.DataFrame:
    """Return a frame of cases to retire."""
    return pd.DataFrame({"case_id": list(case_ids), "reason": reason})


def posts(server: ck.LocalServer) -> int:
    """Return how many writes the server got."""
    return sum(request.method == "POST" for request in server.requests)


def live(client: ck.Client) -> CaseSet:
    """Return the agent's test set."""
    return ck.load_agent_cases(AGENT, client=client, progress=False)


def states(result: pd.DataFrame) -> list[str]:
    """Return the state of each row."""
    return list(result["state"])


# ---------------------------------------------------------------- retire


def test_no_rows_do_nothing(server: ck.LocalServer, client: ck.Client) -> None:
    """An empty frame has all columns, of the types that any has."""
    none = retire_cases(stale(), agent_id=AGENT, client=client, dry_run=False)
    some = retire_cases(stale("cor-1"), agent_id=AGENT, client=client, dry_run=False)
    assert len(none) == 0
    assert none.dtypes.to_dict() == some.dtypes.to_dict()
    columns = ["run_id", "case_id", "state", "code", "message", "request_id", "added_at"]
    assert list(add_cases(pd.DataFrame({"run_id": []}), agent_id=AGENT, client=client).columns) == columns


def test_nothing_is_written_unless_asked(server: ck.LocalServer, client: ck.Client, state: Path) -> None:
    """A dry run is the default: it says what is to do, and what would be refused."""
    client.retire_case(AGENT, "cor-2", reason="moved")
    before = posts(server)
    frame = pd.concat([stale("cor-1", "cor-2"), stale("cor-3", reason=None), stale(None), stale("cor-4", reason="")])
    result = retire_cases(frame, agent_id=AGENT, client=client)
    assert states(result) == ["to do", "already", "refused", "refused", "refused"]
    assert result["message"].isna().tolist() == [True, True, False, False, False]
    assert result["retired_at"].notna().tolist() == [False, True, False, False, False]
    assert posts(server) == before
    assert live(client).cases["retired"].sum() == 1


def test_each_row_is_retired_for_its_own_reason(server: ck.LocalServer, client: ck.Client) -> None:
    """The result says when, with the index of the frame, which is not changed."""
    frame = pd.concat([stale("cor-1"), stale("cor-3", reason="moved")]).set_axis(["x", "y"]).assign(note=1)
    before = frame.copy()
    result = retire_cases(frame, agent_id=AGENT, client=client, dry_run=False)
    assert states(result) == ["done", "done"]
    assert result.index.tolist() == ["x", "y"]
    assert_frame_equal(frame, before)
    cases = live(client).cases.set_index("case_id")
    assert cases["retired_reason"].fillna("live")[ALL].tolist() == ["the tool was removed", "live", "moved"]
    assert result["retired_at"].tolist() == cases["retired_at"][["cor-1", "cor-3"]].tolist()


def test_one_failure_stops_no_other_row(server: ck.LocalServer, client: ck.Client) -> None:
    """Refused ones have the server's code, an id to ask it about, and no time."""
    result = retire_cases(stale("cor-1", "cor-none", "cor-3"), agent_id=AGENT, client=client, dry_run=False)
    assert states(result) == ["done", "refused", "done"]
    assert result["code"].fillna("").tolist() == ["", "test-case-not-found", ""]
    assert result["request_id"].iloc[1] in {request.request_id for request in server.requests}
    assert result["retired_at"].isna().tolist() == [False, True, False]


def test_the_same_call_again_does_only_what_is_left(server: ck.LocalServer, client: ck.Client) -> None:
    """What is done is not sent again, and an outcome that was unknown is found out."""
    server.lose_next(EVERY_ATTEMPT, method="POST")
    first = retire_cases(stale(*ALL), agent_id=AGENT, client=client, dry_run=False)
    assert states(first) == ["unknown", "done", "done"]
    before = posts(server)
    second = retire_cases(stale(*ALL), agent_id=AGENT, client=client, dry_run=False)
    assert states(second) == ["already"] * 3
    assert posts(server) == before
    assert not client.retire_case(AGENT, "cor-1", reason="the tool was removed", dry_run=True).repeats


def test_a_row_that_failed_is_done_by_the_next_call(server: ck.LocalServer, client: ck.Client) -> None:
    """A busy or failing server is a matter of trying again."""
    server.fail_next(503, "database-busy", retry_after=None, times=4, method="POST")
    server.fail_next(500, "internal", retry_after=None, method="POST")
    first = retire_cases(stale(*ALL), agent_id=AGENT, client=client, dry_run=False)
    assert states(first) == ["refused", "unknown", "done"]
    assert first["code"].fillna("").tolist() == ["database-busy", "internal", ""]
    assert states(retire_cases(stale(*ALL), agent_id=AGENT, client=client, dry_run=False)) == [
        "done",
        "done",
        "already",
    ]


def changed(body: bytes, **members: Any) -> bytes:
    """An answer with other members."""
    return json.dumps(json.loads(body) | members).encode()


@pytest.mark.parametrize(
    "spoil", [lambda _: b"<html>", lambda body: changed(body, retired=None), lambda body: changed(body, id="cor-9")]
)
def test_an_answer_that_is_not_the_case_retired_leaves_the_row_unknown(
    server: ck.LocalServer, client: ck.Client, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[bytes], bytes]
) -> None:
    """A row is done when the server says so of its case, and no proxy's page; the list of the next call finds out."""
    send = Connection.send

    def spoilt(self: Any, request: Any, *given: Any, **named: Any) -> Any:
        answer = send(self, request, *given, **named)
        assert isinstance(answer, Answer)
        return replace(answer, body=spoil(answer.body)) if request.method == "POST" else answer

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "send", spoilt)
        result = retire_cases(stale("cor-1"), agent_id=AGENT, client=client, dry_run=False)
    assert states(result) == ["unknown"]
    assert result["retired_at"].isna().all()
    assert result["request_id"].notna().all()
    assert result["message"].str.contains("make the same call again").all()
    assert client.retire_case(AGENT, "cor-1", reason="the tool was removed", dry_run=True).repeats
    assert states(retire_cases(stale("cor-1"), agent_id=AGENT, client=client, dry_run=False)) == ["already"]
    assert not client.retire_case(AGENT, "cor-1", reason="the tool was removed", dry_run=True).repeats


def test_a_case_that_somebody_retires_meanwhile_is_already_retired(
    server: ck.LocalServer, client: ck.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the list and the write there is time for another."""
    real = ck.Client.retire_case

    def slow(self: ck.Client, agent_id: str, case_id: str, **more: Any) -> Any:
        if not more.get("dry_run"):
            with ck.Client(server.url, token=server.add_token(caller_id="reviewer-2")) as other:
                real(other, agent_id, case_id, reason="moved")
        return real(self, agent_id, case_id, **more)

    monkeypatch.setattr(ck.Client, "retire_case", slow)
    result = retire_cases(stale("cor-1"), agent_id=AGENT, client=client, dry_run=False)
    assert states(result) == ["already"]
    assert result["code"].tolist() == ["test-case-retired"]


def test_with_a_token_that_is_refused_the_others_are_not_tried(server: ck.LocalServer) -> None:
    """The first row says why; a token that may only read is refused row by row, because rights differ by project."""
    with ck.Client(server.url, token=server.add_token(caller_id="reader-1", can_write=False)) as reader:
        result = retire_cases(stale(*ALL), agent_id=AGENT, client=reader, dry_run=False)
        assert states(result) == ["refused"] * 3
        assert set(result["code"]) == {"permission-denied"}
        server.fail_next(401, "unauthorized", retry_after=None, method="POST")
        result = retire_cases(stale(*ALL), agent_id=AGENT, client=reader, dry_run=False)
    assert states(result) == ["refused", "not tried", "not tried"]


def test_when_the_server_is_away_the_others_are_not_tried(server: ck.LocalServer, client: ck.Client) -> None:
    """Three rows in a row without a usable answer are enough; an answer in between starts the count again."""
    ids = [f"cor-x{number}" for number in range(6)]
    for status, code, times in ((500, "internal", 2), (404, "test-case-not-found", 1), (500, "internal", 2)):
        server.fail_next(status, code, retry_after=None, times=times, method="POST")
    result = retire_cases(stale(*ids), agent_id=AGENT, client=client, dry_run=False)
    assert states(result) == ["unknown", "unknown", "refused", "unknown", "unknown", "refused"]
    server.fail_next(500, "internal", retry_after=None, times=3, method="POST")
    result = retire_cases(stale(*ids), agent_id=AGENT, client=client, dry_run=False)
    assert states(result) == ["unknown"] * 3 + ["not tried"] * 3


def test_a_frame_that_cannot_be_meant_is_refused_as_a_whole(server: ck.LocalServer, client: ck.Client) -> None:
    """A case twice, or a column that is missing: nothing is sent."""
    with pytest.raises(ConfigError, match="case 'cor-1' stands in the frame twice; nothing was sent"):
        retire_cases(stale("cor-1", "cor-2", "cor-1"), agent_id=AGENT, client=client, dry_run=False)
    with pytest.raises(ConfigError, match="no column 'reason'; did you mean 'reasons'"):
        retire_cases(stale("cor-1").rename(columns={"reason": "reasons"}), agent_id=AGENT, client=client, dry_run=False)
    with pytest.raises(NotFoundError):
        retire_cases(stale("cor-1"), agent_id="acme.none", client=client, dry_run=False)
    assert posts(server) == 0


def test_without_a_journal_no_row_is_sent(server: ck.LocalServer, client: ck.Client, state: Path) -> None:
    """It is an error of the machine and not of a row."""
    state.parent.mkdir(exist_ok=True)
    state.write_text("a file where the folder should be")
    with pytest.raises(JournalError):
        retire_cases(stale(*ALL), agent_id=AGENT, client=client, dry_run=False)
    assert posts(server) == 0


def test_the_client_is_made_from_the_environment(server: ck.LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """As everywhere."""
    monkeypatch.setenv("CASEKIT_URL", server.url)
    monkeypatch.setenv("CASEKIT_TOKEN", server.token)
    assert states(retire_cases(stale("cor-1"), agent_id=AGENT)) == ["to do"]
    assert states(add_cases(pd.DataFrame({"run_id": ["run-1"], "answer": ["right"]}), agent_id=AGENT)) == ["to do"]


# ---------------------------------------------------------------- add


def news() -> pd.DataFrame:
    """Return one case of each kind, with gaps where nothing is given."""
    return pd.DataFrame(
        {
            "run_id": ["run-1", "run-1", "run-2", "run-3", "run-3"],
            "decisions": ["wrong", "right", None, "wrong", None],
            "should_call": [
                [{"tool": "find", "args": {"id": 2**60, "x": None}}, {"tool": "read"}],
                None,
                None,
                None,
                None,
            ],
            "must_not_call": [["delete"], None, None, ["delete"], None],
            "answer": [None, None, "wrong", float("nan"), "right"],
            "why": [None, None, "it was no", None, pd.NA],
            "items": [None, None, [{"key": "m-1", "verdict": "right", "rank": 0}], None, None],
        }
    )


def test_each_row_adds_its_case_and_a_second_call_none(server: ck.LocalServer, client: ck.Client) -> None:
    """Cases of one run that expect other things are several; those that are there are known by what they expect."""
    frame = news()
    before = frame.copy(deep=True)
    assert states(add_cases(frame, agent_id=AGENT, client=client)) == ["to do"] * 5
    first = add_cases(frame, agent_id=AGENT, client=client, dry_run=False)
    assert states(first) == ["done"] * 5
    listed = live(client).cases.set_index("case_id")
    assert listed.loc[first["case_id"], "run_id"].tolist() == frame["run_id"].tolist()
    assert listed.loc[first["case_id"], "added_at"].tolist() == first["added_at"].tolist()
    sent = posts(server)
    second = add_cases(frame, agent_id=AGENT, client=client, dry_run=False)
    assert states(second) == ["already"] * 5
    assert_frame_equal(second.drop(columns="state"), first.drop(columns="state"))
    assert posts(server) == sent
    assert_frame_equal(frame, before)


def test_rows_that_cannot_be_cases_are_refused_one_by_one(server: ck.LocalServer, client: ck.Client) -> None:
    """By a rule before they are sent, by the server after; the others are added."""
    server.add_run(AGENT, "run-open", finished=False)
    server.add_run(AGENT, "run-erased", erased=True)
    frame = pd.DataFrame(
        {"run_id": ["run-open", "run-1", "run-erased", None, "run-2", "run-none"], "decisions": "right"}
    )
    frame.loc[4, "decisions"] = "unsure"
    result = add_cases(frame, agent_id=AGENT, client=client, dry_run=False)
    assert states(result) == ["refused", "done", "refused", "refused", "refused", "refused"]
    codes = ["run-not-finished", "", "run-erased", "", "", "run-not-found"]
    assert result["code"].fillna("").tolist() == codes
    assert result["case_id"].notna().tolist() == [False, True, False, False, False, False]


def test_an_addition_whose_answer_was_lost_is_found_in_the_list(server: ck.LocalServer, client: ck.Client) -> None:
    """It is not made twice, and a later addition of the same is a new write."""
    frame = pd.DataFrame({"run_id": ["run-1"], "decisions": ["right"]})
    server.lose_next(EVERY_ATTEMPT, method="POST")
    assert states(add_cases(frame, agent_id=AGENT, client=client, dry_run=False)) == ["unknown"]
    found = add_cases(frame, agent_id=AGENT, client=client, dry_run=False)
    assert states(found) == ["already"]
    assert len(live(client)) == 4
    client.retire_case(AGENT, found["case_id"].iloc[0], reason="moved")
    assert client.add_case(AGENT, "run-1", decisions="right").id != found["case_id"].iloc[0]


def test_a_dry_run_leaves_an_open_write_in_the_journal(server: ck.LocalServer, client: ck.Client) -> None:
    """It writes nothing, not even that."""
    frame = pd.DataFrame({"run_id": ["run-1"], "decisions": ["right"]})
    server.lose_next(EVERY_ATTEMPT, method="POST")
    add_cases(frame, agent_id=AGENT, client=client, dry_run=False)
    assert states(add_cases(frame, agent_id=AGENT, client=client)) == ["already"]
    assert client.add_case(AGENT, "run-1", decisions="right", dry_run=True).repeats


def test_a_case_that_was_retired_is_not_added_again(server: ck.LocalServer, client: ck.Client) -> None:
    """A program run twice does not bring back what people took out."""
    frame = pd.DataFrame({"run_id": ["run-1"], "decisions": ["right"]})
    added = add_cases(frame, agent_id=AGENT, client=client, dry_run=False)["case_id"].iloc[0]
    client.retire_case(AGENT, added, reason="moved")
    again = add_cases(frame, agent_id=AGENT, client=client, dry_run=False)
    assert states(again) == ["already"]
    assert again["case_id"].tolist() == [added]


def test_only_cases_by_hand_are_the_same_case(
    server: ck.LocalServer, client: ck.Client, live_case: Callable[..., dict[str, Any]]
) -> None:
    """A correction's case that expects the same is another one; what a server fills in makes no difference."""
    expect = {"decisions": {"verdict": "wrong", "shouldCall": [{"tool": "t", "args": {}}], "mustNotCall": []}}
    server.add_agent_case(AGENT, live_case("cor-same", runId="run-1", expect=expect))
    frame = pd.DataFrame({"run_id": ["run-1"], "decisions": ["wrong"], "should_call": [[{"tool": "t"}]]})
    assert states(add_cases(frame, agent_id=AGENT, client=client)) == ["to do"]
    server.add_agent_case(AGENT, live_case("case-same", kind="hand", runId="run-1", expect=expect))
    assert states(add_cases(frame, agent_id=AGENT, client=client)) == ["already"]
    frame["should_call"] = pd.Series([[{"tool": "t", "args": {"x": 1}}]], dtype=object)
    assert states(add_cases(frame, agent_id=AGENT, client=client)) == ["to do"]


def test_a_listed_case_that_nests_deep_stops_no_addition(
    server: ck.LocalServer, client: ck.Client, live_case: Callable[..., dict[str, Any]]
) -> None:
    """What the list can be read with must be compared with, as deep as it is."""
    args: dict[str, Any] = {}
    for _ in range(300):
        args = {"a": args}
    expect = {"decisions": {"verdict": "wrong", "shouldCall": [{"tool": "t", "args": args}]}}
    server.add_agent_case(AGENT, live_case("case-deep", kind="hand", runId="run-1", expect=expect))
    frame = pd.DataFrame({"run_id": ["run-1"], "decisions": ["wrong"], "should_call": [[{"tool": "t"}]]})
    assert states(add_cases(frame, agent_id=AGENT, client=client)) == ["to do"]


def test_a_column_that_is_not_known_is_refused(client: ck.Client) -> None:
    """A misspelt one would drop what it holds in silence."""
    frame = pd.DataFrame({"run_id": ["run-1"], "answer": ["right"], "must_not_cal": [["t"]]})
    with pytest.raises(ConfigError, match="a column 'must_not_cal': did you mean 'must_not_call'"):
        add_cases(frame, agent_id=AGENT, client=client)
    with pytest.raises(ConfigError, match="a column '1': a case has run_id, decisions"):
        add_cases(pd.DataFrame({"run_id": ["run-1"], 1: [2]}), agent_id=AGENT, client=client)
    with pytest.raises(ConfigError, match="no column 'run_id'"):
        add_cases(pd.DataFrame({"answer": ["right"]}), agent_id=AGENT, client=client)


def test_the_same_case_twice_is_refused(server: ck.LocalServer, client: ck.Client) -> None:
    """The second call could not tell one from two."""
    frame = pd.DataFrame({"run_id": ["run-1", "run-1"], "answer": "right"})
    with pytest.raises(ConfigError, match="the same case of run 'run-1' stands in the frame twice"):
        add_cases(frame, agent_id=AGENT, client=client, dry_run=False)
    assert posts(server) == 0


def test_words_and_tokens_stay_out_of_the_account(server: ck.LocalServer, client: ck.Client) -> None:
    """What the frame says is in no message."""
    frame = pd.DataFrame({"run_id": ["run-none", "run-1"], "answer": ["wrong", "maybe"], "why": ["secret words"] * 2})
    result = add_cases(frame, agent_id=AGENT, client=client, dry_run=False)
    assert states(result) == ["refused", "refused"]
    said = result.to_string()
    assert "secret" not in said
    assert "maybe" not in said
    assert server.token not in said
    assert Journal().file.exists()
