from __future__ import annotations

import asyncio
import random
import sqlite3
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import casekit as ck
from casekit import journal as journal_module
from casekit.errors import BusyError, ConflictError, ServerError, TransportError
from casekit.http.connection import Answer, Connection, Lost, Request, head
from casekit.http.secret import Token
from casekit.journal import Journal
from casekit.server.app import Api
from casekit.server.faults import Fault, Faults
from casekit.server.store import Store

AGENT = "acme.drafting"
URL = "http://127.0.0.1:9"
RUNS = 1000
IMPATIENT = ck.Retry(budget=5.0, attempts=2, first=0.0001, most=0.0001)


class Process:
    """The local server without sockets, so that thousands of requests take seconds; its data are in a file.

    A request goes to the same application, and ends in the same database, as over HTTP.
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.up = False
        self.faults = Faults()
        self.start()

    def start(self) -> None:
        """Begin a new process, which knows what is in the file and nothing else."""
        self.store = Store(str(self.file))
        self.store._db.execute("PRAGMA synchronous = OFF")  # here processes die, and not the machine
        self.faults = Faults()
        self.api = Api(self.store, self.faults, deque(), asyncio.Event(), lambda client: None)
        self.up = True

    def stop(self) -> None:
        """End the process."""
        self.store.close()
        self.up = False

    def answer(self, request: Request, token: Token) -> Answer | Lost:
        """Answer a request in the place of `Connection.send`."""
        if not self.up:
            return Lost("connect")
        path, _, query = request.target.partition("?")
        headers = {"Authorization": token.header(), **head(request)}.items()
        scope = {
            "type": "http",
            "method": request.method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
            "client": ("127.0.0.1", 1),
        }
        received = iter([{"type": "http.request", "body": request.body or b""}, {"type": "http.disconnect"}])
        sent: list[Any] = []

        async def receive() -> Any:
            return next(received)

        async def send(message: Any) -> None:
            sent.append(message)

        work = self.api(scope, receive, send)
        with pytest.raises(StopIteration):  # nothing in there waits, so that no event loop is needed
            work.send(None)
        if not sent:
            return Lost("broken")
        return Answer(sent[0]["status"], sent[1]["body"], None, "application/json", None, framed=True)


class Died(BaseException):
    """The process of a writer ends here."""


@dataclass(frozen=True)
class Intent:
    """A write that a person wants once: an addition of a run, or a retirement of a case."""

    kind: str
    subject: str
    reason: str = ""


class Writer:
    """A person with a notebook that dies now and then, and whose cells are then run again."""

    def __init__(self, name: str, intents: list[Intent]) -> None:
        self.name, self.intents = name, list(intents)
        self.client: ck.Client | None = None
        self.added: dict[str, str] = {}

    def step(self) -> None:
        """Run the cell of the first intent that has no outcome yet."""
        if self.client is None:
            self.client = ck.Client(URL, token=self.name, retry=IMPATIENT)
        intent = self.intents[0]
        try:
            if intent.kind == "add":
                self.added[intent.subject] = self.client.add_case(AGENT, intent.subject, decisions="right").id
            else:
                self.client.retire_case(AGENT, intent.subject, reason=intent.reason)
        except ConflictError as error:
            if error.code != "test-case-retired":
                raise
        except (TransportError, BusyError, ServerError, Died):
            self.restart()
            return
        self.intents.pop(0)

    def restart(self) -> None:
        """End the process; what it knew is gone, but for its journal."""
        if self.client is not None:
            self.client.close()
        self.client = None


@contextmanager
def trouble(chance: random.Random, server: Process) -> Iterator[None]:
    """What goes wrong during one step."""
    kind = chance.choice(["none", "none", "lose", "busy", "fail", "restart", "away", "die unsent", "die unsettled"])
    patch = pytest.MonkeyPatch()
    if kind == "lose":
        server.faults.add(Fault("lose", chance.randint(1, 2), "POST"))
    elif kind == "busy":
        server.faults.add(Fault("fail", chance.randint(1, 2), "POST", status=503, code="database-busy"))
    elif kind == "fail":
        server.faults.add(Fault("fail", 1, "POST", status=500, code="internal"))
    elif kind in ("restart", "away"):
        server.stop()
        if kind == "restart":
            server.start()
    elif kind == "die unsent":
        patch.setattr(Connection, "send", dying)
    elif kind == "die unsettled":
        patch.setattr(Journal, "settle", dying)
    try:
        yield
    finally:
        patch.undo()
        if kind == "away":
            server.start()


def dying(*_: Any, **__: Any) -> Any:
    """End the process in the place of something else."""
    raise Died


@pytest.fixture
def quick_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the journal not wait for the disk."""
    monkeypatch.setattr(journal_module, "SYNCHRONOUS", "OFF")


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    """Return a server process that every client of this test talks to, with two callers."""
    with ck.LocalServer(tmp_path / "server.db", token="local") as filling:
        for name in ("one", "two"):
            filling.add_token(name, caller_id=name)
    made = Process(tmp_path / "server.db")

    def send(self: Connection, request: Request, token: Token, **more: Any) -> Answer | Lost:
        return made.answer(request, token)

    monkeypatch.setattr(Connection, "send", send)
    yield made
    made.stop()


def fill(file: Path, live_case: Callable[..., dict[str, Any]]) -> None:
    """Give the server a run and a case for each writer in each interleaving, and one case for both."""
    with ck.LocalServer(file, token="local") as filling:
        for run in range(RUNS):
            for name in ("one", "two", "both"):
                filling.add_agent_case(AGENT, live_case(f"cor-{run}-{name}"))
            for name in ("one", "two"):
                filling.add_run(AGENT, f"run-{run}-{name}")


@pytest.mark.usefixtures("quick_journal")
def test_a_thousand_interleavings_do_each_write_exactly_once(
    process: Process, live_case: Callable[..., dict[str, Any]]
) -> None:
    """Two writers, lost answers, a busy or failing server, restarts of it, and processes that die at every point.

    Each writer adds a case and retires one, its own or one that the other may want to retire too. In the end each
    addition is there once, each retirement has the reason of one who wanted it, and no key is left in the journal.
    """
    fill(process.file, live_case)
    added: dict[str, str] = {}
    wanted: set[str] = set()
    for run in range(RUNS):
        chance = random.Random(run)
        writers = []
        for name in ("one", "two"):
            which = chance.choice([name, "both"])
            wanted.add(f"cor-{run}-{which}")
            intents = [Intent("add", f"run-{run}-{name}"), Intent("retire", f"cor-{run}-{which}", f"{run} for {name}")]
            chance.shuffle(intents)
            writers.append(Writer(name, intents))
        while busy := [writer for writer in writers if writer.intents]:
            with trouble(chance, process):
                chance.choice(busy).step()
        for writer in writers:
            added |= writer.added
            writer.restart()
    with ck.Client(URL, token="one") as client:
        cases = ck.load_agent_cases(AGENT, client=client, progress=False).cases
    by_hand = cases[cases["kind"] == "hand"]
    once = {f"run-{run}-{name}": 1 for run in range(RUNS) for name in ("one", "two")}
    assert Counter(by_hand["run_id"]) == once
    assert dict(zip(by_hand["run_id"], by_hand["case_id"], strict=True)) == added
    retired = cases[cases["retired"]].set_index("case_id")
    assert set(retired.index) == wanted
    for case, (reason, by) in zip(retired.index, retired[["retired_reason", "retired_by_id"]].values, strict=True):
        _, number, whose = str(case).split("-")
        assert reason == f"{number} for {by}"
        assert whose in (by, "both")
    assert not open_keys()


def open_keys() -> int:
    """Return how many writes the journal has."""
    db = sqlite3.connect(Journal().file)
    (count,) = db.execute("SELECT count(*) FROM writes").fetchone()
    db.close()
    return int(count)


@pytest.mark.usefixtures("quick_journal")
def test_writers_at_the_same_time_do_each_write_exactly_once(server: ck.LocalServer) -> None:
    """Over HTTP, threads of two callers add at once while answers are lost; each run has one case in the end."""
    runs = [(name, f"run-{name}-{number}") for number in range(20) for name in ("one", "two")]
    for _, run in runs:
        server.add_run(AGENT, run)
    for name in ("one", "two"):
        server.add_token(name, caller_id=name)
    patient = ck.Retry(budget=20.0, attempts=30, first=0.001, most=0.002)
    clients = {name: ck.Client(server.url, token=name, retry=patient) for name in ("one", "two")}
    server.lose_next(25, method="POST")
    server.fail_next(503, "database-busy", retry_after=None, times=25, method="POST")
    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(lambda job: clients[job[0]].add_case(AGENT, job[1], decisions="right").id, runs))
    cases = ck.load_agent_cases(AGENT, client=clients["one"], progress=False).cases
    cases = cases[cases["kind"] == "hand"]
    assert sorted(cases["case_id"]) == sorted(ids)
    assert sorted(cases["run_id"]) == sorted(run for _, run in runs)
    assert not open_keys()
    for client in clients.values():
        client.close()
