"""A snapshot: the tables of a CaseSet as a folder of Parquet files that any tool opens.

Format 1::

    <folder>/
        <table>.parquet   one per table of casekit.schema: zstd, Arrow's schema kept, all columns always;
                          free JSON in Parquet's JSON type. Key-value metadata "casekit":
                          {"content_hash": of the cases, "rows": of this table}
        snapshot.json     written last:
            format          "casekit-snapshot"
            format_version  1
            test_sets       [{"test_set_id", "version"}]   empty for an agent's live test set
            agent_id        null, or the agent
            origin          scheme, host and port of the server
            fetched_at      when the last page came, RFC 3339 in UTC
            casekit         version that wrote it
            content_hash    SHA-256 over the sorted digests of the cases (casekit.wire.digest): the same
                            for any page size, order of cases or version of casekit
            files           {"<table>.parquet": {"sha256", "bytes", "rows"}}
            report          what the load met (casekit.report)
            left_out        what filters left out before it was written

A folder is written beside its place and swapped in whole: a reader sees the old state or the new one. There is no
token, no user name and no path of the machine in it.
"""

from __future__ import annotations

import ctypes
import glob
import hashlib
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq
from filelock import FileLock, Timeout

from casekit import __version__
from casekit.caseset import CaseSet, LeftOut, Source
from casekit.errors import SnapshotBusyError, SnapshotError, one_line
from casekit.report import PullReport
from casekit.schema import JSON, TABLES
from casekit.wire import Tables, case_digests, content_hash

__all__ = ["SnapshotInfo", "SnapshotWriter", "read_snapshot", "snapshot_info", "verify_snapshot", "write_snapshot"]

FORMAT: Final = "casekit-snapshot"
FORMAT_VERSION: Final = 1
SUPPORTED_VERSIONS: Final = (1,)
MANIFEST: Final = "snapshot.json"
MANIFEST_MAX: Final = 16 * 2**20  # bytes; a larger manifest is not ours

ROW_GROUP_ROWS: Final = 100_000
ROW_GROUP_BYTES: Final = 64 * 2**20  # of Arrow memory; what a writer holds before it writes a group
AHEAD: Final = 2  # groups that may wait for the writing thread
STAGED: Final = ".casekit-tmp"  # ending of a folder that is being written or taken away
RENAME_EXCHANGE: Final = 2  # of Linux' renameat2

_PLAIN: Final = frozenset({"case_id", "reason", "should_say", "why", "retired_reason", "session_rationale"})


def _dictionary_columns(schema: pa.Schema) -> list[str]:
    """Text columns whose values repeat; a dictionary of the others would be built and thrown away."""
    return [f.name for f in schema if f.type == pa.string() and f.name not in _PLAIN]


def _statistics_columns(schema: pa.Schema) -> list[str]:
    """Columns whose least and greatest value may stand in a footer: never a person's words."""
    words = {"reason", "should_say", "why", "retired_reason", "session_rationale"}
    return [f.name for f in schema if f.name not in words and f.type != JSON and not pa.types.is_list(f.type)]


# ---------------------------------------------------------------- writing


class SnapshotWriter:
    """Writes groups of tables beside a folder and swaps them in when told that they are whole.

    Use as a context manager; leaving it without `finish` leaves the target as it was, and nothing beside it.

    Parameters
    ----------
    path
        The folder to make or replace. A folder that holds anything but a snapshot is refused.

    Raises
    ------
    SnapshotBusyError
        Somebody else is writing there.
    SnapshotError
        The folder is not a snapshot, or cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.target = Path(os.path.abspath(path))
        _refuse_strangers(self.target)
        self._lock = _locked(self.target)
        try:
            self.target.parent.mkdir(parents=True, exist_ok=True)
            _recover(self.target)
            self._staging = self.target.with_name(f".{self.target.name}.{secrets.token_hex(4)}{STAGED}")
            self._staging.mkdir()
        except OSError as error:
            self._lock.release()
            raise _io_error(self.target, error) from error
        self.digests: list[bytes] = []
        self._counts = dict.fromkeys(TABLES, 0)
        self._waiting: dict[str, list[pa.Table]] = {name: [] for name in TABLES}
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="casekit-snapshot")
        self._pending: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()
        shutil.rmtree(self._staging, ignore_errors=True)
        self._lock.release()

    def add(self, tables: Tables) -> None:
        """Add a group of cases; it is written in a thread of its own."""
        while len(self._pending) >= AHEAD:
            self._settle()
        self._pending.append(self._pool.submit(self._write, tables))

    def _settle(self) -> None:
        try:
            self._pending.popleft().result()
        except (OSError, pa.ArrowException) as error:
            raise _io_error(self.target, error) from error

    def digest_at(self, place: int) -> bytes:
        """The digest of the n-th case added."""
        while self._pending:
            self._settle()
        return self.digests[place]

    def finish(self, source: Source, report: PullReport, left_out: Sequence[LeftOut] = ()) -> SnapshotInfo:
        """Write the rest and the manifest, and swap the folder in."""
        while self._pending:
            self._settle()
        try:
            content = content_hash(self.digests)
            files = {f"{name}.parquet": self._close(name, content) for name in TABLES}
            fetched = source.fetched_at or datetime.now(UTC)
            info = SnapshotInfo(
                test_sets=source.test_sets,
                agent_id=source.agent_id,
                origin=source.origin,
                fetched_at=fetched.astimezone(UTC),
                casekit=__version__,
                content_hash=content,
                files=files,
                report=report,
                left_out=tuple(left_out),
            )
            _write_whole(self._staging / MANIFEST, info.to_json())
            _sync(self._staging)
            _swap(self._staging, self.target)
        except (OSError, pa.ArrowException) as error:
            raise _io_error(self.target, error) from error
        return info

    def _write(self, tables: Tables) -> None:
        self.digests += case_digests(tables)
        for name, table in tables.items():
            self._waiting[name].append(table)
            self._counts[name] += table.num_rows
            waiting = self._waiting[name]
            if (
                sum(t.num_rows for t in waiting) >= ROW_GROUP_ROWS
                or sum(t.nbytes for t in waiting) >= ROW_GROUP_BYTES
            ):
                self._flush(name)

    def _flush(self, name: str) -> None:
        waiting, self._waiting[name] = self._waiting[name], []
        if waiting:
            table = pa.concat_tables(waiting)
            self._writer(name).write_table(table, row_group_size=max(1, table.num_rows))

    def _writer(self, name: str) -> pq.ParquetWriter:
        if name not in self._writers:
            schema = TABLES[name]
            self._writers[name] = pq.ParquetWriter(
                str(self._staging / f"{name}.parquet"),
                schema,
                compression="zstd",
                compression_level=1,
                use_dictionary=_dictionary_columns(schema),
                write_statistics=_statistics_columns(schema),
            )
        return self._writers[name]

    def _close(self, name: str, content: str) -> FileInfo:
        self._flush(name)
        writer = self._writer(name)
        about = json.dumps({"content_hash": content, "rows": self._counts[name]})
        writer.add_key_value_metadata({"casekit": about})
        writer.close()
        del self._writers[name]
        path = self._staging / f"{name}.parquet"
        with path.open("rb+") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        return FileInfo(digest, path.stat().st_size, self._counts[name])


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


# ---------------------------------------------------------------- what a snapshot says of itself


@dataclass(frozen=True)
class FileInfo:
    """Hash, size and rows of one file."""

    sha256: str
    bytes: int
    rows: int


@dataclass(frozen=True)
class SnapshotInfo:
    """What a snapshot says of itself: its manifest.

    Attributes
    ----------
    test_sets : tuple of (str, str)
        Test set and version; empty for an agent's live test set.
    agent_id : str or None
        The agent, for its live test set.
    origin : str or None
        Scheme, host and port of the server.
    fetched_at : datetime
        When the last page came, in UTC.
    casekit : str
        Version that wrote it.
    content_hash : str
        The same for the same cases, however they were fetched.
    files : dict
        Hash, size and rows of each file.
    report : PullReport
        What the load did and met.
    left_out : tuple of LeftOut
        What filters left out before it was written.
    """

    test_sets: tuple[tuple[str, str], ...]
    agent_id: str | None
    origin: str | None
    fetched_at: datetime
    casekit: str
    content_hash: str
    files: Mapping[str, FileInfo]
    report: PullReport
    left_out: tuple[LeftOut, ...]

    def rows(self, table: str) -> int:
        """How many rows a table has."""
        return self.files[f"{table}.parquet"].rows

    def to_json(self) -> bytes:
        """The manifest's bytes."""
        document = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "test_sets": [{"test_set_id": name, "version": version} for name, version in self.test_sets],
            "agent_id": self.agent_id,
            "origin": self.origin,
            "fetched_at": self.fetched_at.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "casekit": self.casekit,
            "content_hash": self.content_hash,
            "files": {name: asdict(file) for name, file in self.files.items()},
            "report": self.report.to_dict(),
            "left_out": [asdict(part) for part in self.left_out],
        }
        return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()

    @classmethod
    def from_json(cls, text: bytes, folder: Path) -> SnapshotInfo:
        """Read a manifest; what is wrong with it is a `SnapshotError` that names it."""
        try:
            document = json.loads(text)
            if not isinstance(document, dict) or document.get("format") != FORMAT:
                raise SnapshotError(f"{folder}: {MANIFEST} is not a casekit snapshot's manifest")
            version = document.get("format_version")
            if version not in SUPPORTED_VERSIONS:
                raise SnapshotError(
                    f"{folder}: snapshot format {version!r} is not known to casekit {__version__}: update casekit, or pull again"
                )
            return cls(
                test_sets=tuple((one["test_set_id"], one["version"]) for one in document["test_sets"]),
                agent_id=document["agent_id"],
                origin=document["origin"],
                fetched_at=datetime.fromisoformat(document["fetched_at"]),
                casekit=document["casekit"],
                content_hash=document["content_hash"],
                files={name: FileInfo(**document["files"][name]) for name in map("{}.parquet".format, TABLES)},
                report=PullReport.from_dict(document["report"]),
                left_out=tuple(
                    LeftOut(p["filter"], p["cases"], p["items"], tuple(p["not_listed"])) for p in document["left_out"]
                ),
            )
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise SnapshotError(f"{folder}: {MANIFEST} cannot be read ({type(error).__name__}): pull again") from None


def snapshot_info(path: str | os.PathLike[str]) -> SnapshotInfo:
    """What a snapshot says of itself, without reading its tables.

    Raises
    ------
    SnapshotError
        The folder is no snapshot, or of a format this version does not know.
    """
    folder = Path(path)
    manifest = folder / MANIFEST
    try:
        if manifest.stat().st_size > MANIFEST_MAX:
            raise SnapshotError(f"{folder}: {MANIFEST} is too large to be a manifest")
        text = manifest.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        what = "has no snapshot.json" if folder.is_dir() else "does not exist" if not folder.exists() else "is no folder"
        raise SnapshotError(
            f"{one_line(str(folder))} {what}, so it is no snapshot: make one with ck.write_snapshot or ck.pull"
        ) from None
    except OSError as error:
        raise _io_error(folder, error) from error
    return SnapshotInfo.from_json(text, folder)


# ---------------------------------------------------------------- reading


class _Stored(Mapping[str, pa.Table]):
    """The tables of some snapshots, each read when first asked for.

    All files are opened and checked at once, so that a refresh in between changes nothing that is read later.
    """

    def __init__(self, folders: Sequence[Path], infos: Sequence[SnapshotInfo]) -> None:
        self._files = {
            name: [_opened(folder, info, name) for folder, info in zip(folders, infos, strict=True)] for name in TABLES
        }
        self._tables: dict[str, pa.Table] = {}

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self._tables:
            parts = [_read(path, file, name) for path, file in self._files[name]]
            self._tables[name] = pa.concat_tables(parts) if parts else TABLES[name].empty_table()
            self._files[name] = []
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(TABLES)

    def __len__(self) -> int:
        return len(TABLES)


def _opened(folder: Path, info: SnapshotInfo, name: str) -> tuple[Path, pq.ParquetFile]:
    path = folder / f"{name}.parquet"
    expected = info.files[path.name]
    try:
        if path.is_symlink() or not path.is_file():
            raise SnapshotError(f"{path} is missing or no plain file: the snapshot is not whole; pull again")
        if path.stat().st_size != expected.bytes:
            raise SnapshotError(f"{path} has another size than snapshot.json says: files were mixed or cut; pull again")
        file = pq.ParquetFile(pa.OSFile(str(path)))
        metadata = file.metadata
        about = json.loads((metadata.metadata or {}).get(b"casekit", b"{}"))
        if about != {"content_hash": info.content_hash, "rows": expected.rows} or metadata.num_rows != expected.rows:
            raise SnapshotError(f"{path} belongs to another snapshot than snapshot.json: files were mixed; pull again")
        if not file.schema_arrow.equals(TABLES[name]):
            raise SnapshotError(f"{path} has other columns than format {FORMAT_VERSION}; pull again")
    except (OSError, pa.ArrowException, ValueError) as error:
        raise SnapshotError(f"{path} cannot be read ({type(error).__name__}): the snapshot is damaged; pull again") from error
    return path, file


def _read(path: Path, file: pq.ParquetFile, name: str) -> pa.Table:
    try:
        table = file.read()
    except (OSError, pa.ArrowException) as error:
        raise SnapshotError(f"{path} cannot be read ({type(error).__name__}): the snapshot is damaged; pull again") from error
    return pa.Table.from_arrays(table.columns, schema=TABLES[name])


def _folders(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[Path]:
    if not isinstance(path, (str, os.PathLike)):
        found = [folder for one in path for folder in _folders(one)]
    elif glob.has_magic(os.fspath(path)) and not os.path.exists(path):
        found = sorted(Path(one) for one in glob.glob(os.fspath(path)) if os.path.isfile(os.path.join(one, MANIFEST)))
        if not found:
            raise SnapshotError(f"no snapshot matches {one_line(os.fspath(path))!r}")
    else:
        folder = Path(path)
        inside = sorted(p.parent for p in folder.glob(f"*/{MANIFEST}") if not p.parent.name.endswith(STAGED))
        found = inside if inside and not (folder / MANIFEST).exists() else [folder]
    twice = {str(p) for p in found if found.count(p) > 1}
    if twice:
        raise SnapshotError(f"{', '.join(sorted(twice))} is given twice")
    return found


def read_snapshot(path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> CaseSet:
    """Open one snapshot or many as one CaseSet; no network, no token.

    Parameters
    ----------
    path
        A snapshot's folder, a folder of such folders, a pattern such as ``"snapshots/acme-*"``, or a list of these.

    Returns
    -------
    CaseSet
        The tables as they were written, in the order of the folders. A table is read when it is first used.

    Raises
    ------
    SnapshotError
        A folder is no snapshot, its files are missing, mixed or damaged, or the same test set and version comes twice.
    """
    folders = _folders(path)
    for folder in folders:
        _recover(Path(os.path.abspath(folder)))
    infos = [snapshot_info(folder) for folder in folders]
    names = [(info.test_sets, info.agent_id) for info in infos]
    for name in names:
        if names.count(name) > 1:
            which = Source(*name).title()
            raise SnapshotError(f"{which} comes twice: read one snapshot of it, or its cases would count double")
    report = PullReport()
    for info in infos:
        report.add(info.report)
    agents = {info.agent_id for info in infos if info.agent_id is not None}
    origins = {info.origin for info in infos}
    source = Source(
        test_sets=tuple(ref for info in infos for ref in info.test_sets),
        agent_id=agents.pop() if len(agents) == 1 and len(infos) == 1 else None,
        origin=origins.pop() if len(origins) == 1 else None,
        fetched_at=min((info.fetched_at for info in infos), default=None),
        folders=tuple(str(folder) for folder in folders),
    )
    left_out = tuple(part for info in infos for part in info.left_out)
    return CaseSet(_Stored(folders, infos), source, report, left_out)


def verify_snapshot(path: str | os.PathLike[str]) -> SnapshotInfo:
    """Check a snapshot to the last byte: hashes, sizes, rows, columns, and the content hash of its cases.

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
    info = snapshot_info(folder)
    for name, expected in info.files.items():
        try:
            with (folder / name).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise _io_error(folder / name, error) from error
        if digest != expected.sha256:
            raise SnapshotError(f"{folder / name} was changed after it was written: its hash differs; pull again")
    extra = sorted(p.name for p in folder.iterdir() if p.name != MANIFEST and p.name not in info.files)
    if extra:
        raise SnapshotError(f"{folder} holds files that are not part of the snapshot: {one_line(', '.join(extra), 300)}")
    stored = _Stored([folder], [info])
    if content_hash(case_digests({name: stored[name] for name in TABLES})) != info.content_hash:
        raise SnapshotError(f"{folder}: the cases are not those the content hash was made of; pull again")
    return info


# ---------------------------------------------------------------- files


def _io_error(path: Path, error: BaseException) -> SnapshotError:
    why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else type(error).__name__
    return SnapshotError(f"{one_line(str(path))}: {why}. What stood there before stands")


def _refuse_strangers(target: Path) -> None:
    """Nothing but a snapshot, or an empty folder, is ever replaced."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise SnapshotError(f"{one_line(str(target))} is not a folder: give a folder for the snapshot")
    if target.is_dir() and not (target / MANIFEST).exists() and any(target.iterdir()):
        raise SnapshotError(f"{one_line(str(target))} holds other files and no snapshot.json: give another folder")


def _locked(target: Path) -> FileLock:
    """One writer a target on this machine. The lock lies apart, so that no stray file stands beside the snapshot."""
    name = hashlib.sha256(os.fsencode(os.path.realpath(target))).hexdigest()
    locks = Path(tempfile.gettempdir()) / f"casekit-locks-{os.getuid() if hasattr(os, 'getuid') else 'all'}"
    locks.mkdir(mode=0o700, exist_ok=True)
    lock = FileLock(locks / f"{name}.lock", timeout=0, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise SnapshotBusyError(f"{one_line(str(target))} is being written by someone else: wait for them") from None
    return lock


def _write_whole(path: Path, text: bytes) -> None:
    with path.open("wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Make a folder's entries last; systems that cannot open a folder need no such thing."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _swap(staging: Path, target: Path) -> None:
    """Put a finished folder in the place of another, so that either the old or the new one stands there."""
    if not target.exists():
        os.rename(staging, target)
    elif _exchanged(staging, target):
        shutil.rmtree(staging)
    else:
        # Two steps where the system cannot exchange: should the second never come, _recover undoes the first.
        old = target.with_name(f".{target.name}.old{STAGED}")
        os.rename(target, old)
        os.rename(staging, target)
        shutil.rmtree(old)
    _sync(target.parent)


def _exchanged(one: Path, other: Path) -> bool:
    """Exchange two folders in one step (Linux); False where the system or its file system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    here = -100  # AT_FDCWD
    return bool(renameat2(here, os.fsencode(one), here, os.fsencode(other), RENAME_EXCHANGE) == 0)


def _recover(target: Path) -> None:
    """Clean up after a writer that was killed: bring back what it had moved aside, take away what it left."""
    old = target.with_name(f".{target.name}.old{STAGED}")
    if old.is_dir() and not target.exists():
        os.rename(old, target)


@contextmanager
def cleaned(target: Path) -> Iterator[None]:
    """Hold the lock of a target and take away what killed writers left beside it."""
    lock = _locked(target)
    try:
        for stray in target.parent.glob(f".{glob.escape(target.name)}.*{STAGED}"):
            shutil.rmtree(stray, ignore_errors=True)
        yield
    finally:
        lock.release()
