"""A snapshot: the tables of a CaseSet as a folder of Parquet files that any tool opens.

Format 1::

    <folder>/
        <table>.parquet   one per table of casekit.schema: zstd, Arrow's schema kept, all columns always;
                          free JSON in Parquet's JSON type. Key-value metadata "casekit":
                          {"content_hash": of the cases, "rows": of this table}
        snapshot.json     written last: casekit.snapshots.manifest

A folder is written beside its place and swapped in whole (`casekit.files`): a reader sees the old state or the new one.
There is no token, no user name and no path of the machine in it.

At a URL nothing can be swapped. There the files stand in a folder inside it, a new one for each writing, which the
manifest names (``generation``); `casekit.snapshots.target` says how the old one gives way. Such a folder is read from
a disk too, when somebody copies it there.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from datetime import timedelta

from casekit.caseset import CaseSet
from casekit.errors import SnapshotError, StaleSnapshotWarning
from casekit.report import PullReport
from casekit.schema import TABLES
from casekit.snapshots.folder import Folder, Place, folder_at, folders_at
from casekit.snapshots.manifest import SnapshotInfo, check_age
from casekit.snapshots.stored import Stored, info_of
from casekit.snapshots.verify import verify_snapshot
from casekit.snapshots.writer import SnapshotWriter
from casekit.source import Source

__all__ = ["SnapshotInfo", "SnapshotWriter", "read_snapshot", "snapshot_info", "verify_snapshot", "write_snapshot"]


def write_snapshot(cases: CaseSet, path: Place) -> SnapshotInfo:
    """Keep a CaseSet as a folder of Parquet files.

    Parameters
    ----------
    cases
        Filters it has been through are noted in the snapshot.
    path
        Folder to make, or its URL, such as ``"s3://bucket/a"`` (needs ``casekit[remote]`` and the package for that
        storage, such as s3fs). A snapshot that stands there is replaced whole; anything else there is left alone.

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

    Examples
    --------
    >>> import tempfile
    >>> from casekit.schema import empty_tables
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     info = write_snapshot(CaseSet(empty_tables()), f"{folder}/empty")
    >>> info.rows("cases"), len(info.files) == len(TABLES)
    (0, True)
    """
    with SnapshotWriter(path) as writer:
        writer.add({name: cases.arrow(name) for name in TABLES})
        return writer.finish(cases.source, cases.report, cases.left_out)


def snapshot_info(path: Place) -> SnapshotInfo:
    """What a snapshot says of itself, without reading its tables.

    Parameters
    ----------
    path
        Its folder, or the URL of it.

    Returns
    -------
    SnapshotInfo
        Its manifest: which cases it holds, from where and when, how many rows, and the hash of each file.

    Raises
    ------
    SnapshotError
        The folder is no snapshot, or of a format this version does not know.

    Examples
    --------
    >>> import tempfile
    >>> from casekit.schema import empty_tables
    >>> cases = CaseSet(empty_tables(), Source(test_sets=(("acme.demo", "1.0.0"),)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_snapshot(cases, folder)
    ...     snapshot_info(folder).test_sets
    (('acme.demo', '1.0.0'),)
    """
    return info_of(folder_at(path))


def read_snapshot(path: Place | Sequence[Place], max_age: timedelta | None = None) -> CaseSet:
    """Open one snapshot or many as one CaseSet; no token, and no network but to read from a URL.

    Parameters
    ----------
    path
        A snapshot's folder, a folder of such folders, a pattern such as ``"snapshots/acme-*"``, or a list of these.
        Each may be a URL, such as ``"s3://bucket/snapshots"``.
    max_age
        Warn of a snapshot whose last page came longer ago: what it holds may have been erased since.

    Returns
    -------
    CaseSet
        The tables as they were written, in the order of the folders. A table is read when it is first used. Of up to
        32 folders on this machine (less where a process may open few files) the files are opened at once, and a writer
        changes nothing for who has opened them. Of more, or at a URL, they are opened when they are read: what was
        replaced by then is an error, not other rows.

    Warns
    -----
    StaleSnapshotWarning
        A snapshot is older than ``max_age``.

    Raises
    ------
    ConfigError
        ``max_age`` is no length of time, or the URL cannot be used.
    SnapshotError
        A folder is no snapshot, its files are missing, mixed or damaged, or a test set and version comes twice.

    Examples
    --------
    >>> import tempfile
    >>> from casekit.schema import empty_tables
    >>> folder = tempfile.mkdtemp()
    >>> for version in ("1.0.0", "1.1.0"):
    ...     cases = CaseSet(empty_tables(), Source(test_sets=(("acme.demo", version),)))
    ...     _ = write_snapshot(cases, f"{folder}/{version}")
    >>> read_snapshot(f"{folder}/1.1.0").source.test_sets
    (('acme.demo', '1.1.0'),)
    >>> read_snapshot(folder).source.test_sets
    (('acme.demo', '1.0.0'), ('acme.demo', '1.1.0'))
    """
    if max_age is not None:
        check_age(max_age)
    folders = folders_at(path)
    if not folders:
        raise SnapshotError("no snapshot was given: pass a folder, a pattern or a list of folders")
    stored = Stored(folders)
    infos = stored.infos
    names = [Source((ref,)).title() for info in infos for ref in info.test_sets]
    names += [Source(agent_id=info.agent_id).title() for info in infos if info.agent_id is not None]
    for name in names:
        if names.count(name) > 1:
            raise SnapshotError(f"{name} comes twice: read one snapshot of it, or its cases would count double")
    if max_age is not None:
        _warn_of_age(folders, infos, max_age)
    report = PullReport()
    for info in infos:
        report.add(info.report)
    origins = {info.origin for info in infos}
    source = Source(
        test_sets=tuple(ref for info in infos for ref in info.test_sets),
        agent_id=infos[0].agent_id if len(infos) == 1 else None,
        origin=origins.pop() if len(origins) == 1 else None,
        fetched_at=min(info.fetched_at for info in infos),
        folders=tuple(folder.location for folder in folders),
    )
    return CaseSet(stored, source, report, tuple(part for info in infos for part in info.left_out))


def _warn_of_age(folders: Sequence[Folder], infos: Sequence[SnapshotInfo], max_age: timedelta) -> None:
    stale = sorted(
        (
            (info.age, folder.title, info.title())
            for folder, info in zip(folders, infos, strict=True)
            if info.age > max_age
        ),
        reverse=True,
    )
    if stale:
        age, folder_name, title = stale[0]
        more = f", and {len(stale) - 1:,} more are too old" if len(stale) > 1 else ""
        warnings.warn(
            f"{folder_name} ({title}) is {_in_words(age)} old, and max_age is {_in_words(max_age)}{more}: "
            "bring it up to date with ck.refresh_snapshot",
            StaleSnapshotWarning,
            stacklevel=3,
        )


def _in_words(length: timedelta) -> str:
    """A length of time in its largest unit."""
    for seconds, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        number = int(length.total_seconds() // seconds)
        if number:
            return f"{number:,} {unit}{'s' if number > 1 else ''}"
    return f"{length.total_seconds():.3g} seconds"
