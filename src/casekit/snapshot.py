"""A snapshot: the tables of a CaseSet as a folder of Parquet files that any tool opens.

Format 1::

    <folder>/
        <table>.parquet   one per table of casekit.schema: zstd, Arrow's schema kept, all columns always;
                          free JSON in Parquet's JSON type. Key-value metadata "casekit":
                          {"content_hash": of the cases, "rows": of this table}
        snapshot.json     written last: casekit.manifest

A folder is written beside its place and swapped in whole (`casekit.files`): a reader sees the old state or the new one.
There is no token, no user name and no path of the machine in it.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from casekit.caseset import CaseSet, Source
from casekit.errors import SnapshotError, one_line
from casekit.files import STAGED, wait_for_swap
from casekit.manifest import DROPPINGS, FILES, FORMAT_VERSION, MANIFEST, MANIFEST_MAX, MARK, SnapshotInfo, mark
from casekit.report import PullReport
from casekit.schema import FORMAT_COLUMNS, TABLES
from casekit.wire import Tables, case_digests, content_hash
from casekit.writer import SnapshotWriter

__all__ = ["SnapshotInfo", "SnapshotWriter", "read_snapshot", "snapshot_info", "verify_snapshot", "write_snapshot"]

FOLDERS_OPEN: Final = 32  # snapshots whose files are kept open and read when asked for; of more, all is read at once
TRIES: Final = 5  # at opening a folder that is being replaced


def write_snapshot(cases: CaseSet, path: str | os.PathLike[str]) -> SnapshotInfo:
    """Keep a CaseSet as a folder of Parquet files.

    Parameters
    ----------
    cases
        Filters it has been through are noted in the snapshot.
    path
        Folder to make. A snapshot that stands there is replaced whole; anything else there is left alone.

    Returns
    -------
    SnapshotInfo
        What the snapshot says of itself.

    Raises
    ------
    SnapshotBusyError
        Somebody else is writing there.
    SnapshotError
        The folder holds something else, or cannot be written. What stood there stands.
    """
    with SnapshotWriter(path) as writer:
        writer.add({name: cases.arrow(name) for name in TABLES})
        return writer.finish(cases.source, cases.report, cases.left_out)


def snapshot_info(path: str | os.PathLike[str]) -> SnapshotInfo:
    """What a snapshot says of itself, without reading its tables.

    Parameters
    ----------
    path
        Its folder.

    Raises
    ------
    SnapshotError
        The folder is no snapshot, or of a format this version does not know.
    """
    folder = Path(path)
    name = one_line(str(folder), 500)
    for _ in range(TRIES):
        try:
            text = _manifest_text(folder / MANIFEST)
        except (FileNotFoundError, NotADirectoryError):
            if wait_for_swap(Path(os.path.abspath(folder))):
                continue
            what = f"has no {MANIFEST}" if folder.is_dir() else "is no folder" if folder.exists() else "does not exist"
            raise SnapshotError(
                f"{name} {what}, so it is no snapshot: make one with ck.write_snapshot or ck.pull"
            ) from None
        except OSError as error:
            raise _damaged(folder / MANIFEST, error) from error
        return SnapshotInfo.from_json(text, folder)
    raise SnapshotError(f"{name} is being replaced again and again: try later")


def _manifest_text(path: Path) -> bytes:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise SnapshotError(f"{one_line(str(path), 500)} is no plain file: the folder is no snapshot")
    with path.open("rb") as file:
        text = file.read(MANIFEST_MAX + 1)
    if len(text) > MANIFEST_MAX:
        raise SnapshotError(f"{one_line(str(path), 500)} is too large to be a manifest")
    return text


class _StoredTable:
    """The open file of one table in one snapshot, checked against the manifest."""

    def __init__(self, folder: Path, info: SnapshotInfo, table: str) -> None:
        self.path, self.schema = folder / f"{table}.parquet", TABLES[table]
        expected = info.files[self.path.name]
        name = one_line(str(self.path), 500)
        try:
            if self.path.is_symlink() or not self.path.is_file():
                raise SnapshotError(f"{name} is missing or no plain file: the snapshot is not whole; pull again")
            if self.path.stat().st_size != expected.bytes:
                raise SnapshotError(
                    f"{name} has another size than {MANIFEST} says: files were mixed or cut; pull again"
                )
            self._file = pq.ParquetFile(pa.OSFile(str(self.path)))
            metadata = self._file.metadata
            said = json.loads((metadata.metadata or {}).get(MARK, b"null"))
            if said != mark(info.content_hash, expected.rows) or metadata.num_rows != expected.rows:
                raise SnapshotError(f"{name} belongs to another snapshot than {MANIFEST}: files were mixed; pull again")
            if not self._file.schema_arrow.equals(self.schema):
                raise SnapshotError(f"{name} has other columns than format {FORMAT_VERSION}; pull again")
        except (OSError, pa.ArrowException, ValueError, RecursionError) as error:
            raise _damaged(self.path, error) from error

    def read(self) -> pa.Table:
        """The rows; the file is closed."""
        try:
            with self._file as file:
                table = file.read()
        except (OSError, pa.ArrowException) as error:
            raise _damaged(self.path, error) from error
        return pa.Table.from_arrays(table.columns, schema=self.schema)


def _damaged(path: Path, error: BaseException) -> SnapshotError:
    why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else type(error).__name__
    return SnapshotError(f"{one_line(str(path), 500)} cannot be read ({why}): the snapshot is damaged; pull again")


def _opened(folder: Path) -> tuple[SnapshotInfo, dict[str, _StoredTable]]:
    """Manifest and files of one state of a folder, though a writer may be replacing it."""
    before: SnapshotInfo | None = None
    for _ in range(TRIES):
        info = snapshot_info(folder)
        try:
            return info, {table: _StoredTable(folder, info, table) for table in TABLES}
        except SnapshotError:
            if info == before:  # not replaced in between: the fault is the folder's own
                raise
            before = info
    raise SnapshotError(f"{one_line(str(folder), 500)} is being replaced again and again: try later")


class _Stored(Mapping[str, pa.Table]):
    """The tables of some snapshots, each read when first asked for.

    All files are opened and checked at once, so that a refresh in between changes nothing that is read later.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.infos: list[SnapshotInfo] = []
        self._parts: dict[str, list[_StoredTable | pa.Table]] = {name: [] for name in TABLES}
        self._tables: dict[str, pa.Table] = {}
        for folder in folders:
            info, files = _opened(folder)
            self.infos.append(info)
            for name, file in files.items():
                # A process may have about a thousand files open.
                self._parts[name].append(file if len(folders) <= FOLDERS_OPEN else file.read())

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self._tables:
            parts = [part.read() if isinstance(part, _StoredTable) else part for part in self._parts[name]]
            self._tables[name] = pa.concat_tables(parts)
            del self._parts[name]
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(TABLES)

    def __len__(self) -> int:
        return len(TABLES)


def _folders(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    """The folders that are meant."""
    if not isinstance(path, (str, os.PathLike)):
        return [folder for one in path for folder in _folders(one)]
    folder, name = Path(path), one_line(os.fspath(path), 500)
    if glob.has_magic(os.fspath(path)) and not folder.exists():
        found = sorted(Path(one) for one in glob.glob(os.fspath(path)) if os.path.isfile(os.path.join(one, MANIFEST)))
        if not found:
            raise SnapshotError(f"no snapshot matches {name}")
        return found
    if folder.is_dir() and not (folder / MANIFEST).exists():
        inside = sorted(p.parent for p in folder.glob(f"*/{MANIFEST}") if not p.parent.name.endswith(STAGED))
        return inside or [folder]
    return [folder]


def read_snapshot(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> CaseSet:
    """Open one snapshot or many as one CaseSet; no network, no token.

    Parameters
    ----------
    path
        A snapshot's folder, a folder of such folders, a pattern such as ``"snapshots/acme-*"``, or a list of these.

    Returns
    -------
    CaseSet
        The tables as they were written, in the order of the folders. A table is read when it is first used; of more
        than 32 snapshots, all are read at once.

    Raises
    ------
    SnapshotError
        A folder is no snapshot, its files are missing, mixed or damaged, or a test set and version comes twice.
    """
    folders = _folders(path)
    if not folders:
        raise SnapshotError("no snapshot was given: pass a folder, a pattern or a list of folders")
    stored = _Stored(folders)
    infos = stored.infos
    names = [Source((ref,)).title() for info in infos for ref in info.test_sets]
    names += [Source(agent_id=info.agent_id).title() for info in infos if info.agent_id is not None]
    for name in names:
        if names.count(name) > 1:
            raise SnapshotError(f"{name} comes twice: read one snapshot of it, or its cases would count double")
    report = PullReport()
    for info in infos:
        report.add(info.report)
    origins = {info.origin for info in infos}
    source = Source(
        test_sets=tuple(ref for info in infos for ref in info.test_sets),
        agent_id=infos[0].agent_id if len(infos) == 1 else None,
        origin=origins.pop() if len(origins) == 1 else None,
        fetched_at=min(info.fetched_at for info in infos),
        folders=tuple(str(folder) for folder in folders),
    )
    return CaseSet(stored, source, report, tuple(part for info in infos for part in info.left_out))


def verify_snapshot(path: str | os.PathLike[str]) -> SnapshotInfo:
    """Check a snapshot to the last byte: hashes, sizes, rows, columns, and the content hash of its cases.

    Parameters
    ----------
    path
        Its folder.

    Returns
    -------
    SnapshotInfo
        What it says of itself, all of it true.

    Raises
    ------
    SnapshotError
        Something is wrong; the message names the file.
    """
    folder = Path(path)
    stored = _Stored([folder])
    info = stored.infos[0]
    for name, expected in info.files.items():
        try:
            with (folder / name).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise _damaged(folder / name, error) from error
        if digest != expected.sha256:
            raise SnapshotError(
                f"{one_line(str(folder / name), 500)} was changed after it was written: its hash differs; pull again"
            )
    where = one_line(str(folder), 500)
    extra = sorted(entry.name for entry in os.scandir(folder) if entry.name not in FILES | DROPPINGS)
    if extra:
        raise SnapshotError(f"{where} holds files that are not part of the snapshot: {one_line(', '.join(extra), 300)}")
    tables = {name: stored[name] for name in TABLES}
    try:
        found = content_hash(case_digests(tables))
    except ValueError as error:
        raise SnapshotError(f"{where}: {error}; pull again") from None
    if found != info.content_hash:
        raise SnapshotError(f"{where}: the cases are not those the content hash was made of; pull again")
    _check_repeated(tables, where)
    return info


def _check_repeated(tables: Tables, where: str) -> None:
    """The columns that child rows repeat from their case are the case's."""
    names = [f.name for f in FORMAT_COLUMNS]
    known = tables["cases"].select(names).group_by(names).aggregate([])
    for name, table in tables.items():
        own = table.select(names).group_by(names).aggregate([])
        if name != "cases" and pa.concat_tables([known, own]).group_by(names).aggregate([]).num_rows != known.num_rows:
            raise SnapshotError(f"{where}: rows of {name} say other things of their case than cases does; pull again")
