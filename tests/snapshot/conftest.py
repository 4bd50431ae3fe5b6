"""Cases to keep, and what is looked at in the folders they are kept in."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from documents_strategy import page

from casekit import files
from casekit.caseset import CaseSet
from casekit.report import PullReport
from casekit.source import Source
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
from casekit.caseset import CaseSet
from casekit.source import Source
from casekit.report import PullReport
from casekit.wire import Reader, joined
from casekit import files, snapshot
from casekit.snapshots import target as targets, writer

def made(*ids):
    subject = {"kind": "agent", "id": "acme.a", "version": "1.0.0"}
    import json
    cases = [{"caseId": i, "subject": subject, "input": None, "output": "WORDS", "items": []} for i in ids]
    body = json.dumps({"data": cases, "hasMore": False}).encode()
    return joined(Reader.corrections("acme.a", "1.0.0", PullReport()).groups([body]))

source = Source(test_sets=(("acme.a", "1.0.0"),), fetched_at=datetime(2025, 1, 2, tzinfo=UTC))
target = sys.argv[1]
"""


def _script(body: str, folder: Path | str) -> subprocess.Popen[str]:
    """A process that works on a snapshot."""
    text = SCRIPT + textwrap.dedent(body)
    environment = {**os.environ, "PYTHONPATH": str(Path(files.__file__).parents[1])}
    return subprocess.Popen(
        [sys.executable, "-c", text, str(folder)], stdout=subprocess.PIPE, text=True, env=environment
    )


@pytest.fixture
def process() -> Callable[[str, Path | str], subprocess.Popen[str]]:
    """Start a process that works on a snapshot; ``target`` is its folder, ``made`` makes tables, ``source`` is one."""
    return _script


S3_SERVER = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""
BUCKETS = itertools.count()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """Run a server of the S3 protocol, in a process of its own that ends with its standard input."""
    with subprocess.Popen(
        [sys.executable, "-c", S3_SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as running:
        assert running.stdout is not None
        yield f"http://127.0.0.1:{int(running.stdout.readline())}"


@pytest.fixture
def bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give the URL of an empty bucket, with the settings of the environment that lead s3fs there."""
    import s3fs

    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "KEYMARK")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SECRETMARK")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3fs.S3FileSystem.clear_instance_cache()
    name = f"bucket-{next(BUCKETS)}"
    s3fs.S3FileSystem().mkdir(name)
    yield f"s3://{name}"
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def memory() -> Iterator[str]:
    """Give the URL of an empty folder in this process's memory."""
    import fsspec

    filesystem = fsspec.filesystem("memory")
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]
    yield "memory://snapshots"
    filesystem.store.clear()
    filesystem.pseudo_dirs[:] = [""]


def stored_at(url: str) -> dict[str, bytes]:
    """Every byte below a URL, by name."""
    from fsspec.core import url_to_fs

    filesystem, path = url_to_fs(url)
    filesystem.invalidate_cache()
    return {name.removeprefix(f"{path}/"): filesystem.cat_file(name) for name in filesystem.find(path)}


@pytest.fixture
def bytes_at() -> Callable[[str], dict[str, bytes]]:
    """Give every byte below a URL."""
    return stored_at


@pytest.fixture
def own_locks(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each thread a folder for temporary files of its own, so that they are as two machines to each other."""
    folder = tmp_path_factory.mktemp("machines")

    def own() -> str:
        mine = folder / threading.current_thread().name
        mine.mkdir(exist_ok=True)
        return str(mine)

    monkeypatch.setattr("casekit.files.tempfile.gettempdir", own)
