"""Folders that are no whole snapshot: each is refused with a sentence that names the fault, and gives no rows."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from casekit.caseset import CaseSet
from casekit.errors import SnapshotError
from casekit.schema import TABLES
from casekit.snapshot import read_snapshot, snapshot_info, verify_snapshot, write_snapshot
from casekit.snapshots.manifest import MANIFEST_MAX, SnapshotInfo

Made = Callable[..., CaseSet]


@pytest.fixture
def folder(made: Made, tmp_path: Path) -> Path:
    """A whole snapshot of two cases."""
    write_snapshot(made("a", "b"), tmp_path / "s")
    return tmp_path / "s"


def refused(folder: Path, message: str) -> None:
    """Reading and verifying are refused, with a message of one line."""
    for work in (read_snapshot, verify_snapshot):
        with pytest.raises(SnapshotError, match=message) as caught:
            work(folder)
        assert "\n" not in str(caught.value)


def edit(folder: Path, **members: Any) -> None:
    """Change members of the manifest."""
    path = folder / "snapshot.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **members}))


@pytest.mark.parametrize("name", [f"{table}.parquet" for table in TABLES])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    """Without one of its files a snapshot is not whole."""
    (folder / name).unlink()
    refused(folder, f"{name} is missing")


@pytest.mark.parametrize("keep", [0, 1, 7, 100, -1])
def test_a_cut_file_is_named(folder: Path, keep: int) -> None:
    """A file that was cut is found out by its size, and by its content where the manifest was made to fit."""
    path = folder / "items.parquet"
    path.write_bytes(path.read_bytes()[:keep])
    refused(folder, "items.parquet has another size")
    manifest = json.loads((folder / "snapshot.json").read_text())
    manifest["files"]["items.parquet"]["bytes"] = path.stat().st_size
    edit(folder, files=manifest["files"])
    refused(folder, r"items.parquet cannot be read \(\w+\): the snapshot is damaged")


def test_files_of_two_snapshots_do_not_mix(folder: Path, made: Made, tmp_path: Path) -> None:
    """A file of another snapshot is refused, also one of the same size and number of rows."""
    write_snapshot(made("a", "c"), tmp_path / "t")
    for name in TABLES:
        mixed = tmp_path / f"mixed-{name}"
        shutil.copytree(folder, mixed)
        shutil.copy(tmp_path / "t" / f"{name}.parquet", mixed)
        refused(mixed, f"{name}.parquet (belongs to another snapshot|has another size)")
    shutil.copy(tmp_path / "t" / "snapshot.json", folder)
    refused(folder, "mixed")


def test_a_parquet_file_of_anyone_is_refused(folder: Path) -> None:
    """A Parquet file that is no table of a snapshot is refused before a row of it is read."""
    path = folder / "items.parquet"
    pq.write_table(pa.table({"case_id": ["x", "y"]}), path)
    manifest = json.loads((folder / "snapshot.json").read_text())
    manifest["files"]["items.parquet"]["bytes"] = path.stat().st_size
    edit(folder, files=manifest["files"])
    refused(folder, "items.parquet belongs to another snapshot")
    mark = {"content_hash": manifest["content_hash"], "rows": 2}
    pq.write_table(pa.table({"case_id": ["x", "y"]}).replace_schema_metadata({"casekit": json.dumps(mark)}), path)
    manifest["files"]["items.parquet"]["bytes"] = path.stat().st_size
    edit(folder, files=manifest["files"])
    refused(folder, "items.parquet has other columns")


@pytest.mark.parametrize("name", ["items.parquet", "snapshot.json"])
def test_a_link_is_no_file_of_a_snapshot(folder: Path, tmp_path: Path, name: str) -> None:
    """A file that is a symbolic link to elsewhere is refused."""
    os.rename(folder / name, tmp_path / name)
    (folder / name).symlink_to(tmp_path / name)
    refused(folder, "no plain file")


@pytest.mark.parametrize("name", ["items.parquet", "snapshot.json"])
def test_a_pipe_does_not_block(folder: Path, name: str) -> None:
    """A named pipe in the place of a file is refused at once."""
    (folder / name).unlink()
    os.mkfifo(folder / name)
    refused(folder, "no plain file")


def test_a_changed_byte_is_named(folder: Path) -> None:
    """Verifying finds a byte that was changed, and names the file."""
    for name in TABLES:
        path = folder / f"{name}.parquet"
        good = path.read_bytes()
        path.write_bytes(good[:5] + bytes([good[5] ^ 1]) + good[6:])
        with pytest.raises(SnapshotError, match=rf"{name}.parquet (was changed after|cannot be read)"):
            verify_snapshot(folder)
        path.write_bytes(good)
    verify_snapshot(folder)


def forged(folder: Path, table: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Rewrite a table and all hashes of files, as one who knows the format may."""
    import hashlib

    path = folder / f"{table}.parquet"
    old = pq.read_metadata(path).metadata[b"casekit"]
    new = change(pq.read_table(path)).cast(TABLES[table])
    with pq.ParquetWriter(path, TABLES[table]) as writer:
        writer.write_table(new)
        writer.add_key_value_metadata({"casekit": old.decode()})
    manifest = json.loads((folder / "snapshot.json").read_text())
    text = path.read_bytes()
    manifest["files"][path.name] |= {"sha256": hashlib.sha256(text).hexdigest(), "bytes": len(text)}
    edit(folder, files=manifest["files"])


def replaced(column: str, values: list[Any]) -> Callable[[pa.Table], pa.Table]:
    """A change of one column."""
    return lambda table: table.set_column(
        table.schema.get_field_index(column), table.schema.field(column), pa.array(values)
    )


@pytest.mark.parametrize(
    ("table", "column", "values", "message"),
    [
        ("items", "yes", [5, 5], "the cases are not those the content hash was made of"),
        ("items", "case_id", ["a", "a"], "the cases are not those"),
        ("items", "case_id", ["a", "x"], "rows of items are of no case"),
        ("items", "case_id", ["b", "a"], "not in the order of the cases"),
        ("items", "subject_version", ["9.9.9", "9.9.9"], "rows of items say other things of their case"),
        ("cases", "case_id", ["a", "a"], "a case stands in cases twice"),
    ],
)
def test_forged_rows_are_found_out(folder: Path, table: str, column: str, values: list[Any], message: str) -> None:
    """Rows that fit their file's hash and not the content hash, or that contradict their case, fail verification."""
    forged(folder, table, replaced(column, values))
    with pytest.raises(SnapshotError, match=message):
        verify_snapshot(folder)


def test_files_that_do_not_belong_fail_verification(folder: Path) -> None:
    """A stray file in the folder is named; those of file managers hold no case and may stay."""
    (folder / ".DS_Store").write_bytes(b"x")
    verify_snapshot(folder)
    (folder / "notes.txt").write_text("x")
    with pytest.raises(SnapshotError, match=r"files that are not part of the snapshot: notes\.txt"):
        verify_snapshot(folder)
    assert len(read_snapshot(folder)) == 2


# ---------------------------------------------------------------- manifests


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"5",
        b'{"format":"x"}',
        b"\xff",
        b"[" * 100_000,
        b'{"format":"casekit-snapshot"}',
        b'{"format":"casekit-snapshot","format_version":"1"}',
        b'{"format":"casekit-snapshot","format_version":1e99}',
    ],
)
def test_what_is_no_manifest_is_refused(folder: Path, text: bytes) -> None:
    """A manifest that is not one of casekit's is refused."""
    (folder / "snapshot.json").write_bytes(text)
    refused(folder, "is not the manifest of a casekit snapshot")


def test_a_manifest_without_its_members_is_refused(folder: Path) -> None:
    """A manifest of the format with any member missing is refused."""
    whole = json.loads((folder / "snapshot.json").read_text())
    for name in whole:
        if name in ("format", "format_version"):
            continue
        (folder / "snapshot.json").write_text(json.dumps({k: v for k, v in whole.items() if k != name}))
        refused(folder, r"cannot be read \(\w+\): it was changed or cut")


@pytest.mark.parametrize(
    "members",
    [
        {"test_sets": "acme"},
        {"test_sets": [{"test_set_id": 5, "version": "1.0.0"}]},
        {"test_sets": [["a", "b"]]},
        {"agent_id": {}},
        {"origin": 5},
        {"fetched_at": "yesterday"},
        {"fetched_at": "2025-01-02T03:04:05"},
        {"fetched_at": "0001-01-01T00:00:00+14:00"},
        {"fetched_at": None},
        {"casekit": None},
        {"content_hash": "x"},
        {"content_hash": None},
        {"files": {}},
        {"files": []},
        {"report": []},
        {"report": {"pages": "many"}},
        {"report": {"unknown_fields": {"/x": "y"}}},
        {"report": {"bad_cases": [{"case_id": 5}]}},
        {"left_out": [{}]},
        {"left_out": [{"filter": "where", "cases": "x", "items": 0, "not_listed": []}]},
    ],
)
def test_a_manifest_of_other_types_is_refused(folder: Path, members: dict[str, Any]) -> None:
    """A member of the wrong type is refused when the manifest is read, not met later."""
    edit(folder, **members)
    refused(folder, r"snapshot.json cannot be read \(\w+\)")


@pytest.mark.parametrize("bad", [{"sha256": "x"}, {"bytes": -1}, {"bytes": "5"}, {"rows": 1.5}, {"rows": None}])
def test_a_file_entry_of_other_types_is_refused(folder: Path, bad: dict[str, Any]) -> None:
    """Hash, size and rows of a file are what they must be."""
    files = json.loads((folder / "snapshot.json").read_text())["files"]
    edit(folder, files={**files, "items.parquet": {**files["items.parquet"], **bad}})
    refused(folder, r"snapshot.json cannot be read \(\w+\)")


def test_paths_in_a_manifest_go_nowhere(folder: Path, tmp_path: Path) -> None:
    """File names in a manifest are never followed: the names are those of the tables."""
    (tmp_path / "secret").write_text("SECRET")
    files = json.loads((folder / "snapshot.json").read_text())["files"]
    extra = {name: files["items.parquet"] for name in ("../secret", str(tmp_path / "secret"), "..\\secret")}
    edit(folder, files={**files, **extra})
    assert set(snapshot_info(folder).files) == {f"{name}.parquet" for name in TABLES}
    assert len(read_snapshot(folder)) == 2


def test_a_huge_manifest_is_not_read(folder: Path) -> None:
    """A manifest larger than any of casekit's is refused without being parsed."""
    with (folder / "snapshot.json").open("r+b") as file:
        file.truncate(MANIFEST_MAX + 1)
    refused(folder, "too large to be a manifest")


def test_no_manifest_is_written_that_cannot_be_read(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manifest that would be too large to read is not written, and nothing is left behind."""
    monkeypatch.setattr("casekit.snapshots.manifest.MANIFEST_MAX", 500)
    with pytest.raises(SnapshotError, match="more than 500"):
        write_snapshot(made("a"), tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("version", [0, 2, 99])
def test_another_format_is_named(folder: Path, version: int) -> None:
    """A format this version does not know is an error that says what to do, whatever else stands there."""
    (folder / "snapshot.json").write_text(
        json.dumps({"format": "casekit-snapshot", "format_version": version, "new": 1})
    )
    refused(folder, f"has format {version}, which casekit .* does not know: update casekit, or pull again")


def test_members_of_a_later_casekit_are_left_aside(folder: Path) -> None:
    """A member that this version does not know, in a format that it knows, is no error."""
    report = {**json.loads((folder / "snapshot.json").read_text())["report"], "later": 1}
    edit(folder, later={"x": 1}, report=report)
    verify_snapshot(folder)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda j: st.lists(j, max_size=3) | st.dictionaries(st.text(max_size=5), j, max_size=3),
        max_leaves=5,
    ),
    st.data(),
)
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_manifest_is_read_or_refused(folder: Path, value: Any, data: st.DataObject) -> None:
    """Whatever a member is replaced by, the manifest is read, or refused with a SnapshotError."""
    whole = json.loads((folder / "snapshot.json").read_text())
    name = data.draw(st.sampled_from(sorted(whole)))
    try:
        found = SnapshotInfo.from_json(json.dumps({**whole, name: value}).encode(), folder)
    except SnapshotError:
        return
    assert SnapshotInfo.from_json(found.to_json(), folder) == found


def test_a_message_has_no_line_breaks_of_a_path(tmp_path: Path) -> None:
    """A path with control characters is shown on one line, without them."""
    with pytest.raises(SnapshotError) as caught:
        read_snapshot(tmp_path / "a\n\x1b[31mb")
    assert "\\n\\x1b" in str(caught.value)


def test_damage_that_is_met_later_is_named(folder: Path) -> None:
    """A file that is changed after it was opened and before it is read gives an error and no rows."""
    found = read_snapshot(folder)
    path = folder / "items.parquet"
    with path.open("r+b") as file:
        file.seek(4)
        file.write(b"\xff" * 200)
    with pytest.raises(SnapshotError, match=r"items.parquet cannot be read \(\w+\): the snapshot is damaged"):
        _ = found.items


@pytest.mark.parametrize("name", ["casekit.snapshots.folder.Path.open", "casekit.snapshots.stored.hashlib.file_digest"])
def test_what_the_system_will_not_read_is_named(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the system while reading is a SnapshotError that says which."""

    def failing(*_: Any) -> None:
        raise PermissionError(errno.EACCES, "x")

    monkeypatch.setattr(name, failing)
    with pytest.raises(SnapshotError, match=r"cannot be read \(Permission denied\)"):
        verify_snapshot(folder)
