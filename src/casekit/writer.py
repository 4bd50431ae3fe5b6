"""Writing a snapshot: groups of tables go in, a whole folder stands there at the end."""

from __future__ import annotations

import json
import os
import shutil
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from casekit import __version__
from casekit.caseset import LeftOut, Source
from casekit.errors import SnapshotError, one_line
from casekit.files import file_error, locked, staging_for, swap, sweep, sync, write_whole
from casekit.manifest import DROPPINGS, FILES, FORMAT, MANIFEST, MANIFEST_MAX, SnapshotInfo
from casekit.parquet import TableFile
from casekit.report import PullReport
from casekit.schema import TABLES
from casekit.wire import Tables, case_digests, content_hash

__all__ = ["SnapshotWriter"]

AHEAD: Final = 4  # row groups that may wait for the writing thread
CLOSING: Final = 2  # threads that write what is left at the end; before, one keeps up with a pull


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
        self._lock = locked(self.target)
        try:
            self.target.parent.mkdir(parents=True, exist_ok=True)
            sweep(self.target)
            _refuse_strangers(self.target)
            self._staging = staging_for(self.target)
        except BaseException as error:
            self._lock.release()
            if isinstance(error, OSError):
                raise file_error(self.target, error) from error
            raise
        self.digests: list[bytes] = []
        self._files = {name: TableFile(self._staging / f"{name}.parquet", name) for name in TABLES}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="casekit-snapshot")
        self._pending: deque[Future[None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._pool.shutdown(wait=True, cancel_futures=True)
            for file in self._files.values():
                file.abandon()
            shutil.rmtree(self._staging, ignore_errors=True)  # gone already after finish
        finally:
            self._lock.release()

    def add(self, tables: Tables) -> None:
        """Add a group of cases; full row groups are written by a thread of its own.

        Raises
        ------
        SnapshotError
            Rows are not in the order of their cases, or what was added before could not be written.
        """
        try:
            self.digests += case_digests(tables)
        except ValueError as error:
            raise SnapshotError(f"{one_line(str(self.target), 500)} cannot be written: {error}") from None
        for name, file in self._files.items():
            group = file.take(tables[name])
            if group:
                while len(self._pending) >= AHEAD:
                    self._settle()
                self._pending.append(self._pool.submit(file.write, group))

    def _settle(self) -> None:
        try:
            self._pending.popleft().result()
        except (OSError, pa.ArrowException) as error:
            raise file_error(self.target, error) from error

    def digest_at(self, place: int) -> bytes:
        """The digest of the n-th case added."""
        return self.digests[place]

    def finish(self, source: Source, report: PullReport, left_out: Sequence[LeftOut] = ()) -> SnapshotInfo:
        """Write the rest and the manifest, and swap the folder in.

        Parameters
        ----------
        source, report, left_out
            What the manifest says of the cases.

        Returns
        -------
        SnapshotInfo
            The manifest.

        Raises
        ------
        SnapshotError
            It could not be written. What stood there stands.
        """
        while self._pending:
            self._settle()
        content = content_hash(self.digests)
        with ThreadPoolExecutor(CLOSING, thread_name_prefix="casekit-snapshot") as pool:
            largest_first = sorted(self._files.values(), key=lambda file: -file.waiting_bytes)
            self._pending.extend(pool.submit(file.close, content) for file in largest_first)
            while self._pending:
                self._settle()
        info = SnapshotInfo(
            test_sets=source.test_sets,
            agent_id=source.agent_id,
            origin=source.origin,
            fetched_at=(source.fetched_at or datetime.now(UTC)).astimezone(UTC),
            casekit=__version__,
            content_hash=content,
            files={file.path.name: file.info() for file in self._files.values()},
            report=report,
            left_out=tuple(left_out),
        )
        try:
            write_whole(self._staging / MANIFEST, info.to_json())
            sync(self._staging)
            swap(self._staging, self.target)
        except OSError as error:
            raise file_error(self.target, error) from error
        return info


def _refuse_strangers(target: Path) -> None:
    """Nothing but a snapshot, or an empty folder, is ever replaced."""
    name = one_line(str(target), 500)
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise SnapshotError(f"{name} is not a folder: give a folder for the snapshot")
    if not target.is_dir():
        return
    others = sorted(entry.name for entry in os.scandir(target) if entry.name not in FILES | DROPPINGS)
    if others:
        raise SnapshotError(f"{name} holds other files ({one_line(', '.join(others), 200)}): give another folder")
    if (target / MANIFEST).exists() and not _ours(target / MANIFEST):
        raise SnapshotError(f"{name} holds a {MANIFEST} that is not casekit's: give another folder")


def _ours(manifest: Path) -> bool:
    """Whether a manifest is one of this format, or so damaged that it is nobody's."""
    with manifest.open("rb") as file:
        text = file.read(MANIFEST_MAX + 1)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return True
    return isinstance(found, dict) and found.get("format") == FORMAT
