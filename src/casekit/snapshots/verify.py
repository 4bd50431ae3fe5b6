"""Checking a snapshot to the last byte."""

from __future__ import annotations

import pyarrow as pa

from casekit.errors import SnapshotError, one_line
from casekit.schema import FORMAT_COLUMNS
from casekit.snapshots.folder import Folder, LocalFolder, Place, folder_at
from casekit.snapshots.manifest import COMMITTED, DROPPINGS, FILES, MANIFEST, SnapshotInfo
from casekit.snapshots.stored import opened
from casekit.wire import Tables, case_digests, content_hash

__all__ = ["verify_snapshot"]


def verify_snapshot(path: Place) -> SnapshotInfo:
    """Check a snapshot to the last byte: hashes, sizes, rows, columns, and the content hash of its cases.

    Parameters
    ----------
    path
        Its folder, or the URL of it.

    Returns
    -------
    SnapshotInfo
        What it says of itself, all of it true.

    Raises
    ------
    SnapshotError
        Something is wrong; the message names the file.

    Examples
    --------
    >>> import casekit as ck, tempfile
    >>> from casekit.schema import empty_tables
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = ck.write_snapshot(ck.CaseSet(empty_tables()), folder)
    ...     verify_snapshot(folder).content_hash == written.content_hash
    True
    """
    folder = folder_at(path)
    info, files = opened(folder, keep_open=isinstance(folder, LocalFolder))
    tables = {}
    for name, file in files.items():
        file.check_hash()
        tables[name] = file.read()
    extra = _extra(folder, info)
    if extra:
        raise SnapshotError(
            f"{folder.title} holds files that are not part of the snapshot: {one_line(', '.join(extra), 300)}"
        )
    try:
        found = content_hash(case_digests(tables))
    except ValueError as error:
        raise SnapshotError(f"{folder.title}: {error}; pull again") from None
    if found != info.content_hash:
        raise SnapshotError(f"{folder.title}: the cases are not those the content hash was made of; pull again")
    _check_repeated(tables, folder.title)
    return info


def _extra(folder: Folder, info: SnapshotInfo) -> list[str]:
    """What stands there and is no part of the snapshot."""
    if info.generation is None:
        return [name for name in folder.names() if name not in FILES | DROPPINGS]
    above = [name for name in folder.names() if name not in {MANIFEST, info.generation} | DROPPINGS]
    parts = FILES - {MANIFEST} | {COMMITTED} | DROPPINGS
    return above + [info.place(name) for name in folder.names(info.generation) if name not in parts]


def _check_repeated(tables: Tables, where: str) -> None:
    """The columns that child rows repeat from their case are the case's."""
    names = [f.name for f in FORMAT_COLUMNS]
    known = tables["cases"].select(names).group_by(names).aggregate([])
    for name, table in tables.items():
        own = table.select(names).group_by(names).aggregate([])
        if name != "cases" and pa.concat_tables([known, own]).group_by(names).aggregate([]).num_rows != known.num_rows:
            raise SnapshotError(f"{where}: rows of {name} say other things of their case than cases does; pull again")
