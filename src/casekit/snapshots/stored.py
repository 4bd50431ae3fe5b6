"""The tables of snapshots, opened and checked against their manifests, and read when they are asked for."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from casekit.errors import SnapshotError
from casekit.files import wait_for_swap
from casekit.schema import TABLES
from casekit.snapshots.folder import Folder, LocalFolder, damaged
from casekit.snapshots.manifest import FORMAT_VERSION, MANIFEST, MANIFEST_MAX, MARK, SnapshotInfo, mark
from casekit.snapshots.remote import each

__all__ = ["Stored", "StoredTable", "info_of", "opened"]

FOLDERS_OPEN: Final = 32  # snapshots whose files are opened at once and kept open
TRIES: Final = 5  # at opening a folder that is being replaced


def info_of(folder: Folder) -> SnapshotInfo:
    """What a snapshot says of itself.

    Raises
    ------
    SnapshotError
        The folder is no snapshot, or of a format this version does not know.
    """
    for _ in range(TRIES):
        try:
            text = folder.text(MANIFEST, MANIFEST_MAX + 1)
        except FileNotFoundError:
            if isinstance(folder, LocalFolder) and wait_for_swap(Path(os.path.abspath(folder.path))):
                continue
            raise SnapshotError(f"{folder.title} {_missing(folder)}") from None
        if len(text) > MANIFEST_MAX:
            raise SnapshotError(f"{folder.shown(MANIFEST)} is too large to be a manifest")
        return SnapshotInfo.from_json(text, folder.title)
    raise SnapshotError(f"{folder.title} is being replaced again and again: try later")


def _missing(folder: Folder) -> str:
    """Why a folder is no snapshot, and what to do about it."""
    why = f"has no {MANIFEST}"
    if isinstance(folder, LocalFolder) and not folder.path.is_dir():
        why = "is no folder" if folder.path.exists() else "does not exist"
    parent = folder.parent()
    near = [] if parent is None else get_close_matches(folder.name, parent.names())
    found = next((name for name in near if name != folder.name and parent and parent.child(name).has(MANIFEST)), None)
    if found is not None and parent is not None:
        return f"{why}, so it is no snapshot; did you mean {parent.shown(found)}?"
    return f"{why}, so it is no snapshot: make one with ck.write_snapshot or ck.pull"


class StoredTable:
    """The file of one table in one snapshot.

    Parameters
    ----------
    folder, info, table
        Which.
    stamp
        What `Folder.stamps` says of the file; the size must be the manifest's.

    Raises
    ------
    SnapshotError
        The file is missing, or of another size.
    """

    def __init__(self, folder: Folder, info: SnapshotInfo, table: str, stamp: tuple[int, ...] | None) -> None:
        file = f"{table}.parquet"
        self._folder, self._place, self._expected = folder, info.place(file), info.files[file]
        self._mark, self.schema, self.name = mark(info.content_hash, self._expected.rows), TABLES[table], file
        self.title = folder.shown(self._place)
        self._raw: pa.NativeFile | None = None
        self._parquet: pq.ParquetFile | None = None
        if stamp is None:
            raise SnapshotError(f"{self.title} is missing or no plain file: the snapshot is not whole; pull again")
        if stamp[0] != self._expected.bytes:
            raise SnapshotError(
                f"{self.title} has another size than {MANIFEST} says: files were mixed or cut; pull again"
            )
        self._stamp = stamp

    def open(self) -> pq.ParquetFile:
        """Open the file, where it is not yet, and see that it is the one the manifest means.

        Raises
        ------
        SnapshotError
            It was replaced since its size was taken, or is of another snapshot, or damaged.
        """
        if self._parquet is None:
            try:
                self._raw = self._folder.open(self._place, self._stamp)
                self._parquet = self._checked(pq.ParquetFile(self._raw))
            except FileNotFoundError:
                raise SnapshotError(f"{self.title} was replaced since it was opened: read the snapshot again") from None
            except (OSError, pa.ArrowException, ValueError, RecursionError) as error:
                raise damaged(self.title, error) from error
        return self._parquet

    def _checked(self, file: pq.ParquetFile) -> pq.ParquetFile:
        metadata = file.metadata
        said = json.loads((metadata.metadata or {}).get(MARK, b"null"))
        if said != self._mark or metadata.num_rows != self._expected.rows:
            raise SnapshotError(
                f"{self.title} belongs to another snapshot than {MANIFEST}: files were mixed; pull again"
            )
        if not file.schema_arrow.equals(self.schema):
            raise SnapshotError(f"{self.title} has other columns than format {FORMAT_VERSION}; pull again")
        return file

    def check_hash(self) -> None:
        """See that every byte is as it was written; `read` can come after it."""
        self.open()
        assert self._raw is not None
        try:
            self._raw.seek(0)
            digest = hashlib.file_digest(self._raw, "sha256").hexdigest()
        except OSError as error:
            raise damaged(self.title, error) from error
        if digest != self._expected.sha256:
            raise SnapshotError(f"{self.title} was changed after it was written: its hash differs; pull again")

    def read(self) -> pa.Table:
        """The rows; the file is closed."""
        file = self.open()
        try:
            table = file.read()
        except (OSError, pa.ArrowException) as error:
            raise damaged(self.title, error) from error
        finally:
            file.close(force=True)
            self._parquet = self._raw = None
        return pa.Table.from_arrays(table.columns, schema=self.schema)


def opened(folder: Folder, *, keep_open: bool) -> tuple[SnapshotInfo, dict[str, StoredTable]]:
    """Manifest and files of one state of a folder, though a writer may be replacing it.

    Parameters
    ----------
    folder
        Of a snapshot.
    keep_open
        Open each file now, not when it is read: then a writer that replaces it changes nothing for who reads.
    """
    before: SnapshotInfo | None = None
    for _ in range(TRIES):
        info = info_of(folder)
        try:
            stamps = folder.stamps(info.place(name) for name in info.files)
            tables = {
                table: StoredTable(folder, info, table, stamps[info.place(f"{table}.parquet")]) for table in TABLES
            }
            if keep_open:
                for one in tables.values():
                    one.open()
            return info, tables
        except SnapshotError:
            if info == before:  # not replaced in between: the fault is the folder's own
                raise
            before = info
    raise SnapshotError(f"{folder.title} is being replaced again and again: try later")


def _few() -> int:
    """Snapshots whose files may be kept open: a third of the files that this process may have open, at most."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return FOLDERS_OPEN
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return FOLDERS_OPEN if files == resource.RLIM_INFINITY else min(FOLDERS_OPEN, files // (3 * len(TABLES)))


class Stored(Mapping[str, pa.Table]):
    """The tables of some snapshots, each read when first asked for.

    The files of a few snapshots on this machine are all opened at once, so that a refresh in between changes nothing
    that is read later. Those of many, or at a URL, are opened when their table is read: one that was replaced is
    refused then.
    """

    def __init__(self, folders: Sequence[Folder]) -> None:
        few = len(folders) <= _few()
        found = each(lambda folder: opened(folder, keep_open=few and isinstance(folder, LocalFolder)), folders)
        self.infos = [info for info, _ in found]
        self._parts = {name: [tables[name] for _, tables in found] for name in TABLES}
        self._tables: dict[str, pa.Table] = {}

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self._tables:
            self._tables[name] = pa.concat_tables(each(StoredTable.read, self._parts[name]))
            del self._parts[name]
        return self._tables[name]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled and copied as tables: open files, and what gives access to a URL, stay in this process."""
        return dict, (dict(self),)

    def __iter__(self) -> Iterator[str]:
        return iter(TABLES)

    def __len__(self) -> int:
        return len(TABLES)
