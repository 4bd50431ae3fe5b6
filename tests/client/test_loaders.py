"""Loads of one list and of many, into memory and onto disk, and what is left when they do not end well."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from client.conftest import Serve
from client.pages import PAGE, QUICK, TOKEN, Spec, agent_case, always, case, page, refusal
from hypothesis import given
from hypothesis import strategies as st

import casekit as ck
from casekit.errors import (
    AuthError,
    BusyError,
    ConfigError,
    NotFoundError,
    SchemaError,
    SnapshotBusyError,
    SnapshotError,
)
from casekit.loaders import folder_name

ClientOf = Callable[..., ck.Client]
SOURCE = str(Path(ck.__file__).parents[1])


def lists(count: int, *, pages: int = 3, size: int = 2, **more: Any) -> list[Spec]:
    """Answers for test sets s0, s1, … of a few pages each; the cases are named after their set."""
    answers = []
    for n in range(count):
        path = f"/v1/test-sets/s{n}/versions/1.0.0/cases"
        for number in range(pages):
            names = [f"{n}-{number * size + place}" for place in range(size)]
            when = {"path": path, **({"query": {"cursor": f"p{number}"}} if number else {"no_query": ["cursor"]})}
            body = page(names, f"p{number + 1}" if number + 1 < pages else None)
            answers.append({"when": when, "times": "*", "body_json": body, **more})
    return answers


def refs(count: int) -> list[tuple[str, str]]:
    """The test sets of `lists`."""
    return [(f"s{n}", "1.0.0") for n in range(count)]


def ids(cases: ck.CaseSet) -> list[str]:
    """The cases, in order."""
    return [str(case_id) for case_id in cases.cases["case_id"]]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file under a folder, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def left_behind() -> list[str]:
    """Threads of casekit that still run."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("casekit")]


@pytest.mark.parametrize("workers", [1, 2, 8, 100])
def test_many_lists_come_in_the_order_they_were_asked_for(
    serve: Serve, client_of: ClientOf, tmp_path: Path, workers: int
) -> None:
    """The order must be that of the refs and then the server's, whichever list comes first."""
    slow_first = [{**spec, "delay_ms": 30} if "/s0/" in spec["when"]["path"] else spec for spec in lists(6)]
    client = client_of(serve(*slow_first))
    expected = [f"c-{n}-{place}" for n in range(6) for place in range(6)]
    cases = ck.load_test_sets(refs(6), client=client, workers=workers)
    assert ids(cases) == expected
    assert cases.source.test_sets == tuple(refs(6))
    assert (cases.report.pages, cases.report.cases) == (18, 36)
    infos = ck.pull(refs(6), into=tmp_path, client=client, workers=workers)
    assert [info.test_sets for info in infos] == [(ref,) for ref in refs(6)]
    assert ids(ck.read_snapshot([tmp_path / folder_name(*ref) for ref in refs(6)])) == expected
    assert left_behind() == []


def test_no_more_lists_are_fetched_at_a_time_than_workers(serve: Serve, client_of: ClientOf) -> None:
    """The server must not get more requests at a time than the caller allowed."""
    server = serve(*lists(8, pages=2, delay_ms=20))
    ck.load_test_sets(refs(8), client=client_of(server), workers=3)
    spans = [(request.came, request.answered or 0.0) for request in server.requests]
    assert max(sum(came <= moment < answered for came, answered in spans) for moment, _ in spans) == 3


def test_memory_and_disk_hold_the_same(serve: Serve, client_of: ClientOf, tmp_path: Path) -> None:
    """A list that was pulled must be equal, table by table, to the same list loaded."""
    client = client_of(serve(*lists(1)))
    loaded = ck.load_test_set("s0", "1.0.0", client=client)
    [info] = ck.pull(refs(1), into=tmp_path, client=client)
    pulled = ck.read_snapshot(tmp_path)
    assert list(pulled.documents()) == list(loaded.documents())
    assert ck.write_snapshot(loaded, tmp_path / "again").content_hash == info.content_hash


def test_an_agents_list_is_read(serve: Serve, client_of: ClientOf) -> None:
    """The live test set of an agent must come with its retired cases."""
    gone = agent_case(
        "case-2", retired={"reason": "r", "by": {"kind": "user", "id": "u"}, "at": "2026-03-02T00:00:00Z"}
    )
    server = serve(always(body_json={"data": [agent_case(), gone], "hasMore": False}))
    cases = ck.load_agent_cases("acme.drafting", client=client_of(server))
    assert ids(cases) == ["case-1", "case-2"]
    assert ids(cases.without_retired()) == ["case-1"]
    assert cases.source.agent_id == "acme.drafting"


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ([], "no test set was asked for"),
        (["acme.a"], "pair of texts"),
        ([("acme.a",)], "pair of texts"),
        ([("acme.a", None)], "pair of texts"),
        ([("acme.a", 1.0)], "pair of texts"),
        ([{"acme.a": "1.0.0"}], "pair of texts"),
        ([("acme.a", "1.0.0"), ("acme.b", "1.0.0"), ("acme.a", "1.0.0")], "acme.a 1.0.0 is asked for twice"),
        (None, r"as pairs of texts \(id, version\), not None"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(
    serve: Serve, client_of: ClientOf, tmp_path: Path, wanted: Any, words: str
) -> None:
    """Wrong refs must be told before anything is sent."""
    server = serve(always(body_json=PAGE))
    client = client_of(server)
    for load in (
        lambda: ck.load_test_sets(wanted, client=client),
        lambda: ck.pull(wanted, into=tmp_path, client=client),
    ):
        with pytest.raises(ConfigError, match=words):
            load()
    assert server.requests == []


@pytest.mark.parametrize(("more", "words"), [({"workers": 0}, "workers"), ({"on_error": "ignore"}, "on_error")])
def test_arguments_without_sense_are_refused(
    serve: Serve, client_of: ClientOf, more: dict[str, Any], words: str
) -> None:
    """Arguments must be checked before anything is sent, and named."""
    server = serve(always(body_json=PAGE))
    with pytest.raises(ConfigError, match=words):
        ck.load_test_sets(refs(2), client=client_of(server), **more)
    assert server.requests == []


def test_the_first_error_ends_the_others(serve: Serve, client_of: ClientOf) -> None:
    """A load of many that cannot be whole any more must not fetch the rest, and must tell the error that ended it."""
    missing = {"when": {"path_regex": "/s7/"}, "times": "*", **refusal(404, "test-set-not-found")}
    server = serve(missing, *lists(8, pages=50, delay_ms=10))
    with pytest.raises(NotFoundError, match=r"test set s7 1\.0\.0"):
        ck.load_test_sets(refs(8), client=client_of(server), workers=8)
    assert len(server.requests) < 200
    assert left_behind() == []


def test_a_failed_list_does_not_hold_up_the_others(serve: Serve, client_of: ClientOf, tmp_path: Path) -> None:
    """Of many lists pulled to disk those that can be had must be there, and the error must name those that cannot."""
    refused = [{"when": {"path_regex": f"/s{n}/"}, "times": "*", **refusal(403, "permission-denied")} for n in (1, 3)]
    client = client_of(serve(*refused, *lists(5)))
    with pytest.raises(AuthError, match="test set s1") as caught:
        ck.pull(refs(5), into=tmp_path, client=client, workers=2)
    first, *named, last = caught.value.__notes__
    assert first == "2 of 5 failed:"
    starts = [f"  test set {name} 1.0.0: AuthError: " for name in ("s1", "s3")]
    assert [note[: len(starts[0])] for note in named] == starts
    assert all("code permission-denied" in note and "\n" not in note for note in named)
    assert last.startswith("Call pull again to go on")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s0-1.0.0", "s2-1.0.0", "s4-1.0.0"]


def test_an_error_that_is_kept_keeps_nothing_going(serve: Serve, client_of: ClientOf, tmp_path: Path) -> None:
    """While somebody looks at an error, no thread, request or place in the queue may be held by it."""
    bad = {"when": {"path_regex": "/s[0-3]/", "no_query": ["cursor"]}, "times": "*"}
    server = serve(
        {**bad, "body_json": {"data": [case(1, items=7)], "nextCursor": "p1", "hasMore": True}}, *lists(6, pages=9)
    )
    client = client_of(server)
    with pytest.raises(SchemaError) as loaded:
        ck.load_test_set("s0", "1.0.0", client=client)
    assert left_behind() == []
    with pytest.raises(SchemaError) as pulled:
        ck.pull(refs(6), into=tmp_path, client=client, workers=1)
    assert left_behind() == []
    assert client._busy == set()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s4-1.0.0", "s5-1.0.0"]
    assert loaded.value.case_id == pulled.value.case_id == "c-1"


@pytest.mark.parametrize(
    "answer",
    [
        refusal(503, "database-busy"),
        refusal(401, "unauthorized"),
        {"body_text": "<html>"},
        {"body_json": {"data": [case(1, items=7)], "hasMore": False}},
        {"body_json": {"data": [case(1)], "hasMore": True}},
        {"fault": "close-mid-body", "after_bytes": 50, "body_json": PAGE},
    ],
)
def test_a_failed_pull_leaves_what_stood_there(serve: Serve, client_of: ClientOf, tmp_path: Path, answer: Spec) -> None:
    """An error in the middle of a list must leave the old snapshot byte for byte, and nothing beside it."""
    client = client_of(serve(*lists(1)))
    ck.pull(refs(1), into=tmp_path, client=client)
    before = contents(tmp_path)
    broken = {**answer, "when": {"query": {"cursor": "p1"}}, "times": "*"}
    with pytest.raises(ck.CasekitError):
        ck.pull(refs(1), into=tmp_path, client=client_of(serve(broken, *lists(1))))
    assert contents(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["s0-1.0.0"]


def test_unreadable_cases_are_reported_where_asked(serve: Serve, client_of: ClientOf, tmp_path: Path) -> None:
    """Cases in must be cases out plus cases reported, in memory and on disk."""
    body = {"data": [case(1), case(2, items=7), case(3)], "hasMore": False}
    client = client_of(serve(always(body_json=body)))
    with pytest.raises(SchemaError, match="'c-2'"):
        ck.pull([("s0", "1.0.0")], into=tmp_path, client=client)
    [info] = ck.pull([("s0", "1.0.0")], into=tmp_path, client=client, on_error="report")
    assert info.rows("cases") + len(info.report.bad_cases) == 3
    assert [bad.case_id for bad in info.report.bad_cases] == ["c-2"]


def test_request_ids_and_waits_are_reported(serve: Serve, client_of: ClientOf) -> None:
    """Whoever asks the server's operator about a load must know its requests, and how long it waited."""
    busy = refusal(503, "database-busy", {"Retry-After": "0.02"})
    cases = ck.load_test_set(
        "a", "1.0.0", client=client_of(serve(busy, always(body_json=PAGE, headers={"X-Request-Id": "r"})))
    )
    assert (cases.report.request_ids, cases.report.retries, cases.report.waited) == (["r"], 1, 0.02)


@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40))
def test_folders_of_different_sets_differ(one: str, other: str) -> None:
    """Two test sets must never share a folder, and a folder's name must be safe on every system."""
    names = []
    for name in (one, other):
        try:
            names.append(folder_name(name, "1.0.0"))
        except UnicodeEncodeError:  # half a character: no request can hold it either
            return
    assert (names[0] == names[1]) == (one == other)
    for name in names:
        assert name.isascii()
        assert not set(name) & set('/\\:*?"<>| ')
        assert not name.startswith(".")


# ------------------------------------------------------------ disks and processes


def test_a_full_disk_leaves_what_stood_there(serve: Serve, client_of: ClientOf, tmp_path: Path) -> None:
    """A file that cannot grow must end the pull with an error, leave the old snapshot, and no half file."""
    resource = pytest.importorskip("resource", reason="the system has no limits on files")
    client = client_of(serve(*lists(1)))
    ck.pull(refs(1), into=tmp_path, client=client)
    before = contents(tmp_path)
    for most in (0, 100, 3000):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
        try:
            with pytest.raises(SnapshotError, match="File too large"):
                ck.pull(refs(1), into=tmp_path, client=client, max_age=timedelta(0))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert contents(tmp_path) == before
        assert [path.name for path in tmp_path.iterdir()] == ["s0-1.0.0"]


def test_a_place_that_cannot_be_written_is_told(serve: Serve, client_of: ClientOf, tmp_path: Path) -> None:
    """A folder that cannot be made must end the pull with an error that names it."""
    (tmp_path / "file").write_text("mine")
    with pytest.raises(SnapshotError, match="file"):
        ck.pull(refs(1), into=tmp_path / "file", client=client_of(serve(*lists(1))))
    assert (tmp_path / "file").read_text() == "mine"
    if os.geteuid():  # whoever may do everything may also write here
        (tmp_path / "locked").mkdir(mode=0o500)
        with pytest.raises(SnapshotError, match="locked"):
            ck.pull(refs(1), into=tmp_path / "locked", client=client_of(serve(*lists(1))))


def test_two_pulls_of_one_target_leave_it_whole(serve: Serve, client_of: ClientOf, tmp_path: Path) -> None:
    """Of two writers at a time one must win and the other be told, and the snapshot be whole."""
    client = client_of(serve(*lists(1, pages=5, delay_ms=100)))
    outcomes: list[object] = []
    together = threading.Barrier(2)

    def write() -> None:
        together.wait()
        try:
            outcomes.append(ck.pull(refs(1), into=tmp_path, client=client))
        except SnapshotBusyError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["SnapshotBusyError", "list"]
    assert ck.verify_snapshot(tmp_path / "s0-1.0.0").rows("cases") == 10
    assert [path.name for path in tmp_path.iterdir()] == ["s0-1.0.0"]


def test_two_processes_that_write_one_target_leave_it_whole(serve: Serve, tmp_path: Path) -> None:
    """Two processes must not mix their files: each is done or told that the other writes."""
    server = serve(*lists(1, pages=5, delay_ms=50))
    code = f"""if True:
        import sys, casekit as ck
        client = ck.Client({server.url!r}, token={TOKEN!r})
        try:
            ck.pull([("s0", "1.0.0")], into=sys.argv[1], client=client)
        except ck.errors.SnapshotBusyError:
            sys.exit(7)
    """
    command = [sys.executable, "-W", "error", "-c", code, str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": SOURCE}
    processes = [subprocess.Popen(command, env=environment) for _ in range(2)]
    assert {process.wait(60) for process in processes} <= {0, 7}
    assert ck.verify_snapshot(tmp_path / "s0-1.0.0").rows("cases") == 10
    assert [path.name for path in tmp_path.iterdir()] == ["s0-1.0.0"]


# ------------------------------------------------------------ Ctrl-C


def seconds_to_end(work: Callable[[], object], after: float) -> float | None:
    """Do some work and send SIGINT to this thread after a while: how long it took to end; None if it had ended."""
    over, sent = threading.Event(), [0.0]
    armed = True

    def handle(number: int, frame: FrameType | None) -> None:
        if armed:
            raise KeyboardInterrupt

    def send() -> None:
        if not over.wait(after):
            sent[0] = time.monotonic()
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    before = signal.signal(signal.SIGINT, handle)
    thread = threading.Thread(target=send)
    try:
        thread.start()
        work()
        armed = False
    except KeyboardInterrupt:
        armed = False
        return time.monotonic() - sent[0]
    finally:
        over.set()
        thread.join()
        signal.signal(signal.SIGINT, before)
    return None


def moments() -> Iterator[float]:
    """Moments of a pull that takes about 0.2 s, from before its first request to its end."""
    yield from (n * 0.02 for n in range(12))


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="the system sends no signals to threads")
@pytest.mark.parametrize("workers", [1, 4])
def test_ctrl_c_at_any_moment_leaves_every_snapshot_whole(serve: Serve, tmp_path: Path, workers: int) -> None:
    """An interrupted pull must end at once, leave old or new snapshots whole, no other file, and no thread."""
    server = serve(*lists(3, pages=4, size=10, delay_ms=10))
    interrupted = 0
    with ck.Client(server.url, token=TOKEN, retry=QUICK) as client:
        old = ck.load_test_set("s0", "1.0.0", client=client).where(lambda cases: cases["case_id"] == "c-0-0")
        for n, seconds in enumerate(moments()):
            into = tmp_path / str(n)
            for ref in refs(3):
                ck.write_snapshot(old, into / folder_name(*ref))
            took = seconds_to_end(lambda: ck.pull(refs(3), into=into, client=client, workers=workers), seconds)  # noqa: B023
            interrupted += took is not None
            assert (took or 0.0) < 2
            assert left_behind() == []
            assert sorted(path.name for path in into.iterdir()) == [folder_name(*ref) for ref in refs(3)]
            for ref in refs(3):
                assert ck.verify_snapshot(into / folder_name(*ref)).rows("cases") in (1, 40)
    assert interrupted >= 3


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="the system sends no signals to threads")
@pytest.mark.parametrize(
    "answer", [{"fault": "hang"}, refusal(503, "database-busy", {"Retry-After": "50"}), {"delay_ms": 50_000}]
)
@pytest.mark.parametrize("what", ["load", "pages", "write"])
def test_ctrl_c_ends_any_wait_at_once(serve: Serve, answer: Spec, what: str) -> None:
    """Waiting for an answer or between attempts must end with the interrupt, whoever waits."""
    server = serve(always(**answer))
    with ck.Client(server.url, token=TOKEN) as client:
        calls: dict[str, Callable[[], object]] = {
            "load": lambda: ck.load_test_set("a", "1.0.0", client=client),
            "pages": lambda: list(client.test_set_pages("a", "1.0.0")),
            "write": lambda: client.retire_case("acme.a", "case-1", reason="gone"),
        }
        took = seconds_to_end(calls[what], 0.15)
        assert took is not None
        assert took < 2
        assert left_behind() == []
    assert len(server.requests) == 1


def test_a_busy_error_names_the_wait(serve: Serve, client_of: ClientOf) -> None:
    """After all waiting the message must say how often and how long."""
    with pytest.raises(
        BusyError, match=r"\(status 503, code database-busy, request id req-1, 4 attempts, 0\.\d s waited\)"
    ):
        ck.load_test_set("a", "1.0.0", client=client_of(serve(always(**refusal(503, "database-busy")))))
