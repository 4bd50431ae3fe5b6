"""From the server to a CaseSet or a snapshot: where the client, the wire and the folder meet."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from casekit.caseset import CaseSet, Source
from casekit.client import Client, Page
from casekit.errors import CasekitError, ConfigError, CursorError, IncompletePull, one_line
from casekit.progress import Progress
from casekit.report import PullReport
from casekit.schema import TABLES
from casekit.snapshot import SnapshotInfo, SnapshotWriter
from casekit.wire import Reader, Tables, case_digests, joined

__all__ = ["load_agent_cases", "load_test_set", "load_test_sets", "pull"]

RESTARTS = 3  # walks begun again, when the server no longer takes a cursor

Ref = tuple[str, str]
Result = TypeVar("Result")


def load_test_set(
    test_set_id: str,
    version: str,
    *,
    client: Client | None = None,
    progress: bool | None = None,
    on_error: str = "raise",
) -> CaseSet:
    """Pull a version of a corrections test set into memory.

    Parameters
    ----------
    test_set_id, version
        Such as ``"acme.drafting-accuracy"`` and ``"1.2.0"``.
    client
        Else one made from ``CASEKIT_URL`` and ``CASEKIT_TOKEN``.
    progress
        Show a progress line; None shows it on a terminal and in a notebook.
    on_error
        ``"raise"``: a case that cannot be read is an error. ``"report"``: it is left out and stands in ``report.bad_cases``.

    Returns
    -------
    CaseSet
        Every case of the version, in the server's order, erased ones among them.

    Raises
    ------
    CasekitError
        See `casekit.errors`. There is no partial result.

    Examples
    --------
    >>> import casekit as ck
    >>> with ck.LocalServer() as server:
    ...     server.add_test_set("acme.demo", "1.0.0", [])
    ...     cases = ck.load_test_set("acme.demo", "1.0.0", client=ck.Client(server.url, token=server.token))
    >>> len(cases)
    0
    """
    return load_test_sets([(test_set_id, version)], client=client, progress=progress, on_error=on_error)


def load_test_sets(
    refs: Iterable[Ref],
    *,
    client: Client | None = None,
    workers: int = 4,
    progress: bool | None = None,
    on_error: str = "raise",
) -> CaseSet:
    """Pull several test sets into one CaseSet.

    Parameters
    ----------
    refs
        Pairs of test set and version, each once.
    client
        Else one made from ``CASEKIT_URL`` and ``CASEKIT_TOKEN``.
    workers
        How many are pulled at a time. The order of the cases is that of ``refs``, whatever the workers do.
    progress, on_error
        As in `load_test_set`.

    Returns
    -------
    CaseSet
        The cases of all of them.

    Raises
    ------
    CasekitError
        See `casekit.errors`. There is no partial result.
    """
    wanted = _checked_refs(refs)
    client = client or Client()
    title = f"{wanted[0][0]} {wanted[0][1]}" if len(wanted) == 1 else f"{len(wanted)} test sets"
    with Progress(one_line(title, 60), progress) as line:

        def load(ref: Ref) -> tuple[Tables, PullReport]:
            return _in_memory(
                lambda: client.test_set_pages(*ref, on_wait=line.waiting),
                lambda report: Reader.corrections(*ref, report, on_error),
                line,
            )

        parts = _spread(load, wanted, workers)
    report = PullReport()
    for _, counts in parts:
        report.add(counts)
    source = Source(test_sets=tuple(wanted), origin=client.origin, fetched_at=datetime.now(UTC))
    return CaseSet(joined(tables for tables, _ in parts), source, report)


def load_agent_cases(
    agent_id: str,
    project_id: str | None = None,
    *,
    client: Client | None = None,
    progress: bool | None = None,
    on_error: str = "raise",
) -> CaseSet:
    """Pull an agent's live test set: retired cases stay listed.

    Parameters
    ----------
    agent_id
        Such as ``"acme.drafting"``.
    project_id
        Only cases of this project (a UUID).
    client, progress, on_error
        As in `load_test_set`.

    Returns
    -------
    CaseSet
        ``cases`` has what the case expects, who added it and when, and whether, why and by whom it was retired.
        ``subject_version`` is the agent version the run ran.

    Raises
    ------
    CasekitError
        See `casekit.errors`. There is no partial result.
    """
    client = client or Client()
    with Progress(one_line(agent_id, 60), progress) as line:
        tables, report = _in_memory(
            lambda: client.agent_case_pages(agent_id, project_id, on_wait=line.waiting),
            lambda counts: Reader.agent(agent_id, counts, on_error),
            line,
        )
    return CaseSet(tables, Source(agent_id=agent_id, origin=client.origin, fetched_at=datetime.now(UTC)), report)


def pull(
    refs: Iterable[Ref],
    *,
    into: str | os.PathLike[str],
    client: Client | None = None,
    workers: int = 4,
    progress: bool | None = None,
    on_error: str = "raise",
) -> list[SnapshotInfo]:
    """Pull test sets straight to disk, one snapshot folder each, in bounded memory.

    Parameters
    ----------
    refs
        Pairs of test set and version, each once.
    into
        Folder that gets a folder ``<test set>-<version>`` for each.
    client, workers, progress, on_error
        As in `load_test_sets`.

    Returns
    -------
    list of SnapshotInfo
        What each snapshot says of itself, in the order of ``refs``.

    Raises
    ------
    CasekitError
        A set could not be pulled; its old snapshot stands, and the others are not held up by it.
    """
    wanted = _checked_refs(refs)
    client = client or Client()
    with Progress(f"{len(wanted)} test set{'s' if len(wanted) != 1 else ''}", progress) as line:

        def to_disk(ref: Ref) -> SnapshotInfo | CasekitError:
            try:
                return _on_disk(client, ref, Path(into) / folder_name(*ref), line, on_error)
            except CasekitError as error:
                return error

        results = _spread(to_disk, wanted, workers)
    failed = [(ref, error) for ref, error in zip(wanted, results, strict=True) if isinstance(error, CasekitError)]
    if failed:
        error = failed[0][1]
        error.add_note(f"{len(failed)} of {len(wanted)} test sets failed: {', '.join(f'{a} {b}' for (a, b), _ in failed)}")
        raise error
    return [info for info in results if isinstance(info, SnapshotInfo)]


def folder_name(test_set_id: str, version: str) -> str:
    """The folder of a test set's snapshot: its name where that is safe on every system, else made so and told apart.

    Examples
    --------
    >>> folder_name("acme.drafting-accuracy", "1.2.0")
    'acme.drafting-accuracy-1.2.0'
    >>> folder_name("../a/b", "1.0.0")
    '_2e._2fa_2fb-1.0.0'
    """
    safe = re.sub(r"[^A-Za-z0-9.-]", lambda c: "".join(f"_{byte:02x}" for byte in c[0].encode()), test_set_id)
    safe = re.sub(r"^\.", "_2e", safe)
    return f"{safe}-{version}"


# ---------------------------------------------------------------- one list


def _in_memory(
    pages: Callable[[], Iterator[Page]], reader: Callable[[PullReport], Reader], line: Progress
) -> tuple[Tables, PullReport]:
    def walk(report: PullReport) -> Tables:
        reading = reader(report)
        tables = joined(reading.groups(_bodies(pages(), report, line)))
        digests: list[bytes] = []

        def digest_at(place: int) -> bytes:
            if not digests:
                digests.extend(case_digests(tables))
            return digests[place]

        reading.check_repeats(digest_at)
        return tables

    return _restarted(walk)


def _on_disk(client: Client, ref: Ref, folder: Path, line: Progress, on_error: str) -> SnapshotInfo:
    def walk(report: PullReport) -> SnapshotInfo:
        reading = Reader.corrections(*ref, report, on_error)
        with SnapshotWriter(folder) as writer:
            for group in reading.groups(_bodies(client.test_set_pages(*ref, on_wait=line.waiting), report, line)):
                writer.add(group)
            reading.check_repeats(writer.digest_at)
            source = Source(test_sets=(ref,), origin=client.origin, fetched_at=datetime.now(UTC))
            return writer.finish(source, report)

    return _restarted(walk)[0]


def _restarted(walk: Callable[[PullReport], Result]) -> tuple[Result, PullReport]:
    """A walk from the first page to the last, begun again when the server no longer takes its cursor."""
    restarts, retries, waited = 0, 0, 0.0
    while True:
        report = PullReport(restarts=restarts, retries=retries, waited=waited)
        try:
            return walk(report), report
        except CursorError as error:
            restarts, retries, waited = restarts + 1, report.retries, report.waited
            if restarts > RESTARTS:
                raise IncompletePull(
                    f"the server gave up its cursor {restarts} times before the list ended "
                    f"(request id {error.request_id}): the list cannot be read whole now; try again later"
                ) from None


def _bodies(pages: Iterator[Page], report: PullReport, line: Progress) -> Iterator[bytes]:
    for page in pages:
        report.note_request(page.request_id)
        report.retries += page.retries
        report.waited += page.waited
        before = report.cases
        yield page.body
        line.advance(report.cases - before)


def _checked_refs(refs: Iterable[Ref]) -> list[Ref]:
    wanted = []
    for ref in refs:
        if isinstance(ref, str) or len(ref) != 2:
            raise ConfigError(f"a test set is asked for as a pair (id, version), not {one_line(repr(ref), 100)}")
        wanted.append((ref[0], ref[1]))
    if not wanted:
        raise ConfigError("no test set was asked for: pass pairs such as ('acme.a', '1.0.0')")
    twice = [ref for ref in wanted if wanted.count(ref) > 1]
    if twice:
        raise ConfigError(f"test set {twice[0][0]} {twice[0][1]} is asked for twice: its cases would count double")
    return wanted


def _spread(work: Callable[[Ref], Result], refs: Sequence[Ref], workers: int) -> list[Result]:
    """The results in the order of the refs."""
    if workers < 1:
        raise ConfigError(f"workers is 1 or more, not {workers}")
    if len(refs) == 1 or workers == 1:
        return [work(ref) for ref in refs]
    pool = ThreadPoolExecutor(min(workers, len(refs)), thread_name_prefix="casekit-load")
    try:
        return list(pool.map(work, refs))
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
