"""Cases to keep, and what is looked at in the folders they are kept in."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from documents_strategy import page

from casekit import files
from casekit.caseset import CaseSet, Source
from casekit.report import PullReport
from casekit.wire import Reader, joined

Made = Callable[..., CaseSet]
WHEN = datetime(2025, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def case(case_id: str, **members: Any) -> dict[str, Any]:
    """A plain case."""
    subject = {"kind": "agent", "id": "acme.a", "version": "1.0.0"}
    item = {
        "key": "k",
        "yes": 1,
        "no": 0,
        "yesWeight": 1,
        "totalWeight": 1,
        "reasons": [{"verdict": "yes", "reason": "R"}],
    }
    return {"caseId": case_id, "subject": subject, "input": {"n": 1}, "output": "words", "items": [item], **members}


@pytest.fixture
def made() -> Made:
    """Make a CaseSet of some case ids, or documents."""

    def make(*given: str | dict[str, Any], test_set_id: str = "acme.a", version: str = "1.0.0") -> CaseSet:
        documents = [case(one) if isinstance(one, str) else one for one in given]
        report = PullReport()
        tables = joined(Reader.corrections(test_set_id, version, report).groups([page(documents)]))
        source = Source(test_sets=((test_set_id, version),), origin="http://127.0.0.1:8765", fetched_at=WHEN)
        return CaseSet(tables, source, report)

    return make


@pytest.fixture
def live() -> Made:
    """Make the live test set of an agent."""

    def make(agent_id: str, *ids: str) -> CaseSet:
        documents = [
            {
                "id": case_id,
                "kind": "hand",
                "projectId": "p",
                "runId": "r",
                "madeOn": "1.0.0",
                "expect": {},
                "addedBy": {"kind": "user", "id": "u"},
                "addedAt": "2025-01-02T03:04:05.678Z",
                "updatedAt": "2025-01-02T03:04:05Z",
            }
            for case_id in ids
        ]
        report = PullReport()
        tables = joined(Reader.agent(agent_id, report).groups([page(documents)]))
        return CaseSet(tables, Source(agent_id=agent_id, fetched_at=WHEN), report)

    return make


def state(folder: Path) -> dict[str, bytes]:
    """Every byte below a folder, by name, hidden files among them."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def bytes_of() -> Callable[[Path], dict[str, bytes]]:
    """Give every byte below a folder."""
    return state


@pytest.fixture(params=["exchange", "two steps"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of swapping: in one step where the system can, in two where it cannot."""
    if request.param == "two steps":
        monkeypatch.setattr(files, "exchanged", lambda one, other: False)
    way: str = request.param
    return way


SCRIPT = """
import sys, time
from datetime import UTC, datetime
from casekit.caseset import CaseSet, Source
from casekit.report import PullReport
from casekit.wire import Reader, joined
from casekit import files, snapshot, writer

def made(*ids):
    subject = {"kind": "agent", "id": "acme.a", "version": "1.0.0"}
    import json
    cases = [{"caseId": i, "subject": subject, "input": None, "output": "WORDS", "items": []} for i in ids]
    body = json.dumps({"data": cases, "hasMore": False}).encode()
    return joined(Reader.corrections("acme.a", "1.0.0", PullReport()).groups([body]))

source = Source(test_sets=(("acme.a", "1.0.0"),), fetched_at=datetime(2025, 1, 2, tzinfo=UTC))
target = sys.argv[1]
"""


def _script(body: str, folder: Path) -> subprocess.Popen[str]:
    """A process that works on a snapshot."""
    text = SCRIPT + textwrap.dedent(body)
    environment = {**os.environ, "PYTHONPATH": str(Path(files.__file__).parents[1])}
    return subprocess.Popen(
        [sys.executable, "-c", text, str(folder)], stdout=subprocess.PIPE, text=True, env=environment
    )


@pytest.fixture
def process() -> Callable[[str, Path], subprocess.Popen[str]]:
    """Start a process that works on a snapshot; ``target`` is its folder, ``made`` makes tables, ``source`` is one."""
    return _script
