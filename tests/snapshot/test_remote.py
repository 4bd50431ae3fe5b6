"""Snapshots on a real server of the S3 protocol: whole at any moment, and no erased word left."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import casekit as ck
from casekit.caseset import CaseSet
from casekit.errors import SnapshotBusyError, SnapshotError
from casekit.report import PullReport
from casekit.schema import TABLES
from casekit.snapshot import read_snapshot, snapshot_info, verify_snapshot, write_snapshot
from casekit.snapshots import remote
from casekit.snapshots.target import standing
from casekit.snapshots.writer import SnapshotWriter
from casekit.source import Source

Made = Callable[..., CaseSet]
Bytes = Callable[[str], dict[str, bytes]]
Process = Callable[[str, str], "subprocess.Popen[str]"]


def ids(place: Any) -> list[str]:
    """Ids of the cases in a snapshot, as the tables that are read from it have them."""
    found = read_snapshot(place)
    assert found.items["case_id"].tolist() == found.cases["case_id"].tolist()
    return found.cases["case_id"].tolist()


def generations(found: dict[str, bytes]) -> set[str]:
    """The generations that have a file."""
    return {name.partition("/")[0] for name in found if "/" in name}


def old_words(made: Made) -> CaseSet:
    """A case with words that are to be gone."""
    return made({**made("old").case("old"), "output": "OLDWORDS"})


def test_a_snapshot_at_a_url_is_that_on_a_disk(made: Made, bucket: str, tmp_path: Path, bytes_at: Bytes) -> None:
    """The same cases give the same tables and content hash; the manifest names the folder of the files."""
    cases = made("a", "b").where([True, False])
    written = write_snapshot(cases, f"{bucket}/snaps/a")
    here = write_snapshot(cases, tmp_path / "a")
    assert written.content_hash == here.content_hash
    assert here.generation is None
    assert written.generation is not None
    found = read_snapshot(f"{bucket}/snaps/a/")
    for name in TABLES:
        assert found.arrow(name).equals(read_snapshot(tmp_path / "a").arrow(name))
    assert found.source.folders == (f"{bucket}/snaps/a",)
    assert found.left_out == cases.left_out
    assert snapshot_info(f"{bucket}/snaps/a") == written == verify_snapshot(f"{bucket}/snaps/a")
    parts = {f"{written.generation}/{name}.parquet" for name in TABLES}
    assert bytes_at(f"{bucket}/snaps/a").keys() == {"snapshot.json", f"{written.generation}/committed"} | parts


def test_what_was_before_is_gone(made: Made, bucket: str, bytes_at: Bytes) -> None:
    """After a snapshot is replaced no byte of the old one is left at the URL."""
    write_snapshot(old_words(made), f"{bucket}/a")
    assert any(b"OLDWORDS" in text for text in bytes_at(bucket).values())
    for case_id in "xy":
        info = write_snapshot(made(case_id), f"{bucket}/a")
        assert generations(bytes_at(f"{bucket}/a")) == {info.generation}
        assert ids(f"{bucket}/a") == [case_id]
    assert not any(b"OLDWORDS" in text for text in bytes_at(bucket).values())


def test_nothing_is_left_on_this_machine(
    made: Made, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a snapshot is put at its URL, or given up, only the lock's file stays in the folder for temporary files."""
    monkeypatch.setattr("casekit.files.tempfile.gettempdir", lambda: str(tmp_path))
    write_snapshot(made("a"), f"{bucket}/a")
    with SnapshotWriter(f"{bucket}/a") as writing:
        writing.add(dict(made("b").tables))
        assert {path.suffix for path in tmp_path.glob("*/*")} == {".lock", ".files"}
    assert [path.suffix for path in tmp_path.glob("*/*")] == [".lock"]
    assert ids(f"{bucket}/a") == ["a"]


def test_a_writer_is_filled_in_groups(made: Made, bucket: str) -> None:
    """SnapshotWriter takes groups of cases for a URL as for a folder."""
    with SnapshotWriter(f"{bucket}/a") as writing:
        for case_id in "abc":
            writing.add(dict(made(case_id).tables))
        writing.finish(Source(test_sets=(("acme.a", "1.0.0"),)), PullReport())
    assert ids(f"{bucket}/a") == ["a", "b", "c"]


def test_several_are_found_below_a_url(made: Made, bucket: str, tmp_path: Path) -> None:
    """A folder of snapshots, a pattern, a list, and folders of both kinds together give one CaseSet."""
    for n in (1, 2, 3):
        write_snapshot(made(f"c{n}", version=f"{n}.0.0"), f"{bucket}/snaps/acme-{n}.0.0")
    write_snapshot(made("c4", version="4.0.0"), tmp_path / "acme-4.0.0")
    for place in (f"{bucket}/snaps", f"{bucket}/snaps/acme-*", f"{bucket}/sn*/acme-?.0.0"):
        assert ids(place) == ["c1", "c2", "c3"]
        assert read_snapshot(place).source.folders == tuple(f"{bucket}/snaps/acme-{n}.0.0" for n in (1, 2, 3))
    assert ids([f"{bucket}/snaps/acme-3.0.0", tmp_path / "acme-4.0.0"]) == ["c3", "c4"]
    with pytest.raises(SnapshotError, match=r"no snapshot matches s3://bucket-\d+/snaps/x-\*"):
        read_snapshot(f"{bucket}/snaps/x-*")


def test_a_url_where_nothing_is(made: Made, bucket: str) -> None:
    """No snapshot at a URL is told as such, with the name that was meant, and a bucket that is not there as well."""
    write_snapshot(made("a"), f"{bucket}/snaps/acme-1.0.0")
    for work in (read_snapshot, snapshot_info, verify_snapshot, standing):
        with pytest.raises(SnapshotError, match=r"acme-1\.0 has no snapshot.json.* did you mean s3://.*acme-1\.0\.0\?"):
            work(f"{bucket}/snaps/acme-1.0")
    with pytest.raises(SnapshotError, match=r"memory://nothing has no snapshot.json, so it is no snapshot: make one"):
        read_snapshot("memory://nothing")
    with pytest.raises(SnapshotError, match=r"s3://no-such-bucket/a has no snapshot.json"):
        read_snapshot("s3://no-such-bucket/a")
    with pytest.raises(SnapshotError, match=r"s3://no-such-bucket/a/g-.* \(No such file or directory\)"):
        write_snapshot(made("a"), "s3://no-such-bucket/a")


def test_test_sets_are_pulled_and_refreshed_there(bucket: str, bytes_at: Bytes) -> None:
    """Pull puts snapshots below a URL and leaves fresh ones; after a refresh no word that was erased is there."""
    case: dict[str, Any] = {
        "subject": {"kind": "agent", "id": "acme.a", "version": "1.0.0"},
        "input": None,
        "items": [],
    }
    cases = [{"caseId": "a", "output": "OLDWORDS", **case}, {"caseId": "b", "output": "stays", **case}]
    with ck.LocalServer() as server, ck.Client(server.url, token=server.token) as client:
        for version in ("1.0.0", "2.0.0"):
            server.add_test_set("acme.a", version, cases)
        refs = [("acme.a", "1.0.0"), ("acme.a", "2.0.0")]
        infos = ck.pull(refs, into=f"{bucket}/snaps", client=client, progress=False)
        assert ck.pull(refs, into=f"{bucket}/snaps/", client=client, progress=False) == infos
        found = read_snapshot(f"{bucket}/snaps")
        assert found.source.folders == tuple(f"{bucket}/snaps/acme.a-{version}" for version in ("1.0.0", "2.0.0"))
        server.erase_case("a")
        changes = [ck.refresh_snapshot(folder, client=client, progress=False) for folder in found.source.folders]
    assert [change.erased for change in changes] == [("a",), ("a",)]
    stored = bytes_at(bucket)
    assert not any(b"OLDWORDS" in text for text in stored.values())
    assert any(b"stays" in text for text in stored.values())


# ---------------------------------------------------------------- strangers


@pytest.mark.parametrize("name", ["notes.txt", "more/items.parquet", "g-0123456789abcdef/notes.txt", "g-0/x"])
def test_other_files_are_left_alone(made: Made, bucket: str, bytes_at: Bytes, name: str) -> None:
    """What is no part of a snapshot is never taken away, and keeps a snapshot from being put over it."""
    import fsspec

    write_snapshot(made("a"), f"{bucket}/a")
    fsspec.filesystem("s3").pipe_file(f"{bucket}/a/{name}", b"mine")
    before = bytes_at(bucket)
    with pytest.raises(SnapshotError, match="holds other files"):
        write_snapshot(made("b"), f"{bucket}/a")
    with pytest.raises(SnapshotError, match="files that are not part of the snapshot"):
        verify_snapshot(f"{bucket}/a")
    assert bytes_at(bucket) == before


def test_the_manifest_of_another_program_is_left_alone(made: Made, bucket: str, bytes_at: Bytes) -> None:
    """A snapshot.json that is not casekit's is not replaced; a damaged one gives way, and is no snapshot before."""
    import fsspec

    storage = fsspec.filesystem("s3")
    storage.pipe_file(f"{bucket}/a/snapshot.json", b'{"format":"other"}')
    with pytest.raises(SnapshotError, match="is not casekit's"):
        write_snapshot(made("a"), f"{bucket}/a")
    for text in (b"", b'{"format":"casekit-sna'):
        storage.pipe_file(f"{bucket}/a/snapshot.json", text)
        with pytest.raises(SnapshotError):
            read_snapshot(f"{bucket}/a")
    write_snapshot(made("a"), f"{bucket}/a")
    assert ids(f"{bucket}/a") == ["a"]


@pytest.mark.parametrize("damage", ["missing", "cut", "changed"])
def test_damage_is_named(made: Made, bucket: str, damage: str) -> None:
    """A file that is missing, cut or changed is named by its URL."""
    import fsspec

    info = write_snapshot(made("a"), f"{bucket}/a")
    storage, name = fsspec.filesystem("s3"), f"{bucket}/a/{info.generation}/items.parquet"
    text = storage.cat_file(name)
    if damage == "missing":
        storage.rm_file(name)
    else:
        storage.pipe_file(name, text[:-1] if damage == "cut" else text[:5] + bytes([text[5] ^ 1]) + text[6:])
    message = {"missing": "is missing", "cut": "has another size", "changed": "was changed after|cannot be read"}[
        damage
    ]
    with pytest.raises(SnapshotError, match=rf"{re.escape(name)} ({message})"):
        verify_snapshot(f"{bucket}/a")


def test_a_folder_that_was_copied(made: Made, bucket: str, tmp_path: Path, bytes_at: Bytes) -> None:
    """A snapshot that is copied from a URL to a disk, or the other way, is read, verified and replaced there."""
    import fsspec

    storage = fsspec.filesystem("s3")
    write_snapshot(old_words(made), f"{bucket}/a")
    storage.get(f"{bucket}/a/", f"{tmp_path / 'a'}/", recursive=True)
    assert ids(tmp_path / "a") == ["old"]
    verify_snapshot(tmp_path / "a")
    write_snapshot(made("b"), tmp_path / "a")
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == sorted(
        ["snapshot.json", *(f"{n}.parquet" for n in TABLES)]
    )
    write_snapshot(old_words(made), tmp_path / "c")
    storage.put(f"{tmp_path / 'c'}/", f"{bucket}/c/", recursive=True)
    assert ids(f"{bucket}/c") == ["old"]
    verify_snapshot(f"{bucket}/c")
    info = write_snapshot(made("d"), f"{bucket}/c")
    assert {name.partition("/")[0] for name in bytes_at(f"{bucket}/c")} == {"snapshot.json", info.generation}
    assert ids(f"{bucket}/c") == ["d"]


# ---------------------------------------------------------------- readers beside a writer


def test_a_reader_that_comes_late_begins_again(made: Made, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader whose manifest has been replaced, and whose files are gone, opens the new state."""
    write_snapshot(made("a"), f"{bucket}/a")
    stamps, late = remote.RemoteFolder.stamps, [made("b")]

    def replaced_first(self: Any, names: Any) -> Any:
        if late:
            write_snapshot(late.pop(), f"{bucket}/a")
        return stamps(self, names)

    monkeypatch.setattr(remote.RemoteFolder, "stamps", replaced_first)
    assert ids(f"{bucket}/a") == ["b"]
    assert not late


def test_a_table_that_was_replaced_is_told(made: Made, bucket: str) -> None:
    """A table that is asked for after the snapshot was replaced is an error, and never rows of another state."""
    write_snapshot(made("a"), f"{bucket}/a")
    found = read_snapshot(f"{bucket}/a")
    assert found.cases["case_id"].tolist() == ["a"]
    write_snapshot(made("b"), f"{bucket}/a")
    with pytest.raises(SnapshotError, match=r"items.parquet was replaced since it was opened: read the snapshot again"):
        _ = found.items
    assert found.cases["case_id"].tolist() == ["a"]


def test_a_file_that_was_cut_since_is_told(made: Made, memory: str, tmp_path: Path) -> None:
    """A file that is put over by hand with a shorter one, once the snapshot is opened, is found out by its size."""
    import fsspec

    info = write_snapshot(made("a"), f"{memory}/a")
    found = read_snapshot(f"{memory}/a")
    fsspec.filesystem("memory").pipe_file(f"{memory}/a/{info.generation}/items.parquet", b"PAR1")
    with pytest.raises(SnapshotError, match=r"items\.parquet was replaced since it was opened"):
        _ = found.items


def test_two_writers_on_two_machines(made: Made, bucket: str, own_locks: None, bytes_at: Bytes) -> None:
    """Two that write to one URL again and again: each reading is a whole state, and at last one stands, alone."""
    states = {"one": made("a", "b"), "two": made("c", "d", "e")}
    write_snapshot(states["one"], f"{bucket}/a")
    refused: list[str] = []

    def write(name: str) -> None:
        for _ in range(5):
            try:
                write_snapshot(states[name], f"{bucket}/a")
            except SnapshotBusyError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=write, args=(name,), name=name) for name in states]
    for thread in threads:
        thread.start()
    seen, late = set(), list[str]()
    while any(thread.is_alive() for thread in threads):
        try:
            seen.add(tuple(ids(f"{bucket}/a")))
        except SnapshotError as error:
            late.append(str(error))
    for thread in threads:
        thread.join()
    assert seen <= {("a", "b"), ("c", "d", "e")}
    assert seen
    assert all(re.search("was replaced since it was|is being replaced again", message) for message in late)
    assert all("is the new snapshot" in message for message in refused)
    info = verify_snapshot(f"{bucket}/a")
    assert generations(bytes_at(f"{bucket}/a")) == {info.generation}


def test_a_second_writer_on_this_machine_is_told(made: Made, bucket: str) -> None:
    """Two writers on one machine: the one that came first wins whole, and the other raises before it does anything."""
    with SnapshotWriter(f"{bucket}/a") as first:
        first.add(dict(made("a").tables))
        for place in (f"{bucket}/a", f"{bucket}/a/"):
            with pytest.raises(SnapshotBusyError, match="is being written by someone else"):
                write_snapshot(made("b"), place)
            with pytest.raises(SnapshotBusyError):
                standing(place)
        first.finish(Source(test_sets=(("acme.a", "1.0.0"),)), PullReport())
    assert ids(f"{bucket}/a") == ["a"]
