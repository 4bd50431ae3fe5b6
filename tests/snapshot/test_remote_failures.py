"""Writers that die at a URL, and storage that fails them: a whole snapshot stands, and the next writer cleans up."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from casekit.caseset import CaseSet
from casekit.errors import SnapshotBusyError, SnapshotError
from casekit.snapshot import read_snapshot, verify_snapshot, write_snapshot
from casekit.snapshots import remote, target
from casekit.snapshots.target import standing

Made = Callable[..., CaseSet]
Bytes = Callable[[str], dict[str, bytes]]
Process = Callable[[str, str], "subprocess.Popen[str]"]


def ids(url: str) -> list[str]:
    """Ids of the cases in a snapshot."""
    return read_snapshot(url).cases["case_id"].tolist()


def generations(found: dict[str, bytes]) -> set[str]:
    """The generations that have a file."""
    return {name.partition("/")[0] for name in found if "/" in name}


# ---------------------------------------------------------------- dead writers


KILLED = {
    "while it puts files": """
        import os
        from casekit.snapshots import remote
        put, count = remote.RemoteFolder.put, []
        def dying(self, file, name):
            put(self, file, name)
            count.append(name)
            if len(count) == 4:
                os._exit(9)
        remote.RemoteFolder.put = dying
        """,
    "before the manifest": """
        import os
        from casekit.snapshots import remote
        put_text = remote.RemoteFolder.put_text
        remote.RemoteFolder.put_text = lambda self, name, text: os._exit(9)
        """,
    "after the manifest": """
        import os
        from casekit.snapshots import remote
        put_text = remote.RemoteFolder.put_text
        remote.RemoteFolder.put_text = (
            lambda self, name, text: os._exit(9) if name.endswith("committed") else put_text(self, name, text)
        )
        """,
    "before the old is gone": """
        import os
        from casekit.snapshots import remote
        remote.RemoteFolder.remove = lambda self, names: os._exit(9)
        """,
}


WRITE = """
        with writer.SnapshotWriter(target) as w:
            w.add(made("x"))
            w.finish(source, PullReport())
        """


@pytest.mark.parametrize(
    ("moment", "cleaner"), [*((moment, "writer") for moment in KILLED), ("while it puts files", "standing")]
)
def test_a_killed_writer_is_cleaned_up_after(
    made: Made,
    bucket: str,
    process: Process,
    bytes_at: Bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
    cleaner: str,
) -> None:
    """Killed at any moment: the old or the new state is read, and the next one here takes away all that was left."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("casekit.files.tempfile.gettempdir", lambda: str(tmp_path))
    write_snapshot(made("old"), f"{bucket}/a")
    running = process(KILLED[moment] + WRITE, f"{bucket}/a")
    running.communicate()
    assert running.returncode == 9
    late = moment in ("after the manifest", "before the old is gone")
    assert ids(f"{bucket}/a") == (["x"] if late else ["old"])
    if cleaner == "writer":
        write_snapshot(made("new"), f"{bucket}/a")
        assert not any(b"WORDS" in text for text in bytes_at(bucket).values())
    else:
        standing(f"{bucket}/a")
    info = verify_snapshot(f"{bucket}/a")
    assert generations(bytes_at(f"{bucket}/a")) == {info.generation}
    assert list(tmp_path.glob("*/*.files")) == []


def test_what_another_machine_left_is_told_and_goes_in_time(
    made: Made, bucket: str, bytes_at: Bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unfinished generation of elsewhere may be a living writer's: it is told of, and taken away when it is old."""
    import fsspec

    write_snapshot(made("a"), f"{bucket}/a")
    fsspec.filesystem("s3").pipe_file(f"{bucket}/a/g-0123456789abcdef/items.parquet", b"WORDS")
    with pytest.raises(
        SnapshotBusyError, match=r"is the new snapshot, but old texts may .* left g-0123456789abcdef in it: write again"
    ):
        write_snapshot(made("b"), f"{bucket}/a")
    assert ids(f"{bucket}/a") == ["b"]
    monkeypatch.setattr(target, "UNFINISHED", timedelta(seconds=-10))
    info = write_snapshot(made("c"), f"{bucket}/a")
    assert generations(bytes_at(f"{bucket}/a")) == {info.generation}


# ---------------------------------------------------------------- storage that fails


def failing(patch: pytest.MonkeyPatch, method: str, error: Exception, name: str = "") -> None:
    """Have the storage fail where it is asked for files with a name that ends so, or any."""
    import fsspec

    storage = fsspec.filesystem("s3")
    real = getattr(storage, method)

    def work(*args: Any, **members: Any) -> Any:
        if str(args[method == "put_file"]).endswith(name):
            raise error
        return real(*args, **members)

    patch.setattr(storage, method, work)


@pytest.mark.parametrize("table", ["cases", "items", "messages"])
def test_storage_that_takes_no_more(
    made: Made, bucket: str, bytes_at: Bytes, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """When a file cannot be put, the old snapshot stands byte for byte and nothing of the new one is left."""
    write_snapshot(made("a"), f"{bucket}/a")
    before = bytes_at(bucket)
    failing(monkeypatch, "put_file", OSError(28, "SECRETMARK"), f"{table}.parquet")
    with pytest.raises(SnapshotError, match=r"No space left on device.*What stood there before stands$") as caught:
        write_snapshot(made("b"), f"{bucket}/a")
    assert "SECRETMARK" not in str(caught.value)
    assert bytes_at(bucket) == before


def test_an_interrupt_takes_back_what_was_put(
    made: Made, bucket: str, bytes_at: Bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while files are put leaves the old snapshot byte for byte, and nothing beside it."""
    write_snapshot(made("a"), f"{bucket}/a")
    before = bytes_at(bucket)
    put = remote.RemoteFolder.put

    def interrupted(self: Any, file: Path, name: str) -> None:
        put(self, file, name)
        raise KeyboardInterrupt

    monkeypatch.setattr(remote.RemoteFolder, "put", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_snapshot(made("b"), f"{bucket}/a")
    assert bytes_at(bucket) == before


def test_a_folder_for_temporary_files_that_is_full(
    made: Made, memory: str, bytes_at: Bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When there is no room on this machine, the error names the place that is full, and the lock is free again."""
    monkeypatch.setattr("casekit.files.tempfile.gettempdir", lambda: str(tmp_path))
    write_snapshot(made("a"), f"{memory}/a")
    before = bytes_at(memory)
    mkdir = os.mkdir

    def full(path: Any, *rest: Any) -> None:
        if ".files" in str(path):
            raise OSError(errno.ENOSPC, "x")
        mkdir(path, *rest)

    where = r"^memory://snapshots/a, whose files are first written to /.*\.files: No space left on device"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "mkdir", full)
        with pytest.raises(SnapshotError, match=where):
            write_snapshot(made("b"), f"{memory}/a")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("casekit.snapshots.parquet.os.fsync", lambda handle: full(".files"))
        with pytest.raises(SnapshotError, match=where):
            write_snapshot(made("b"), f"{memory}/a")
    assert bytes_at(memory) == before
    write_snapshot(made("c"), f"{memory}/a")
    assert ids(f"{memory}/a") == ["c"]


def test_storage_that_keeps_no_time(made: Made, memory: str, bytes_at: Bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody knows how old an unfinished generation is, it is told of and never taken away."""
    import fsspec

    def unknown(self: Any, path: str) -> None:
        raise NotImplementedError

    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem.modified", unknown)
    monkeypatch.setattr(target, "UNFINISHED", timedelta(seconds=-10))
    write_snapshot(made("a"), f"{memory}/a")
    fsspec.filesystem("memory").pipe_file(f"{memory}/a/g-0123456789abcdef/items.parquet", b"WORDS")
    with pytest.raises(SnapshotBusyError, match="g-0123456789abcdef"):
        write_snapshot(made("b"), f"{memory}/a")
    assert len(generations(bytes_at(f"{memory}/a"))) == 2


def test_a_file_that_does_not_arrive_whole(
    made: Made, bucket: str, bytes_at: Bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sizes are compared before the manifest is put."""
    write_snapshot(made("a"), f"{bucket}/a")
    before = bytes_at(bucket)
    put = remote.RemoteFolder.put

    def cut(self: Any, file: Path, name: str) -> None:
        self.put_text(name, file.read_bytes()[:-1]) if name.endswith("items.parquet") else put(self, file, name)

    monkeypatch.setattr(remote.RemoteFolder, "put", cut)
    with pytest.raises(SnapshotError, match=r"items.parquet did not arrive whole\. What stood there before stands"):
        write_snapshot(made("b"), f"{bucket}/a")
    assert bytes_at(bucket) == before


def test_what_cannot_be_taken_back_is_told(made: Made, bucket: str, bytes_at: Bytes) -> None:
    """When files can be neither put nor taken away the error says so, and the next writer does it."""
    write_snapshot(made("a"), f"{bucket}/a")
    with pytest.MonkeyPatch.context() as patch:
        failing(patch, "put_file", PermissionError("x"), "segments.parquet")
        failing(patch, "rm", PermissionError("x"))
        with pytest.raises(
            SnapshotError, match=r"\(Permission denied\).* stands, and g-[0-9a-f]{16} beside it could not be taken"
        ):
            write_snapshot(made("b"), f"{bucket}/a")
    assert ids(f"{bucket}/a") == ["a"]
    assert len(generations(bytes_at(f"{bucket}/a"))) == 2
    info = write_snapshot(made("c"), f"{bucket}/a")
    assert generations(bytes_at(f"{bucket}/a")) == {info.generation}


def test_a_manifest_that_is_not_taken(made: Made, bucket: str, bytes_at: Bytes) -> None:
    """When the manifest cannot be put the old snapshot stands, and the next writer takes away the new files."""
    write_snapshot(made("a"), f"{bucket}/a")
    with pytest.MonkeyPatch.context() as patch:
        failing(patch, "pipe_file", OSError(5, "x"), "snapshot.json")
        with pytest.raises(SnapshotError, match=r"\(Input/output error\).*stands; the next writer takes away g-"):
            write_snapshot(made("b"), f"{bucket}/a")
    assert ids(f"{bucket}/a") == ["a"]
    info = write_snapshot(made("c"), f"{bucket}/a")
    assert generations(bytes_at(f"{bucket}/a")) == {info.generation}


def test_an_answer_that_is_lost(made: Made, bucket: str, bytes_at: Bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest that was taken though its answer was lost is the snapshot, and its files stay."""
    write_snapshot(made("a"), f"{bucket}/a")
    put = remote.RemoteFolder.put_text

    def lost(self: Any, name: str, text: bytes) -> None:
        put(self, name, text)
        if name == "snapshot.json":
            raise SnapshotError("the answer was lost")

    monkeypatch.setattr(remote.RemoteFolder, "put_text", lost)
    info = write_snapshot(made("b"), f"{bucket}/a")
    assert verify_snapshot(f"{bucket}/a") == info
    assert generations(bytes_at(f"{bucket}/a")) == {info.generation}


@pytest.mark.parametrize(
    ("method", "name"), [("pipe_file", "committed"), ("rm", ""), ("find", ""), ("_bulk_delete", "")]
)
def test_what_fails_once_the_new_one_stands(made: Made, bucket: str, bytes_at: Bytes, method: str, name: str) -> None:
    """When the old files cannot be taken away the error says that the new snapshot stands; the next writer does it."""
    write_snapshot(made({**made("old").case("old"), "output": "OLDWORDS"}), f"{bucket}/a")
    with pytest.MonkeyPatch.context() as patch:
        if method == "_bulk_delete":  # S3 refuses single files in an answer that is no error

            async def refused(self: Any, paths: list[str]) -> list[str]:
                return []

            patch.setattr("s3fs.S3FileSystem._bulk_delete", refused)
        else:
            failing(patch, method, PermissionError("x"), name)
        with pytest.raises(SnapshotError, match="is the new snapshot, but old texts may still be there"):
            write_snapshot(made("b"), f"{bucket}/a")
    assert ids(f"{bucket}/a") == ["b"]
    info = write_snapshot(made("c"), f"{bucket}/a")
    assert generations(bytes_at(f"{bucket}/a")) == {info.generation}
    assert not any(b"OLDWORDS" in text for text in bytes_at(bucket).values())


@pytest.mark.parametrize(("method", "place"), [("cat_file", "snaps/a"), ("info", "snaps/a"), ("ls", "snaps")])
def test_storage_that_does_not_answer(
    made: Made, bucket: str, monkeypatch: pytest.MonkeyPatch, method: str, place: str
) -> None:
    """Whatever the library of a storage raises is a SnapshotError of one line, without the library's own words."""
    write_snapshot(made("a"), f"{bucket}/snaps/a")
    failing(monkeypatch, method, RuntimeError("https://KEYMARK:SECRETMARK@x"))
    with pytest.raises(SnapshotError, match=r"cannot be reached \(RuntimeError\): see that the address") as caught:
        read_snapshot(f"{bucket}/{place}")
    assert "MARK" not in str(caught.value)


def test_storage_that_lists_nothing(made: Made, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may fetch files but not list them can read a snapshot by its own URL."""
    write_snapshot(made("a"), f"{bucket}/a")
    failing(monkeypatch, "ls", PermissionError("x"))
    assert ids(f"{bucket}/a") == ["a"]


def test_no_secret_is_in_what_is_written(made: Made, bucket: str, bytes_at: Bytes) -> None:
    """Neither the keys nor the address of the storage, nor the folder's own, is in any file."""
    write_snapshot(made("a"), f"{bucket}/PATHMARK/a")
    for text in bytes_at(bucket).values():
        for secret in (b"KEYMARK", b"SECRETMARK", b"PATHMARK", b"bucket-", b"s3:"):
            assert secret not in text
