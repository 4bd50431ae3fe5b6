"""Bringing a snapshot up to date: the list is read again, and what it changed is told case by case."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from casekit.change import SnapshotChange
from casekit.client import Client
from casekit.errors import ConfigError, SnapshotError, one_line
from casekit.report import OnError, PullReport
from casekit.snapshot import snapshot_info
from casekit.snapshots.folder import Place, damaged, folder_at
from casekit.snapshots.manifest import SnapshotInfo
from casekit.snapshots.stored import StoredTable, opened
from casekit.walk import Listing, spread, walks
from casekit.wire import Tables, case_digests, content_hash

__all__ = ["refresh_snapshot"]

ROWS: Final = 2000  # of a table of the old state read at a time
_AGAIN: Final = "pull it anew with ck.pull, or load it and write it with ck.write_snapshot"


def refresh_snapshot(
    path: Place,
    *,
    client: Client | None = None,
    progress: bool | None = None,
    on_error: OnError = "raise",
) -> SnapshotChange:
    """Bring a snapshot up to date: list its cases again, and put the new state in place of the old one.

    After it no byte of a text that an erasure cleared on the server is left in the folder or beside it. Where anything
    goes wrong, what stood there stands.

    Parameters
    ----------
    path
        The snapshot's folder, or its URL: of a version of a test set, or of an agent's live test set. An agent's cases
        come from all projects, also where the snapshot was made of one project's alone.
    client
        Of the server that the snapshot came from; else one made from ``CASEKIT_URL`` and ``CASEKIT_TOKEN``.
    progress, on_error
        As in `load_test_set`.

    Returns
    -------
    SnapshotChange
        Ids of the cases that were added, changed, erased since, or are gone. A refresh that changed no case counts
        too: the snapshot's ``fetched_at`` is now its own.

    Raises
    ------
    ConfigError
        The snapshot cannot be refreshed: it came from another server, holds several test sets, or what a filter left.
    SnapshotBusyError
        Somebody else is writing there.
    SnapshotError
        The folder is no snapshot, or a damaged one, or cannot be written.
    CasekitError
        The list could not be read; see `casekit.errors`.

    Examples
    --------
    >>> import casekit as ck, tempfile
    >>> case = {"caseId": "case-1", "subject": {"kind": "agent", "id": "acme.a", "version": "1.0.0"},
    ...         "input": "hello", "output": "hi", "items": []}
    >>> with ck.LocalServer() as server, ck.Client(server.url, token=server.token) as client:
    ...     _ = server.add_test_set("acme.demo", "1.0.0", [case])
    ...     folder = tempfile.mkdtemp()
    ...     _ = ck.write_snapshot(ck.load_test_set("acme.demo", "1.0.0", client=client), folder)
    ...     _ = server.erase_case("case-1")
    ...     change = ck.refresh_snapshot(folder, client=client)
    >>> change.erased, change.unchanged
    (('case-1',), 0)
    """
    info = snapshot_info(path)
    listing = _listing(info, folder_at(path).title)
    with walks(client, listing.name(), progress, on_error) as walk:
        comparison = _Comparison(path, listing, walk.client.origin)
        comparison.check(info)  # before anything is sent
        [after] = spread(lambda one: walk.on_disk(one, path, comparison), [listing], 1, walk.stop)
    return comparison.change(after)


def _listing(info: SnapshotInfo, name: str) -> Listing:
    """The list that a snapshot was made of, where it is one list and all of it."""
    if info.left_out:
        raise ConfigError(
            f"{name} holds what filters left ({'; '.join(map(str, info.left_out))}), and a refresh would bring the "
            "rest back: refresh a snapshot of the whole list, and filter after reading it"
        )
    if info.agent_id is not None and not info.test_sets:
        return Listing(info.agent_id)
    if len(info.test_sets) == 1 and info.agent_id is None:
        return Listing(info.test_sets[0])
    holds = f"{len(info.test_sets)} test sets" if info.test_sets else "cases of no one test set"
    raise ConfigError(f"{name} holds {holds}, and a refresh takes one: pull each into a folder of its own with ck.pull")


class _Comparison:
    """The old state of a snapshot, against which the cases of a walk are held; of it only ids and digests are kept.

    Parameters
    ----------
    path, listing, origin
        Of the snapshot, and of the server that is asked.
    """

    def __init__(self, path: Place, listing: Listing, origin: str) -> None:
        self._path, self._listing, self._origin = path, listing, origin
        self._name = folder_at(path).title

    def check(self, info: SnapshotInfo) -> None:
        """See that the snapshot is of this list and this server."""
        if _listing(info, self._name) != self._listing:
            raise SnapshotError(f"{self._name} was replaced by another snapshot at this moment: refresh it again")
        if info.origin is None:
            raise ConfigError(f"{self._name} does not say which server it came from: {_AGAIN}")
        if info.origin != self._origin:
            raise ConfigError(
                f"{self._name} came from {one_line(info.origin, 200)}, and the client asks {self._origin}: "
                f"refresh it with a client of its own server, or {_AGAIN}"
            )

    def begin(self) -> None:
        """Read the old state, a group of cases at a time."""
        self._info, files = opened(folder_at(self._path), keep_open=True)
        self.check(self._info)
        self._old: dict[str, tuple[bytes, bool]] = {}  # digest of each case, and whether it is erased
        self._new: dict[str, bool] = {}  # each case that came, in order, and whether it is erased
        try:
            self._check_owner(files["cases"].open().read(["test_set_id", "version"]))
            for group in _groups(files):
                cases = group["cases"]
                found = zip(case_digests(group), _erased(cases), strict=True)
                self._old.update(zip(cases["case_id"].to_pylist(), found, strict=True))
        except (OSError, pa.ArrowException) as error:
            raise damaged(self._name, error) from error
        except ValueError as error:
            raise SnapshotError(f"{self._name}: {error}; pull again") from None
        finally:
            for file in files.values():
                file.open().close(force=True)
        if content_hash([digest for digest, _ in self._old.values()]) != self._info.content_hash:
            raise SnapshotError(f"{self._name}: the cases are not those the content hash was made of; pull again")

    def _check_owner(self, cases: pa.Table) -> None:
        """A folder may hold more than it says: cases of several lists, read together and written as one."""
        own = (None, None) if isinstance(self._listing.of, str) else self._listing.of
        found = cases.group_by(["test_set_id", "version"]).aggregate([]).to_pylist()
        if any((one["test_set_id"], one["version"]) != own for one in found):
            raise ConfigError(f"{self._name} holds cases of other lists than the one it names: {_AGAIN}")

    def add(self, tables: Tables) -> None:
        """Cases that came."""
        cases = tables["cases"]
        self._new.update(zip(cases["case_id"].to_pylist(), _erased(cases), strict=True))

    def end(self, digest_at: Callable[[int], bytes]) -> None:
        """Hold each case that came against what it was."""
        self._found: dict[str, list[str]] = {sort: [] for sort in ("added", "changed", "erased", "unchanged")}
        for place, (case_id, erased) in enumerate(self._new.items()):
            before = self._old.get(case_id)
            if before is None:
                sort = "added"
            elif before[0] == digest_at(place):
                sort = "unchanged"
            else:
                sort = "erased" if erased and not before[1] else "changed"
            self._found[sort].append(case_id)

    def change(self, info: SnapshotInfo) -> SnapshotChange:
        """What is different in the new state."""
        kept = self._new.keys() | _unreadable(info.report)
        return SnapshotChange(
            title=info.title(),
            added=tuple(self._found["added"]),
            changed=tuple(self._found["changed"]),
            erased=tuple(self._found["erased"]),
            gone=tuple(case_id for case_id in self._old if case_id not in kept),
            unchanged=len(self._found["unchanged"]),
            content_hash_before=self._info.content_hash,
            content_hash_after=info.content_hash,
            fetched_at_before=self._info.fetched_at,
            fetched_at_after=info.fetched_at,
            report=info.report,
        )


def _groups(files: Mapping[str, StoredTable]) -> Iterator[Tables]:
    """The tables of a snapshot, a group of cases at a time."""
    rows = {name: _Rows(file) for name, file in files.items() if name != "cases"}
    for cases in _batches(files["cases"]):
        ids = cases["case_id"].combine_chunks()
        yield {"cases": cases, **{name: table.of(ids) for name, table in rows.items()}}
    for name, table in rows.items():
        if table.left():
            raise ValueError(f"rows of {name} are of no case, or not in the order of the cases")


class _Rows:
    """The rows of a table, which stand in the order of their cases."""

    def __init__(self, file: StoredTable) -> None:
        self._schema, self._batches = file.schema, _batches(file)
        self._next = file.schema.empty_table()

    def of(self, ids: pa.Array) -> pa.Table:
        """The next rows, as far as they are of these cases."""
        taken = [self._schema.empty_table()]
        while self.left():
            other = pc.index(pc.is_in(self._next["case_id"], value_set=ids), False).as_py()
            taken.append(self._next.slice(0, None if other < 0 else other))
            self._next = self._next.slice(self._next.num_rows if other < 0 else other)
            if other >= 0:
                break
        return pa.concat_tables(taken)

    def left(self) -> bool:
        """Whether there are more rows."""
        while not self._next.num_rows:
            more = next(self._batches, None)
            if more is None:
                return False
            self._next = more
        return True


def _batches(file: StoredTable) -> Iterator[pa.Table]:
    for batch in file.open().iter_batches(batch_size=ROWS):
        yield pa.Table.from_arrays(batch.columns, schema=file.schema)


def _erased(cases: pa.Table) -> list[bool]:
    flags: list[bool] = pc.fill_null(cases["erased"], False).to_pylist()
    return flags


def _unreadable(report: PullReport) -> set[str]:
    return {bad.case_id for bad in report.bad_cases if bad.case_id is not None}
