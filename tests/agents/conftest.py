"""Case sets made of documents, a local server with an agent's test set, and a state folder of each test's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from casekit.caseset import CaseSet
from casekit.client import Client, Retry
from casekit.report import PullReport
from casekit.server import LocalServer
from casekit.wire import Reader, joined

AGENT = "acme.drafting"
PROJECT = "00000000-0000-4000-8000-000000000001"
DATA = Path(__file__).parents[1] / "data" / "tau_airline_calls"

Document = dict[str, Any]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that the write journal of this test is in."""
    monkeypatch.setenv("CASEKIT_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


def _frozen(pages: Sequence[bytes], test_set_id: str, version: str) -> CaseSet:
    return CaseSet(joined(Reader.corrections(test_set_id, version, PullReport(), "raise").groups(iter(pages))))


@pytest.fixture
def frozen() -> Callable[..., CaseSet]:
    """Make a CaseSet of case documents; each gets what it lacks."""

    def make(*cases: Document, test_set_id: str = "acme.set", version: str = "1.0.0") -> CaseSet:
        base = {
            "subject": {"kind": "agent", "id": AGENT, "version": "1.4.0"},
            "input": "in",
            "output": "out",
            "items": [],
        }
        whole = [base | case for case in cases]
        return _frozen([json.dumps({"data": whole, "hasMore": False}).encode()], test_set_id, version)

    return make


@pytest.fixture(scope="session")
def airline() -> CaseSet:
    """Return the 200 airline runs with their calls."""
    return _frozen([page.read_bytes() for page in sorted(DATA.glob("page-*.json"))], "tau.airline", "1.0.0")


@pytest.fixture(scope="session")
def airline_expected() -> dict[str, Any]:
    """Return the figures counted without casekit."""
    expected: dict[str, Any] = json.loads((DATA / "expected.json").read_bytes())
    return expected


@pytest.fixture
def server() -> Iterator[LocalServer]:
    """Return a running server; ``acme.drafting`` has three finished runs and the live cases ``cor-1`` to ``cor-3``."""
    with LocalServer() as running:
        for number in (1, 2, 3):
            running.add_run(AGENT, f"run-{number}", version="1.4.0", output={"matches": [{"id": "m-1"}, {"id": "m-2"}]})
            running.add_agent_case(AGENT, live_document(f"cor-{number}"))
        yield running


def live_document(case_id: str, **more: Any) -> Document:
    """Return a case of a live test set, as the list gives it."""
    when = "2026-03-01T09:00:00Z"
    return {
        "id": case_id,
        "kind": "correction",
        "projectId": PROJECT,
        "runId": f"run-of-{case_id}",
        "madeOn": "1.3.0",
        "expect": {"answer": {"verdict": "right"}},
        "addedBy": {"kind": "user", "id": "reviewer-1"},
        "addedAt": when,
        "updatedAt": when,
    } | more


@pytest.fixture
def live_case() -> Callable[..., Document]:
    """Make a case of a live test set."""
    return live_document


@pytest.fixture
def client(server: LocalServer) -> Iterator[Client]:
    """Return a client of the server that waits little."""
    with Client(server.url, token=server.token, retry=QUICK) as made:
        yield made


QUICK = Retry(budget=10.0, attempts=4, first=0.001, most=0.002)
