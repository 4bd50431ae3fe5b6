"""Writing a snapshot: groups of tables go in, a whole folder stands there at the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

import pyarrow as pa

from casekit import __version__
from casekit.errors import SnapshotError
from casekit.files import file_error
from casekit.report import PullReport
from casekit.schema import TABLES
from casekit.snapshots.folder import Place
from casekit.snapshots.manifest import SnapshotInfo
from casekit.snapshots.parquet import TableFile
from casekit.snapshots.target import target_at
from casekit.source import LeftOut, Source
from casekit.wire import Tables, case_digests, content_hash

__all__ = ["SnapshotWriter"]

AHEAD: Final = 4  # row groups that may wait for the writing thread
CLOSING: Final = 2  # threads that write what is left at the end; before, one keeps up with a pull


class SnapshotWriter:
    """Writes groups of tables beside their place, and puts them there when told that they are whole.

    Use as a context manager; leaving it without `finish` leaves the target as it was, and nothing beside it.

    Parameters
    ----------
    path
        The folder to make or replace, or its URL. A folder that holds anything but a snapshot is refused.

    Raises
    ------
    SnapshotBusyError
        Somebody else is writing there.
    SnapshotError
        The folder is not a snapshot, or cannot be written.
    """

    def __init__(self, path: Place) -> None:
        self._target = target_at(path)
        self.digests: list[bytes] = []
        self._files = {name: TableFile(self._target.staging / f"{name}.parquet", name) for name in TABLES}
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="casekit-snapshot")
        self._pending: deque[Future[None]] = deque()
        self._latest: dict[str, Future[None]] = {}  # of each table, the row group that was handed over last

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._pool.shutdown(wait=True, cancel_futures=True)
            for file in self._files.values():
                file.abandon()
        finally:
            self._target.close()

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
            raise SnapshotError(f"{self._target.title} cannot be written: {error}") from None
        for name, file in self._files.items():
            group = file.take(tables[name])
            if group:
                while len(self._pending) >= AHEAD:
                    self._settle()
                self._latest[name] = self._pool.submit(file.write, group)
                self._pending.append(self._latest[name])

    def _settle(self) -> None:
        try:
            self._pending.popleft().result()
        except (OSError, pa.ArrowException) as error:
            raise file_error(self._target.scene, error) from error

    def _settle_all(self) -> None:
        while self._pending:
            self._settle()

    def _close(self, name: str, content: str) -> None:
        if name in self._latest:
            self._latest[name].result()
        self._files[name].close(content)

    def digest_at(self, place: int) -> bytes:
        """The digest of the n-th case added."""
        return self.digests[place]

    def finish(self, source: Source, report: PullReport, left_out: Sequence[LeftOut] = ()) -> SnapshotInfo:
        """Write the rest and the manifest, and put them in the place of what stood there.

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
        content = content_hash(self.digests)
        # Files of which nothing waits to be written first: they are closed while the others are still written.
        names = sorted(TABLES, key=lambda name: (name in self._latest, -self._files[name].waiting_bytes))
        with ThreadPoolExecutor(CLOSING, thread_name_prefix="casekit-snapshot") as pool:
            self._pending.extend(pool.submit(self._close, name, content) for name in names)
            self._settle_all()
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
        return self._target.commit(info)
