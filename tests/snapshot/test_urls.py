"""URLs of any kind: what is taken for one, what is shown of it, and what writers may do to each other there."""

from __future__ import annotations

import functools
import http.server
import json
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from documents_strategy import Document, cases, page
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from casekit.caseset import CaseSet
from casekit.errors import CasekitError, ConfigError, MissingExtraError, SnapshotBusyError, SnapshotError
from casekit.report import PullReport
from casekit.schema import TABLES
from casekit.snapshot import read_snapshot, snapshot_info, verify_snapshot, write_snapshot
from casekit.snapshots import remote, target
from casekit.snapshots.manifest import SnapshotInfo
from casekit.snapshots.remote import RemoteFolder, inside, without_secrets
from casekit.snapshots.target import standing
from casekit.source import Source
from casekit.wire import Reader, joined

Made = Callable[..., CaseSet]
Bytes = Callable[[str], dict[str, bytes]]


# ---------------------------------------------------------------- what is a URL, and what is shown of it


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("s3://bucket/a", "s3://bucket/a"),
        ("s3://KEY:WORD@bucket/a", "s3://bucket/a"),
        ("ftp://someone:W@RD@host/a", "ftp://host/a"),
        ("ftp://someone:W/RD@host/a", "ftp://host/a"),
        ("ftp://someone:W?RD@host/a", "ftp://host/a"),
        ("ftp://host:21/a@b", "ftp://host:21/a@b"),
        ("s3://bucket/a:b@c", "s3://bucket/a:b@c"),
        ("https://host/a?signature=WORD", "https://host/a"),
        ("https://host/a#token=WORD", "https://host/a"),
        ("s3://bucket/a#1", "s3://bucket/a#1"),
        ("simplecache::ftp://someone:WORD@host/a", "simplecache::ftp://host/a"),
        ("s3://bucket/a\n\x1b[31m", "s3://bucket/a\\n\\x1b[31m"),
        ("C:\\data\\a?b", "C:\\data\\a?b"),
        ("c://data/x@y?z", "c://data/x@y?z"),
        ("data/a?b@c", "data/a?b@c"),
    ],
)
def test_what_is_shown_of_a_place(url: str, shown: str) -> None:
    """A URL is shown without user, password, query and fragment; a path, also one of Windows, as it is."""
    assert without_secrets(url) == shown


@pytest.mark.parametrize(
    ("folder", "place"),
    [
        ("s3://bucket", "s3://bucket/x"),
        ("s3://bucket/a/", "s3://bucket/a/x"),
        ("https://host/a?signature=WORD", "https://host/a/x?signature=WORD"),
        ("snapshots", Path("snapshots/x")),
        (Path("snapshots"), Path("snapshots/x")),
    ],
)
def test_a_name_in_a_folder(folder: str | Path, place: str | Path) -> None:
    """A name is joined to a path as a path is, and to a URL before its query."""
    assert inside(folder, "x") == place


def test_a_path_with_a_colon_is_no_url(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks like a drive of Windows is a path on this machine, as is any text without a scheme."""
    monkeypatch.chdir(tmp_path)
    for name in ("C:\\data\\a", "c://data", "a::b"):
        write_snapshot(made("a"), name)
        assert len(read_snapshot(name)) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["C:\\data\\a", "a::b", "c:"]


def test_a_url_that_came_through_pathlib(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Path made of a URL has lost a slash: it is refused, and no folder of that name is made."""
    monkeypatch.chdir(tmp_path)
    for work in (lambda path: write_snapshot(made("a"), path), read_snapshot, snapshot_info, verify_snapshot):
        with pytest.raises(ConfigError, match=r"give the URL s3://\.\.\. as a text"):
            work(Path("s3://bucket/a"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scheme", ["file", "local"])
def test_a_url_of_this_machine_is_a_path(made: Made, tmp_path: Path, scheme: str) -> None:
    """A file URL is the folder it names: swapped in, locked, and of the same bytes."""
    url = f"{scheme}://{tmp_path}"
    assert write_snapshot(made("a"), f"{url}/s").generation is None
    assert [path.name for path in tmp_path.iterdir()] == ["s"]
    assert read_snapshot(f"{url}/s").source.folders == (str(tmp_path / "s"),)
    for place in (url, f"{url}/*"):
        assert len(read_snapshot(place)) == 1
    assert snapshot_info(f"{url}/s") == verify_snapshot(tmp_path / "s") == standing(f"{url}/s")


@pytest.mark.parametrize("url", ["memory://", "memory:///", "s3://"])
def test_a_url_without_a_folder(made: Made, url: str) -> None:
    """The root of a storage is no folder of a snapshot."""
    for work in (lambda place: write_snapshot(made("a"), place), read_snapshot):
        with pytest.raises(ConfigError, match=r"names no folder: give one, such as \w+://"):
            work(url)


@pytest.mark.parametrize("url", ["nonsense://a/b", "x-y.z+1://WORD:WORD@a/b?WORD"])
def test_a_url_of_an_unknown_kind(made: Made, url: str) -> None:
    """A scheme that fsspec does not know is told, without the URL's secrets."""
    for work in (lambda place: write_snapshot(made("a"), place), read_snapshot):
        with pytest.raises(ConfigError, match=r"a/b cannot be used: fsspec knows no such kind of URL") as caught:
            work(url)
        assert "WORD" not in str(caught.value)


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without fsspec, or the package for a storage, the error says what to install."""
    from fsspec.registry import known_implementations

    monkeypatch.setitem(known_implementations, "none", {"class": "no_such_package.Files", "err": "Install nothing"})
    with pytest.raises(MissingExtraError, match=r"^none://a/b needs one package more: Install nothing\.$"):
        read_snapshot("none://WORD@a/b")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(
        MissingExtraError, match=r"^s3://a/b is reached through fsspec: pip install 'casekit\[remote\]'"
    ):
        read_snapshot("s3://WORD@a/b")


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ValueError("WORD"), ConfigError, "a/b cannot be used: fsspec cannot take it apart"),
        (ConnectionRefusedError(111, "WORD"), SnapshotError, r"a/b cannot be reached \(Connection refused\): "),
    ],
)
def test_a_storage_that_cannot_be_begun(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[CasekitError], message: str
) -> None:
    """What a library raises when it is made is told by its kind alone."""

    def refused(url: str) -> None:
        raise error

    monkeypatch.setattr("fsspec.core.url_to_fs", refused)
    with pytest.raises(kind, match=message) as caught:
        read_snapshot("s3://a/b")
    assert "WORD" not in str(caught.value)


def test_secrets_of_a_url_are_nowhere(made: Made, memory: str, bytes_at: Bytes) -> None:
    """Neither error, nor repr, nor source, nor manifest has what gives access: only fsspec is told."""
    url = "memory://someone:WORD@host/a?signature=WORD"
    write_snapshot(made("a"), url)
    found = read_snapshot(url)
    assert found.source.folders == ("memory://host/a",)
    told = [repr(found), repr(found.source), found._repr_html_(), repr(RemoteFolder.at(url)), repr(snapshot_info(url))]
    for text in bytes_at(url).values():
        assert b"WORD" not in text
    for work in (read_snapshot, snapshot_info, verify_snapshot, standing):
        with pytest.raises(SnapshotError) as caught:
            work(url.replace("host", "elsewhere"))
        assert caught.value.__context__ is None or caught.value.__suppress_context__
        told.append(repr(caught.value))
    with pytest.raises(SnapshotError) as caught:
        read_snapshot("memory://someone:W*RD@host/x-*")
    told.append(str(caught.value))
    assert not [text for text in told if "WORD" in text or "W*RD" in text]


# ---------------------------------------------------------------- what comes back


@given(cases(plain=False))
@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_cases_come_back(memory: str, given_cases: list[Document]) -> None:
    """Generated cases of every kind come back from a URL, and verify."""
    report = PullReport()
    tables = joined(Reader.corrections("acme.a", "1.0.0", report).groups([page(given_cases)]))
    written = write_snapshot(CaseSet(tables, Source((("acme.a", "1.0.0"),)), report), f"{memory}/a")
    found = read_snapshot(f"{memory}/a")
    for name in TABLES:
        assert found.arrow(name).equals(tables[name])
    assert verify_snapshot(f"{memory}/a") == written


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files, and keeps what it was asked for."""

    asked: ClassVar[list[str]] = []

    def log_message(self, *_: Any) -> None:
        self.asked.append(self.path)


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """Serve a folder over HTTP."""
    handler = functools.partial(_Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_a_web_server_is_read(made: Made, tmp_path: Path, web: str) -> None:
    """A snapshot that a plain web server serves is read, every request with the query of its URL."""
    write_snapshot(made("a"), tmp_path / "s")
    _Quiet.asked.clear()
    found = read_snapshot(f"{web}/s?signature=WORD")
    assert found.items["case_id"].tolist() == ["a"]
    assert found.source.folders == (f"{web}/s",)
    assert all(path.endswith("?signature=WORD") for path in _Quiet.asked)
    with pytest.raises(SnapshotError, match=r"nowhere has no snapshot\.json"):
        read_snapshot(f"{web}/nowhere")


@pytest.mark.parametrize(
    "name", ["../../secret", "g-0123456789abcdeF", "g-0123456789abcdef/..", "g-0123456789abcdef\n", ""]
)
def test_a_generation_leads_nowhere_else(made: Made, tmp_path: Path, memory: str, name: str) -> None:
    """A manifest that names another folder than a generation is refused, on a disk and at a URL."""
    import fsspec

    write_snapshot(made("a"), tmp_path / "s")
    path = tmp_path / "s" / "snapshot.json"
    text = json.dumps({**json.loads(path.read_bytes()), "generation": name}).encode()
    path.write_bytes(text)
    fsspec.filesystem("memory").pipe_file(f"{memory}/s/snapshot.json", text)
    for place in (tmp_path / "s", f"{memory}/s"):
        with pytest.raises(SnapshotError, match=r"snapshot.json cannot be read \(ValidationError\)"):
            read_snapshot(place)


def test_a_link_is_no_generation(made: Made, tmp_path: Path) -> None:
    """A generation that is a symbolic link to elsewhere is not followed."""
    written = write_snapshot(made("a"), tmp_path / "elsewhere")
    (tmp_path / "s").mkdir()
    generation = "g-0123456789abcdef"
    (tmp_path / "s" / generation).symlink_to(tmp_path / "elsewhere")
    members = json.loads(written.to_json()) | {"generation": generation}
    (tmp_path / "s" / "snapshot.json").write_text(json.dumps(members))
    assert snapshot_info(tmp_path / "s").generation == generation
    with pytest.raises(SnapshotError, match="is missing or no plain file"):
        read_snapshot(tmp_path / "s")


# ---------------------------------------------------------------- two writers, step by step

PUT_TEXT = RemoteFolder.put_text
STEPS = ("put", "put_text", "text", "files", "names", "remove", "stamps")


class Turns:
    """Lets two writers take their steps in a given order, and looks at the storage after each.

    Parameters
    ----------
    url
        What they write.
    order
        Which of the two takes the next step; once that one is done, or the order at its end, the other does.
    late
        Both take turns from where they put a manifest, and not before.
    """

    def __init__(self, url: str, order: Sequence[int], *, late: bool) -> None:
        self.url, self.order, self.late = url, list(order), late
        self.began: set[str] = set()
        self.may = [threading.Semaphore(0), threading.Semaphore(0)]
        self.waits: queue.Queue[tuple[int, bool]] = queue.Queue()
        self.ended: list[CasekitError | SnapshotInfo | None] = [None, None]

    def step(self, real: Callable[..., Any], *args: Any) -> Any:
        """A step of a writer, once it may."""
        name = threading.current_thread().name
        if "snapshot.json" in args and real is PUT_TEXT:
            self.began.add(name)
        if name in ("0", "1") and (name in self.began or not self.late):
            self.waits.put((int(name), False))
            self.may[int(name)].acquire()
        return real(*args)

    def write(self, who: int, states: Sequence[CaseSet]) -> None:
        """What a writer does."""
        try:
            for state in states:
                self.ended[who] = write_snapshot(state, self.url)
        except CasekitError as error:
            self.ended[who] = error
        finally:
            self.waits.put((who, True))

    def run(self, states: Sequence[Sequence[CaseSet]], look: Callable[[], None]) -> None:
        """Have both write to their end."""
        threads = [threading.Thread(target=self.write, args=(n, states[n]), name=str(n)) for n in (0, 1)]
        for thread in threads:
            thread.start()
        running, waiting = {0, 1}, set[int]()
        try:
            while running:
                while running - waiting:
                    who, over = self.waits.get(timeout=30)
                    (running.discard if over else waiting.add)(who)
                look()
                if waiting:
                    wanted = self.order.pop(0) if self.order else 0
                    who = wanted if wanted in waiting else next(iter(waiting))
                    waiting.discard(who)
                    self.may[who].release()
        finally:
            for may in self.may:
                may.release(1000)
            for thread in threads:
                thread.join()


LONG = st.lists(st.tuples(st.integers(0, 1), st.integers(1, 30)), min_size=2, max_size=8).map(
    lambda runs: [who for who, steps in runs for _ in range(steps)]
)
SHORT = st.lists(st.integers(0, 1), min_size=8, max_size=18)


@pytest.mark.parametrize("late", [False, True])
@given(st.data())
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_manifest_without_its_files(
    made: Made, memory: str, own_locks: None, bytes_at: Bytes, late: bool, data: st.DataObject
) -> None:
    """In whatever order two writers take their steps, the files of the manifest that stands are there, whole.

    At the end one state stands, and nothing else but what a writer has told of.
    """
    import fsspec

    fsspec.filesystem("memory").store.clear()
    write_snapshot(made("before"), f"{memory}/a")
    turns = Turns(f"{memory}/a", data.draw(SHORT if late else LONG), late=late)
    times = data.draw(st.integers(1, 1 if late else 2))

    def look() -> None:
        found = bytes_at(f"{memory}/a")
        info = SnapshotInfo.from_json(found["snapshot.json"], "a")
        for name, file in info.files.items():
            assert len(found[f"{info.generation}/{name}"]) == file.bytes

    with pytest.MonkeyPatch.context() as patch:
        for name in STEPS:
            patch.setattr(RemoteFolder, name, functools.partialmethod(_stepped, turns, getattr(RemoteFolder, name)))
        for module in (target, remote):
            patch.setattr(module, "each", lambda work, things, threads=1: [work(thing) for thing in things])
        turns.run([[made("one"), made("three")][:times], [made("two"), made("four")][:times]], look)
    verified = snapshot_info(f"{memory}/a")
    told = [str(end) for end in turns.ended if isinstance(end, SnapshotBusyError)]
    assert all(isinstance(end, (SnapshotInfo, SnapshotBusyError)) for end in turns.ended)
    left = {name.partition("/")[0] for name in bytes_at(f"{memory}/a")} - {"snapshot.json", verified.generation}
    assert all(any(name in message for message in told) for name in left)
    assert read_snapshot(f"{memory}/a").items["case_id"].tolist()[0] in ("one", "two", "three", "four")


def _stepped(folder: RemoteFolder, turns: Turns, real: Callable[..., Any], *args: Any) -> Any:
    return turns.step(real, folder, *args)
