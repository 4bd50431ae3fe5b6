from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from casekit.errors import ConfigError
from casekit.server import LocalServer
from casekit.server.store import DatabaseBusy

CASES = "/v1/test-sets/acme.set/versions/1.0.0/cases"
AGENT_CASES = "/v1/agents/acme.drafting/test-set/cases"
BODY = {"runId": "run-1", "answer": "right"}
PROJECT = "00000000-0000-4000-8000-00000000000a"
WORDS = "the-words-of-a-person"

# Numbers, escapes and order that a parser would change, and text that is not ASCII.
TEXT = (
    '{"items": [],"caseId":"case-1","output":{"n":1.10,"big":12345678901234567890123,"e":1E5,"z":-0.0},'
    '"input":"\\u00e9 é \\ud800 \\/","later":1e999}'
)


def api_of(server: LocalServer, token: str | None = None) -> httpx.Client:
    """Return the HTTP client of a token."""
    headers = {"Authorization": f"Bearer {token or server.token}"}
    return httpx.Client(base_url=server.url, headers=headers, trust_env=False, verify=False)


def full_case(case_id: str, run_id: str | None) -> dict[str, Any]:
    """Return a case with a person's words wherever a case may hold them."""
    ids = {"caseId": case_id} if run_id is None else {"caseId": case_id, "runId": run_id}
    return ids | {
        "subject": {"kind": "agent", "id": "acme.drafting", "version": "1.4.0"},
        "input": WORDS,
        "context": {"history": [WORDS]},
        "output": {"text": WORDS},
        "segments": [{"key": "company", "value": WORDS}],
        "items": [{"key": "k", "reasons": [{"verdict": "no", "reason": WORDS}]}],
        "corrections": [{"correctionId": "cor-1", "calls": [{"tool": "t", "args": {"a": WORDS}}], "notCalled": []}],
        "expect": {"answer": {"verdict": "wrong", "why": WORDS}},
        "expert": True,
        "later": WORDS,
    }


def erased_case(case_id: str, run_id: str | None) -> dict[str, Any]:
    """Return what is left of `full_case`."""
    ids = {"caseId": case_id} if run_id is None else {"caseId": case_id, "runId": run_id}
    subject = {"kind": "agent", "id": "acme.drafting", "version": "1.4.0"}
    return ids | {"subject": subject, "input": None, "output": None, "items": [], "erased": True}


@pytest.mark.parametrize("document", [TEXT, TEXT.encode(), f"\n {TEXT}\t"])
def test_json_text_is_served_byte_for_byte(server: LocalServer, api: httpx.Client, document: bytes | str) -> None:
    """A case given as JSON text is served with every digit, escape and space inside it as it was."""
    assert server.add_test_set("acme.set", "1.0.0", [document]) == 1
    assert api.get(CASES).content == b'{"data":[' + TEXT.encode() + b'],"hasMore":false}'


def test_a_dict_is_served_as_the_same_value(server: LocalServer, api: httpx.Client) -> None:
    """A case given as a dict is served as equal JSON, large integers, floats and a lone surrogate included."""
    document = {"caseId": "case-1", "n": [2**70, 0.1, -0.0, 1e-300], "t": "é\ud800\u0000", "": None}
    server.add_test_set("acme.set", "1.0.0", [document])
    assert json.loads(api.get(CASES).content)["data"] == [document]


@pytest.mark.parametrize(
    "document",
    [{}, [], "", "{", {"caseId": 1}, {"caseId": None}, b'{"caseId":"a"}x', {"caseId": "a", "n": float("nan")},
     "[" * 99_999, {"caseId": "a", "n": {1, 2}}, '{"caseId":"a","n":NaN}'],
)  # fmt: skip
def test_a_document_that_is_no_case_is_refused_whole(server: LocalServer, api: httpx.Client, document: Any) -> None:
    """What has no caseId or is no JSON is refused, and none of the cases beside it is kept."""
    with pytest.raises(ConfigError):
        server.add_test_set("acme.set", "1.0.0", [{"caseId": "good"}, document])
    assert api.get(CASES).status_code == 404


@pytest.mark.parametrize("version", ["", "1", "1.0", "1.0.0.0", "v1.0.0", "1.0.0\n", "١.0.0"])
def test_a_version_is_three_numbers(server: LocalServer, version: str) -> None:
    """A version the route could never be asked for is refused."""
    with pytest.raises(ConfigError, match=r"1\.2\.0"):
        server.add_test_set("acme.set", version, [])


def test_an_empty_id_is_refused(server: LocalServer) -> None:
    """A test set, an agent and a run need an id of one character or more."""
    for add in (
        lambda: server.add_test_set("", "1.0.0", []),
        lambda: server.add_run("", "run-2"),
        lambda: server.add_run("acme.drafting", ""),
        lambda: server.add_agent_case("", {"id": "cor-1", "projectId": PROJECT}),
    ):
        with pytest.raises(ConfigError, match="id"):
            add()


def test_a_case_id_stands_once_in_a_version(server: LocalServer) -> None:
    """A version with one caseId twice is refused; two versions may share it."""
    with pytest.raises(ConfigError, match="twice"):
        server.add_test_set("acme.set", "1.0.0", [{"caseId": "a"}, {"caseId": "b"}, {"caseId": "a"}])
    server.add_test_set("acme.set", "1.0.0", [{"caseId": "a"}])
    server.add_test_set("acme.set", "1.0.1", [{"caseId": "a"}])


def test_a_version_never_changes(server: LocalServer, api: httpx.Client) -> None:
    """Loading a version again with the same cases is nothing; with other cases or another order it is refused."""
    cases = [{"caseId": "a"}, {"caseId": "b"}]
    assert server.add_test_set("acme.set", "1.0.0", cases) == 2
    assert server.add_test_set("acme.set", "1.0.0", iter(cases)) == 2
    for other in (cases[::-1], cases[:1], [*cases, {"caseId": "c"}], []):
        with pytest.raises(ConfigError, match="never changes"):
            server.add_test_set("acme.set", "1.0.0", other)
    assert [case["caseId"] for case in api.get(CASES).json()["data"]] == ["a", "b"]


def test_cases_may_come_from_the_server_itself(server: LocalServer, api: httpx.Client) -> None:
    """The iterable may ask the server while it is read: nothing is locked meanwhile."""
    server.add_test_set("acme.set", "1.0.0", [{"caseId": "a"}])

    def copied() -> Iterator[Any]:
        yield from api.get(CASES).json()["data"]

    assert server.add_test_set("acme.copy", "1.0.0", copied()) == 1


def test_saved_pages_are_served_byte_for_byte_in_the_order_of_their_numbers(
    server: LocalServer, api: httpx.Client, tmp_path: Path
) -> None:
    """Page 10 comes after page 2, each case with its bytes, and other files are left alone."""
    for number in range(12):
        text = TEXT.replace("case-1", f"case-{number}")
        (tmp_path / f"page-{number}.json").write_text(f'{{"hasMore": true, "data" :\n[ {text} ]}}', encoding="utf-8")
    (tmp_path / "expected.json").write_text("no page", encoding="utf-8")
    assert server.load_pages(tmp_path, "acme.set", "1.0.0") == 12
    expected = ",".join(TEXT.replace("case-1", f"case-{number}") for number in range(12))
    assert api.get(CASES).content == f'{{"data":[{expected}],"hasMore":false}}'.encode()


@pytest.mark.parametrize("text", ["", "[]", '{"cases":[]}', '{"data":{}}', '{"data":[{}]}', '{"data":[1]}'])
def test_a_file_that_is_no_page_is_named(server: LocalServer, tmp_path: Path, text: str) -> None:
    """A page that cannot be used is refused; one that is no page at all is named."""
    (tmp_path / "page-1.json").write_text('{"data":[]}', encoding="utf-8")
    (tmp_path / "page-2.json").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"page-2\.json" if '"data":[' not in text else "Case 0"):
        server.load_pages(tmp_path, "acme.set", "1.0.0")


def test_a_folder_without_pages_is_refused(server: LocalServer, tmp_path: Path) -> None:
    """A folder that is empty or not there is an error, and no empty test set."""
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(ConfigError, match="page-"):
            server.load_pages(folder, "acme.set", "1.0.0")


@pytest.mark.parametrize(
    "document", [{}, {"id": "cor-1"}, {"id": 1, "projectId": PROJECT}, {"id": "cor-1", "projectId": "p"}, "[]"]
)
def test_an_agents_case_needs_an_id_and_a_project(server: LocalServer, api: httpx.Client, document: Any) -> None:
    """A document without an id or a project's UUID is refused."""
    with pytest.raises(ConfigError):
        server.add_agent_case("acme.drafting", document)
    assert api.get(AGENT_CASES).json()["data"] == []


def test_ids_of_runs_and_agents_cases_are_new(server: LocalServer) -> None:
    """A run id stands once on the server, a case id once in an agent's test set."""
    server.add_agent_case("acme.drafting", {"id": "cor-1", "projectId": PROJECT})
    server.add_agent_case("acme.other", {"id": "cor-1", "projectId": PROJECT})
    with pytest.raises(ConfigError, match="cor-1"):
        server.add_agent_case("acme.drafting", {"id": "cor-1", "projectId": PROJECT})
    with pytest.raises(ConfigError, match="run-1"):
        server.add_run("acme.other", "run-1")


def test_a_run_needs_a_project_and_an_output_that_is_json(server: LocalServer) -> None:
    """A project that is no UUID and an output that is no JSON are refused."""
    with pytest.raises(ConfigError, match="UUID"):
        server.add_run("acme.drafting", "run-2", project_id="p")
    with pytest.raises(ConfigError, match="JSON"):
        server.add_run("acme.drafting", "run-2", output=object())


def test_an_erased_case_keeps_who_and_where_alone(server: LocalServer, api: httpx.Client) -> None:
    """Erasing clears a case in every version, in its place, and leaves the cases beside it alone."""
    cases = [{"caseId": "before"}, full_case("case-1", "run-1"), {"caseId": "after"}]
    server.add_test_set("acme.set", "1.0.0", cases)
    server.add_test_set("acme.set", "2.0.0", cases[1:])
    assert server.erase_case("case-1") == 2
    assert api.get(CASES).json()["data"] == [cases[0], erased_case("case-1", "run-1"), cases[2]]
    assert api.get(CASES.replace("1.0.0", "2.0.0")).json()["data"] == [erased_case("case-1", "run-1"), cases[2]]
    assert server.add_test_set("acme.set", "1.0.0", cases) == 3
    assert api.get(CASES).json()["data"][1]["erased"] is True


def test_erasing_an_unknown_case_erases_nothing(server: LocalServer, api: httpx.Client) -> None:
    """One unknown id among several is an error, and the others are not erased."""
    server.add_test_set("acme.set", "1.0.0", [full_case("case-1", "run-1")])
    with pytest.raises(ConfigError, match="case-none"):
        server.erase_case("case-1", "case-none")
    with pytest.raises(ConfigError, match="run-none"):
        server.erase_run("run-none")
    assert api.get(CASES).json()["data"] == [full_case("case-1", "run-1")]


def test_an_erased_run_takes_its_cases_with_it(server: LocalServer, api: httpx.Client) -> None:
    """Erasing a run clears the cases copied from it, an older server's too, and no case can be added from it."""
    cases = [full_case("case-1", "run-1"), full_case("run-1", None), full_case("case-2", "run-2")]
    server.add_test_set("acme.set", "1.0.0", cases)
    assert server.erase_run("run-1") == 2
    expected = [erased_case("case-1", "run-1"), erased_case("run-1", None), cases[2]]
    assert api.get(CASES).json()["data"] == expected
    answer = api.post(AGENT_CASES, json=BODY)
    assert (answer.status_code, answer.json()["error"]["code"]) == (410, "run-erased")


@pytest.mark.parametrize("closed", [False, True])
def test_no_byte_of_an_erased_text_stays_in_the_file(tmp_path: Path, closed: bool) -> None:
    """After an erasure the words are in no file of the database, free pages and log included."""
    file = tmp_path / "server.db"
    with LocalServer(db=file) as server:
        server.add_test_set("acme.set", "1.0.0", [full_case(f"case-{n}", f"run-{n}") for n in range(50)])
        server.add_run("acme.drafting", "run-0", output={"text": WORDS * 500})
        assert any(WORDS.encode() in path.read_bytes() for path in tmp_path.iterdir())
        server.erase_case(*[f"case-{n}" for n in range(1, 50)])
        server.erase_run("run-0")
        if not closed:
            assert not any(WORDS.encode() in path.read_bytes() for path in tmp_path.iterdir())
    if closed:
        assert [path.name for path in tmp_path.iterdir()] == ["server.db"]
        assert WORDS.encode() not in file.read_bytes()


def test_an_erasure_that_a_reader_holds_up_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process reads the file, erasing says that bytes are left, and done again it clears them."""
    monkeypatch.setattr("casekit.server.store.BUSY_TIMEOUT", 0.05)
    file = tmp_path / "server.db"
    with LocalServer(db=file) as server:
        server.add_test_set("acme.set", "1.0.0", [full_case("case-1", "run-1")])
        reader = sqlite3.connect(file, isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM cases").fetchall()
        with pytest.raises(DatabaseBusy, match="erase again"):
            server.erase_case("case-1")
        reader.close()
        server.erase_case("case-1")
        assert not any(WORDS.encode() in path.read_bytes() for path in tmp_path.iterdir())


def test_a_database_file_keeps_everything_over_a_restart(tmp_path: Path) -> None:
    """Cases, answers, cursors and tokens of the first server hold at the second; no token stands in the file."""
    file = tmp_path / "server.db"
    headers = {"Idempotency-Key": "key-1"}
    with LocalServer(db=file) as first:
        first.add_test_set("acme.set", "1.0.0", [{"caseId": "a"}, {"caseId": "b"}])
        first.add_run("acme.drafting", "run-1")
        reader = first.add_token(caller_id="reviewer-1", can_write=False)
        with api_of(first) as api:
            cursor = api.get(CASES, params={"limit": 1}).json()["nextCursor"]
            added = api.post(AGENT_CASES, json=BODY, headers=headers)
    content = file.read_bytes()
    assert not any(token.encode() in content for token in (first.token, reader))
    with LocalServer(db=file) as second:
        assert second.token != first.token
        with api_of(second, first.token) as api:
            assert api.get(CASES, params={"cursor": cursor}).json()["data"] == [{"caseId": "b"}]
            assert api.post(AGENT_CASES, json=BODY, headers=headers).content == added.content
            assert api.get(AGENT_CASES).json()["data"] == [added.json()]
        with api_of(second, reader) as api:
            assert api.post(AGENT_CASES, json=BODY).status_code == 403


def test_without_a_file_two_servers_share_nothing() -> None:
    """Servers in memory have their own data and tokens."""
    with LocalServer() as first, LocalServer() as second:
        first.add_test_set("acme.set", "1.0.0", [])
        with api_of(second) as api, api_of(second, first.token) as stranger:
            assert api.get(CASES).status_code == 404
            assert stranger.get(CASES).status_code == 401


def test_a_token_given_again_has_the_new_rights(server: LocalServer) -> None:
    """Giving a known token anew changes whom it stands for."""
    token = server.add_token("secret-1", caller_id="reviewer-1", can_write=False)
    assert token == "secret-1"
    server.add_token(token, caller_id="reviewer-1")
    with api_of(server, token) as api:
        assert api.post(AGENT_CASES, json=BODY).status_code == 201


def test_a_file_that_is_no_database_of_the_server_is_left_alone(tmp_path: Path) -> None:
    """A text, another program's database and a later format are refused, and no byte of them changes."""
    text, foreign, later = tmp_path / "notes.txt", tmp_path / "foreign.db", tmp_path / "later.db"
    text.write_text("no database " * 100, encoding="utf-8")
    with sqlite3.connect(foreign) as db:
        db.execute("CREATE TABLE notes (text)")
    db.close()
    LocalServer(db=later).close()
    with sqlite3.connect(later) as db:
        db.execute("PRAGMA user_version = 2")
    db.close()
    for file in (text, foreign, later):
        before = file.read_bytes()
        with pytest.raises(ConfigError, match=file.name):
            LocalServer(db=file)
        assert file.read_bytes() == before


def test_a_file_that_breaks_under_the_server_is_named(tmp_path: Path) -> None:
    """When the file loses a table, adding data says which file it is, and a request is 500 without telling more."""
    file = tmp_path / "server.db"
    with LocalServer(db=file) as server, api_of(server) as api:
        with sqlite3.connect(file) as db:
            db.execute("DROP TABLE runs")
        db.close()
        with pytest.raises(ConfigError, match=r"server\.db.*no such table"):
            server.add_run("acme.drafting", "run-1")
        answer = api.get(AGENT_CASES)
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
        assert "server.db" not in answer.text


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """A database file in no folder is an error that names the file."""
    with pytest.raises(ConfigError, match=r"server\.db"):
        LocalServer(db=tmp_path / "none" / "server.db")
