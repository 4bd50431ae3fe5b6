"""Writing that fails: the old snapshot stands, nothing is left beside it, and the error is casekit's own."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from casekit import files
from casekit.caseset import CaseSet
from casekit.errors import SnapshotBusyError, SnapshotError
from casekit.report import PullReport
from casekit.snapshot import read_snapshot, verify_snapshot, write_snapshot
from casekit.snapshots import parquet, target
from casekit.snapshots.target import standing
from casekit.snapshots.writer import SnapshotWriter
from casekit.source import Source

Made = Callable[..., CaseSet]
Bytes = Callable[[Path], dict[str, bytes]]
Process = Callable[[str, Path], "subprocess.Popen[str]"]

SLOW = """
    with writer.SnapshotWriter(target) as w:
        w.add(made("x"))
        print("ready", flush=True)
        time.sleep(60)
    """


def ids(folder: Path) -> list[str]:
    """Ids of the cases in a snapshot."""
    return read_snapshot(folder).cases["case_id"].tolist()


def test_a_writer_that_is_left_leaves_nothing(made: Made, tmp_path: Path, bytes_of: Bytes) -> None:
    """Leaving a writer unfinished, by an error or not, leaves the target as it was and nothing beside it."""
    write_snapshot(made("a"), tmp_path / "s")
    before = bytes_of(tmp_path)
    with SnapshotWriter(tmp_path / "s") as writing:
        writing.add(dict(made("b").tables))

    def interrupted() -> None:
        with SnapshotWriter(tmp_path / "s") as writing:
            writing.add(dict(made("c").tables))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert bytes_of(tmp_path) == before
    assert [p.name for p in tmp_path.iterdir()] == ["s"]
    write_snapshot(made("d"), tmp_path / "s")


@pytest.mark.parametrize("name", ["write_whole", "sync", "swap"])
def test_a_full_disk_at_the_end(
    made: Made, tmp_path: Path, bytes_of: Bytes, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of the system at any step of the end leaves the old snapshot, and is a SnapshotError."""
    write_snapshot(made("a"), tmp_path / "s")
    before = bytes_of(tmp_path)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "x")

    monkeypatch.setattr(target, name, full)
    with pytest.raises(SnapshotError, match=r"No space left on device\. What stood there before stands"):
        write_snapshot(made("b"), tmp_path / "s")
    assert bytes_of(tmp_path) == before
    monkeypatch.undo()
    write_snapshot(made("c"), tmp_path / "s")
    assert ids(tmp_path / "s") == ["c"]


@pytest.mark.parametrize("rows", [1, 25_000])
@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "x"), pa.ArrowInvalid("x")])
def test_a_full_disk_while_writing(
    made: Made, tmp_path: Path, bytes_of: Bytes, rows: int, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for an error in a thread that writes a row group or a footer."""
    write_snapshot(made("a"), tmp_path / "s")
    before = bytes_of(tmp_path)
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", rows)

    def full(self: Any, table: pa.Table, row_group_size: int) -> None:
        raise error

    monkeypatch.setattr("casekit.snapshots.parquet.pq.ParquetWriter.write_table", full)

    def write() -> None:
        with SnapshotWriter(tmp_path / "s") as writing:
            for n in range(20):
                writing.add(dict(made(f"c{n}").tables))
            writing.finish(Source(), PullReport())

    with pytest.raises(SnapshotError, match="What stood there before stands"):
        write()
    assert bytes_of(tmp_path) == before


def test_a_file_size_limit_is_a_snapshot_error(made: Made, tmp_path: Path, process: Process) -> None:
    """A disk quota that ends a write ends it with an error of casekit's, and the old snapshot stands."""
    write_snapshot(made("old"), tmp_path / "s")
    running = process(
        """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        from casekit.errors import SnapshotError
        try:
            with writer.SnapshotWriter(target) as w:
                w.add(made("x"))
                w.finish(source, PullReport())
        except SnapshotError as error:
            print("refused", error)
        """,
        tmp_path / "s",
    )
    out, _ = running.communicate()
    assert out.startswith("refused")
    assert ids(tmp_path / "s") == ["old"]
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


def test_a_disk_that_is_full_at_any_byte(made: Made, tmp_path: Path, process: Process) -> None:
    """Wherever a file meets its limit, the old snapshot stands byte for byte and nothing is left beside it.

    At some limit all fits; from there on the new snapshot stands.
    """
    write_snapshot(made("old"), tmp_path / "s")
    running = process(
        """
        import json, resource, signal
        from pathlib import Path
        from casekit.errors import SnapshotError

        def state():
            return {str(p): p.read_bytes() for p in Path(target).parent.rglob("*") if p.is_file()}

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        before, seen, limit = state(), [], 0
        while limit < 20_000:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            try:
                with writer.SnapshotWriter(target) as w:
                    w.add(made("x"))
                    w.finish(source, PullReport())
                outcome = "written"
            except SnapshotError as error:
                outcome = "refused" if "What stood there before stands" in str(error) else str(error)
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            seen.append((outcome, state() == before))
            limit += 61
            if outcome == "written":
                break
        print(json.dumps(seen))
        """,
        tmp_path / "s",
    )
    out, _ = running.communicate()
    *refused, last = json.loads(out)
    assert len(refused) > 30
    assert all(one == ["refused", True] for one in refused)
    assert last == ["written", False]
    assert read_snapshot(tmp_path / "s").cases["case_id"].tolist() == ["x"]
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


@pytest.mark.parametrize("name", ["mkdir", "scandir", "listdir"])
def test_a_folder_that_may_not_be_written(
    made: Made, tmp_path: Path, bytes_of: Bytes, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the system refuses even to begin, the error says so, nothing has changed, and the lock is free again."""
    write_snapshot(made("a"), tmp_path / "s")
    before = bytes_of(tmp_path)
    real = getattr(os, name)

    def refused(path: Any, *rest: Any) -> Any:
        if str(path).startswith(str(tmp_path)):
            raise OSError(errno.EROFS, "x")
        return real(path, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, name, refused)
        with pytest.raises(SnapshotError, match="Read-only file system"):
            write_snapshot(made("b"), tmp_path / "s")
    assert bytes_of(tmp_path) == before
    write_snapshot(made("c"), tmp_path / "s")


def test_no_snapshot_is_put_inside_another(made: Made, tmp_path: Path, bytes_of: Bytes) -> None:
    """Whoever gives a snapshot for the folder of snapshots must be told: with one inside it could not be replaced."""
    write_snapshot(made("outer"), tmp_path / "s")
    before = bytes_of(tmp_path)
    with pytest.raises(SnapshotError, match="would stand inside another snapshot: give a folder beside it"):
        write_snapshot(made("inner"), tmp_path / "s" / "t")
    assert bytes_of(tmp_path) == before


def test_what_stands_is_told_as_it_is(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`standing` gives a whole snapshot and takes away what a killed writer left, or says why there is none."""
    info = write_snapshot(made("a"), tmp_path / "s")
    (tmp_path / ".s.12345678.casekit-tmp").mkdir()
    monkeypatch.chdir(tmp_path)
    assert standing("s") == info
    assert [p.name for p in tmp_path.iterdir()] == ["s"]
    with SnapshotWriter("s"), pytest.raises(SnapshotBusyError):
        standing(tmp_path / "s")
    with pytest.raises(SnapshotError, match="No such file or directory"):
        standing("nowhere/s")
    with pytest.raises(SnapshotError, match=r"t does not exist, so it is no snapshot"):
        standing("t")
    (tmp_path / "s" / "items.parquet").unlink()
    with pytest.raises(SnapshotError, match=r"items\.parquet is missing"):
        standing("s")


def test_two_writers_at_once(way: str, made: Made, tmp_path: Path) -> None:
    """Of writers that begin at the same moment each wins whole or is told; at least one wins, and one stands."""
    together = threading.Barrier(4)
    ended: list[str] = []

    def write(name: str) -> None:
        together.wait(10)
        try:
            write_snapshot(made(name), tmp_path / "s")
            ended.append(name)
        except SnapshotBusyError:
            ended.append("busy")

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ended) == 4
    assert ids(tmp_path / "s")[0] in ended
    verify_snapshot(tmp_path / "s")
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


def test_an_old_snapshot_that_cannot_be_taken_away_is_told(
    way: str, made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the new snapshot stands but the old one's files stay, the error says where its texts still are."""
    write_snapshot(made("a"), tmp_path / "s")

    def stuck(path: Any, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            raise PermissionError(errno.EACCES, "x")

    monkeypatch.setattr("casekit.files.shutil.rmtree", stuck)
    with pytest.raises(
        SnapshotError,
        match=r"is the new snapshot, but the old one could not .*Permission denied.*casekit-tmp, which still",
    ):
        write_snapshot(made("b"), tmp_path / "s")
    monkeypatch.undo()
    assert ids(tmp_path / "s") == ["b"]
    write_snapshot(made("c"), tmp_path / "s")
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


def test_a_second_step_that_fails_is_undone(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the second step of a swap fails, the old snapshot is moved back at once."""
    write_snapshot(made("a"), tmp_path / "s")
    monkeypatch.setattr(files, "exchanged", lambda one, other: False)
    rename = os.rename
    failed: list[Any] = []

    def failing(one: Any, other: Any) -> None:
        if Path(other).name == "s" and not failed:
            failed.append(other)
            raise OSError(errno.EIO, "x")
        rename(one, other)

    monkeypatch.setattr("casekit.files.os.rename", failing)
    with pytest.raises(SnapshotError, match="Input/output error"):
        write_snapshot(made("b"), tmp_path / "s")
    assert ids(tmp_path / "s") == ["a"]
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


def test_an_interrupt_leaves_the_old_snapshot(made: Made, tmp_path: Path, bytes_of: Bytes, process: Process) -> None:
    """Ctrl-C while a snapshot is written leaves the old one byte for byte, and nothing beside it."""
    write_snapshot(made("old"), tmp_path / "s")
    before = bytes_of(tmp_path)
    running = process(SLOW, tmp_path / "s")
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    running.send_signal(signal.SIGINT)
    running.communicate()
    assert running.returncode != 0
    assert bytes_of(tmp_path) == before
    assert [p.name for p in tmp_path.iterdir()] == ["s"]
