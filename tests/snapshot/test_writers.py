"""Writing: one writer at a time, all or nothing, and nothing left behind, however it ends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from casekit import files
from casekit.caseset import CaseSet
from casekit.errors import SnapshotBusyError, SnapshotError
from casekit.report import PullReport
from casekit.snapshot import read_snapshot, snapshot_info, verify_snapshot, write_snapshot
from casekit.snapshots import stored
from casekit.snapshots.writer import SnapshotWriter
from casekit.source import Source
from casekit.wire import case_digests

Made = Callable[..., CaseSet]
Bytes = Callable[[Path], dict[str, bytes]]
Process = Callable[[str, Path], "subprocess.Popen[str]"]


def ids(folder: Path) -> list[str]:
    """Ids of the cases in a snapshot."""
    return read_snapshot(folder).cases["case_id"].tolist()


def test_a_swap_leaves_the_new_folder_alone(way: str, made: Made, tmp_path: Path) -> None:
    """After a swap the new snapshot stands there, and nothing of the old one beside it."""
    for case_id in "abc":
        write_snapshot(made(case_id), tmp_path / "s")
        assert ids(tmp_path / "s") == [case_id]
        assert [p.name for p in tmp_path.iterdir()] == ["s"]


def test_an_empty_folder_may_be_filled(way: str, made: Made, tmp_path: Path) -> None:
    """An empty folder, or one with a file manager's file alone, is taken."""
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / ".DS_Store").write_bytes(b"")
    write_snapshot(made("a"), tmp_path / "s")
    assert ids(tmp_path / "s") == ["a"]


def test_this_system_exchanges_folders(tmp_path: Path) -> None:
    """On Linux two folders change places in one step; where that fails, nothing has moved."""
    if not sys.platform.startswith("linux"):
        pytest.skip("only Linux exchanges folders")
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    assert files.exchanged(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a" / "b").exists()
    assert not files.exchanged(tmp_path / "a", tmp_path / "nowhere")
    assert (tmp_path / "a" / "b").exists()


def test_other_systems_take_two_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no exchange, none is tried."""
    monkeypatch.setattr("casekit.files.sys.platform", "darwin")
    assert not files.exchanged(tmp_path, tmp_path)


def test_a_system_without_the_call_takes_two_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Linux whose C library has no exchange, and a system that cannot open folders, do without."""
    monkeypatch.setattr("casekit.files.ctypes.CDLL", lambda *_, **__: object())
    assert not files.exchanged(tmp_path, tmp_path)
    monkeypatch.setattr("casekit.files.os.name", "nt")
    files.sync(tmp_path / "nowhere")


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize("name", ["notes.txt", "data.parquet", ".hidden", "items.parquet.bak"])
def test_a_folder_of_other_files_is_left_alone(made: Made, tmp_path: Path, bytes_of: Bytes, name: str) -> None:
    """A folder that holds anything else is refused, with or without a snapshot in it, and untouched."""
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / name).write_text("mine")
    before = bytes_of(tmp_path)
    with pytest.raises(SnapshotError, match="holds other files"):
        write_snapshot(made("a"), tmp_path / "s")
    assert bytes_of(tmp_path) == before
    (tmp_path / "s" / name).unlink()
    write_snapshot(made("a"), tmp_path / "s")
    (tmp_path / "s" / name).write_text("mine")
    with pytest.raises(SnapshotError, match="holds other files"):
        write_snapshot(made("b"), tmp_path / "s")
    assert (tmp_path / "s" / name).read_text() == "mine"


@pytest.mark.parametrize("manifest", ['{"format":"other"}', "[]", '"x"'])
def test_the_manifest_of_another_program_is_left_alone(made: Made, tmp_path: Path, manifest: str) -> None:
    """A snapshot.json that is not casekit's is never replaced; a damaged one that may be casekit's is."""
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "snapshot.json").write_text(manifest)
    with pytest.raises(SnapshotError, match=r"holds a snapshot\.json that is not casekit's"):
        write_snapshot(made("a"), tmp_path / "s")
    assert (tmp_path / "s" / "snapshot.json").read_text() == manifest
    (tmp_path / "s" / "snapshot.json").write_text('{"format":"casekit-sna')
    write_snapshot(made("a"), tmp_path / "s")
    assert ids(tmp_path / "s") == ["a"]


def test_a_damaged_snapshot_may_be_replaced(made: Made, tmp_path: Path) -> None:
    """A snapshot with a file missing, or of another format, gives way to a whole one."""
    write_snapshot(made("a"), tmp_path / "s")
    (tmp_path / "s" / "items.parquet").unlink()
    (tmp_path / "s" / "snapshot.json").write_text('{"format":"casekit-snapshot","format_version":99}')
    write_snapshot(made("b"), tmp_path / "s")
    assert ids(tmp_path / "s") == ["b"]


def test_a_file_or_a_link_is_no_folder(made: Made, tmp_path: Path) -> None:
    """A file, and a link to a folder, are refused and left as they are."""
    (tmp_path / "file").write_text("x")
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for name in ("file", "link"):
        with pytest.raises(SnapshotError, match="is not a folder"):
            write_snapshot(made("a"), tmp_path / name)
    with pytest.raises(SnapshotError, match=r"Not a directory|File exists"):
        write_snapshot(made("a"), tmp_path / "file" / "s")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "link", "real"]


def test_no_place_for_locks_is_an_error(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no lock file can be made, nothing is written."""
    (tmp_path / "file").write_text("x")
    monkeypatch.setattr("casekit.files.tempfile.gettempdir", lambda: str(tmp_path / "file"))
    with pytest.raises(SnapshotError, match="Not a directory"):
        write_snapshot(made("a"), tmp_path / "s")
    assert not (tmp_path / "s").exists()


# ---------------------------------------------------------------- two at once


def test_a_second_writer_is_told(made: Made, tmp_path: Path) -> None:
    """While one writes, another is refused; when it is done, the other may."""
    with SnapshotWriter(tmp_path / "s") as first:
        first.add(dict(made("a").tables))
        with pytest.raises(SnapshotBusyError, match="is being written by someone else"):
            write_snapshot(made("b"), tmp_path / "s")
        with pytest.raises(SnapshotBusyError):
            write_snapshot(made("b"), tmp_path / "x" / ".." / "s")
        assert first.digest_at(0) == case_digests(dict(made("a").tables))[0]
        write_snapshot(made("c"), tmp_path / "other")
        first.finish(Source(test_sets=(("acme.a", "1.0.0"),)), PullReport())
    write_snapshot(made("b"), tmp_path / "s")
    assert ids(tmp_path / "s") == ["b"]


def test_a_reader_that_mends_does_not_refuse_a_writer(made: Made, tmp_path: Path) -> None:
    """A lock that is held for an instant, as by a reader that brings a snapshot back, is waited for."""
    lock = files.locked(tmp_path / "s")
    mending = threading.Timer(0.05, lock.release)
    mending.start()
    write_snapshot(made("a"), tmp_path / "s")
    mending.join()
    assert ids(tmp_path / "s") == ["a"]


def test_a_refused_writer_leaves_no_lock(made: Made, tmp_path: Path) -> None:
    """A writer that is refused for the folder's sake does not hold it."""
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "notes.txt").touch()
    for _ in range(2):
        with pytest.raises(SnapshotError, match="holds other files"):
            SnapshotWriter(tmp_path / "s")


KILLED = {
    "while it writes": """
        with writer.SnapshotWriter(target) as w:
            w.add(made("x"))
            print("ready", flush=True)
            time.sleep(60)
        """,
    "before the swap": """
        targets.swap = lambda staging, target: (print("ready", flush=True), time.sleep(60))
        with writer.SnapshotWriter(target) as w:
            w.add(made("x"))
            w.finish(source, PullReport())
        """,
    "between the two steps": """
        import os
        files.exchanged = lambda one, other: False
        rename, count = os.rename, []
        def slow(a, b):
            rename(a, b)
            if str(b).endswith(".old.casekit-tmp"):
                print("ready", flush=True)
                time.sleep(60)
        files.os.rename = slow
        with writer.SnapshotWriter(target) as w:
            w.add(made("x"))
            w.finish(source, PullReport())
        """,
    "after the exchange": """
        files.shutil.rmtree = lambda path: (print("ready", flush=True), time.sleep(60))
        with writer.SnapshotWriter(target) as w:
            w.add(made("x"))
            w.finish(source, PullReport())
        """,
}


@pytest.mark.parametrize("moment", KILLED)
def test_a_killed_writer_leaves_a_whole_snapshot(
    made: Made, tmp_path: Path, bytes_of: Bytes, process: Process, moment: str
) -> None:
    """Killed at any moment: the old or the new snapshot is read, and the next writer takes away what was left."""
    write_snapshot(made({**made("old").case("old"), "output": "OLDWORDS"}), tmp_path / "s")
    running = process(KILLED[moment], tmp_path / "s")
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        assert len(list(tmp_path.iterdir())) == 2
    finally:
        running.kill()
        running.communicate()
    assert ids(tmp_path / "s") == (["x"] if moment == "after the exchange" else ["old"])
    verify_snapshot(tmp_path / "s")
    write_snapshot(made("new"), tmp_path / "s")
    assert [p.name for p in tmp_path.iterdir()] == ["s"]
    assert not any(b"WORDS" in text for text in bytes_of(tmp_path).values())


def test_only_what_is_left_of_this_snapshot_is_taken_away(made: Made, tmp_path: Path) -> None:
    """Folders of other snapshots, and of nobody, stay when a writer cleans up."""
    keep = [
        ".s2.12345678.casekit-tmp",
        ".s.a.12345678.casekit-tmp",
        ".s.123.casekit-tmp",
        ".s.12345678",
        "s.12345678.casekit-tmp",
    ]
    for name in [*keep, ".s.12345678.casekit-tmp", ".s.old.casekit-tmp"]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").touch()
    (tmp_path / ".s.0123abcd.casekit-tmp").touch()
    (tmp_path / ".s.0123abce.casekit-tmp").symlink_to(tmp_path / keep[0])
    write_snapshot(made("a"), tmp_path / "other")
    assert (tmp_path / ".s.12345678.casekit-tmp").exists()
    (tmp_path / "s").mkdir()
    write_snapshot(made("a"), tmp_path / "s")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*keep, "other", "s"])


def test_a_reader_sees_the_old_or_the_new(way: str, made: Made, tmp_path: Path) -> None:
    """While a snapshot is replaced again and again, every reading of it is one of the states, whole."""
    one, two = made("a", "b"), made("c", "d", "e")
    write_snapshot(one, tmp_path / "s")
    done = threading.Event()

    def write() -> None:
        for n in range(12):
            write_snapshot((one, two)[n % 2], tmp_path / "s")
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen = set()
    while not done.is_set():
        found = read_snapshot(tmp_path / "s")
        seen.add((*found.cases["case_id"], *found.items["case_id"]))
    thread.join()
    assert seen <= {("a", "b", "a", "b"), ("c", "d", "e", "c", "d", "e")}


def test_a_reader_waits_for_the_second_step(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that comes between the two steps of a swap waits for the writer, and does not undo the first."""
    monkeypatch.setattr(files, "exchanged", lambda one, other: False)
    write_snapshot(made("a"), tmp_path / "s")
    moved, go = threading.Event(), threading.Event()
    rename = os.rename

    def slow(one: Any, other: Any) -> None:
        rename(one, other)
        if str(other).endswith(".old.casekit-tmp"):
            moved.set()
            go.wait(10)

    monkeypatch.setattr("casekit.files.os.rename", slow)
    thread = threading.Thread(target=write_snapshot, args=(made("b"), tmp_path / "s"))
    thread.start()
    moved.wait(10)
    found: list[list[str]] = []
    reading = threading.Thread(target=lambda: found.append(ids(tmp_path / "s")))
    reading.start()
    time.sleep(0.05)
    go.set()
    thread.join()
    reading.join()
    assert found == [["b"]]


def test_a_snapshot_that_is_never_still_is_told(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that is replaced at every try is given up after some tries."""
    write_snapshot(made("a"), tmp_path / "s")
    (tmp_path / "s" / "items.parquet").unlink()
    info, infos = snapshot_info(tmp_path / "s"), iter(range(100))
    monkeypatch.setattr(stored, "info_of", lambda folder: replace(info, casekit=str(next(infos))))
    with pytest.raises(SnapshotError, match="is being replaced again and again"):
        read_snapshot(tmp_path / "s")
    monkeypatch.undo()
    monkeypatch.setattr(stored, "wait_for_swap", lambda folder: True)
    with pytest.raises(SnapshotError, match="is being replaced again and again"):
        read_snapshot(tmp_path / "nowhere")
