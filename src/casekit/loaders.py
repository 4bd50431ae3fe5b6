"""From the server to a CaseSet or a snapshot: where the client, the wire and the folder meet."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from casekit.caseset import CaseSet, Source
from casekit.client import Client, Page
from casekit.errors import (
    CasekitError,
    ConfigError,
    CursorError,
    IncompletePull,
    LimitError,
    ProtocolError,
    SchemaError,
    one_line,
)
from casekit.progress import Progress
from casekit.report import PullReport
from casekit.snapshot import SnapshotInfo, SnapshotWriter
from casekit.wire import Reader, Tables, case_digests, joined

__all__ = ["load_agent_cases", "load_test_set", "load_test_sets", "pull"]

RESTARTS: Final = 3  # walks begun again, when the server no longer takes a cursor
READERS: Final = 2  # lists turned into tables at a time

Ref = tuple[str, str]
Key = TypeVar("Key")
Result = TypeVar("Result")
ReaderOf = Callable[[PullReport, str], Reader]


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
        ``"raise"``: a case that cannot be read is an error. ``"report"``: it is left out and stands in
        ``report.bad_cases``.

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
    >>> with ck.LocalServer() as server, ck.Client(server.url, token=server.token) as client:
    ...     _ = server.add_test_set("acme.demo", "1.0.0", [])
    ...     cases = ck.load_test_set("acme.demo", "1.0.0", client=client)
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

    Examples
    --------
    >>> import casekit as ck
    >>> with ck.LocalServer() as server, ck.Client(server.url, token=server.token) as client:
    ...     _ = [server.add_test_set("acme.demo", version, []) for version in ("1.0.0", "1.1.0")]
    ...     cases = ck.load_test_sets([("acme.demo", "1.1.0"), ("acme.demo", "1.0.0")], client=client)
    >>> cases.source.test_sets
    (('acme.demo', '1.1.0'), ('acme.demo', '1.0.0'))
    """
    wanted = _checked_refs(refs)
    title = _name(wanted[0]) if len(wanted) == 1 else f"{len(wanted)} test sets"
    with _shared(client, title, progress, on_error, workers) as pull:

        def load(ref: Ref) -> tuple[Tables, PullReport]:
            return pull.in_memory(
                _name(ref), lambda: pull.test_set(ref), lambda report, bad: Reader.corrections(*ref, report, bad)
            )

        parts = _spread(load, wanted, 2 * workers, pull.stop)
        source = Source(test_sets=tuple(wanted), origin=pull.client.origin, fetched_at=datetime.now(UTC))
    report = PullReport()
    for _, counts in parts:
        report.add(counts)
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

    Examples
    --------
    >>> import casekit as ck
    >>> with ck.LocalServer() as server, ck.Client(server.url, token=server.token) as client:
    ...     _ = server.add_run("acme.drafting", "run-1")
    ...     _ = client.add_case("acme.drafting", "run-1", answer="right")
    ...     live = ck.load_agent_cases("acme.drafting", client=client)
    >>> live.cases[["kind", "retired"]]
       kind  retired
    0  hand    False
    """
    with _shared(client, f"agent {agent_id}", progress, on_error) as pull:

        def pages() -> Generator[Page, None, None]:
            return pull.client.agent_case_pages(agent_id, project_id, on_wait=pull.line.waiting, stop=pull.stop)

        def load(agent: str) -> tuple[Tables, PullReport]:
            return pull.in_memory(
                f"test set of agent {one_line(agent, 120)}", pages, lambda report, bad: Reader.agent(agent, report, bad)
            )

        [(tables, report)] = _spread(load, [agent_id], 1, pull.stop)
        source = Source(agent_id=agent_id, origin=pull.client.origin, fetched_at=datetime.now(UTC))
    return CaseSet(tables, source, report)


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

    Examples
    --------
    >>> import casekit as ck, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with ck.LocalServer() as server, ck.Client(server.url, token=server.token) as client:
    ...     _ = server.add_test_set("acme.demo", "1.0.0", [])
    ...     [info] = ck.pull([("acme.demo", "1.0.0")], into=folder, client=client)
    >>> info.test_sets, info.rows("cases")
    ((('acme.demo', '1.0.0'),), 0)
    """
    wanted = _checked_refs(refs)
    title = f"{len(wanted)} test set{'s' if len(wanted) != 1 else ''}"
    with _shared(client, title, progress, on_error, workers) as pull:

        def to_disk(ref: Ref) -> SnapshotInfo | CasekitError:
            try:
                return pull.on_disk(ref, Path(into) / folder_name(*ref))
            except CasekitError as error:
                return error

        results = _spread(to_disk, wanted, 2 * workers, pull.stop)
    failed = [(ref, error) for ref, error in zip(wanted, results, strict=True) if isinstance(error, CasekitError)]
    if failed:
        error = failed[0][1]
        names = one_line(", ".join(_name(ref) for ref, _ in failed), 500)
        error.add_note(f"{len(failed)} of {len(wanted)} failed: {names}")
        raise error
    return [info for info in results if isinstance(info, SnapshotInfo)]


@contextmanager
def _shared(
    client: Client | None, title: str, progress: bool | None, on_error: str, workers: int = 1
) -> Iterator[_Pull]:
    """What the walks of a load share; a client that was made for it is closed after it."""
    if workers < 1:
        raise ConfigError(f"workers is a whole number from 1, not {workers!r}")
    if on_error not in ("raise", "report"):
        raise ConfigError(f"on_error is 'raise' or 'report', not {on_error!r}")
    with ExitStack() as stack:
        asked = client if client is not None else stack.enter_context(Client())
        line = stack.enter_context(Progress(one_line(title, 60), progress))
        yield _Pull(asked, line, on_error, threading.Semaphore(workers))


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


@dataclass
class _Pull:
    """What all walks of one load share.

    Attributes
    ----------
    client, line
        Who asks, and who tells of it.
    on_error
        What to do about a case that cannot be read.
    fetching
        A place for each list whose pages are on their way at a time.
    turns
        A turn for each list whose pages are being read at a time. Python reads one after the other in any case: more
        readers would only keep the fetching threads from their next request.
    stop
        Set when no walk is to go on.
    """

    client: Client
    line: Progress
    on_error: str
    fetching: threading.Semaphore
    turns: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(READERS))
    stop: threading.Event = field(default_factory=threading.Event)

    def test_set(self, ref: Ref) -> Generator[Page, None, None]:
        return self.client.test_set_pages(*ref, on_wait=self.line.waiting, stop=self.stop)

    def in_memory(
        self, about: str, pages: Callable[[], Generator[Page, None, None]], reader: ReaderOf
    ) -> tuple[Tables, PullReport]:
        def walk(report: PullReport) -> Tables:
            reading = reader(report, self.on_error)
            with self.turns, closing(self._bodies(pages(), report)) as bodies:
                tables = joined(reading.groups(bodies))
            digests: list[bytes] = []

            def digest_at(place: int) -> bytes:
                if not digests:
                    digests.extend(case_digests(tables))
                return digests[place]

            reading.check_repeats(digest_at)
            return tables

        return self._restarted(about, walk)

    def on_disk(self, ref: Ref, folder: Path) -> SnapshotInfo:
        def walk(report: PullReport) -> SnapshotInfo:
            reading = Reader.corrections(*ref, report, self.on_error)
            with SnapshotWriter(folder) as writer:
                with self.turns, closing(self._bodies(self.test_set(ref), report)) as bodies:
                    for group in reading.groups(bodies):
                        writer.add(group)
                reading.check_repeats(writer.digest_at)
                source = Source(test_sets=(ref,), origin=self.client.origin, fetched_at=datetime.now(UTC))
                return writer.finish(source, report)

        return self._restarted(_name(ref), walk)[0]

    def _restarted(self, about: str, walk: Callable[[PullReport], Result]) -> tuple[Result, PullReport]:
        """A walk from the first page to the last, begun again when the server no longer takes its cursor."""
        restarts, retries, waited = 0, 0, 0.0
        while True:
            report = PullReport(restarts=restarts, retries=retries, waited=waited)
            try:
                return walk(report), report
            except CursorError as error:
                restarts, retries, waited = restarts + 1, report.retries, report.waited
                if restarts > RESTARTS:
                    raise CursorError(
                        f"{about}: begun {restarts} times, and each time the server refused its own cursor before the "
                        "end: try again later",
                        status=error.status,
                        code=error.code,
                        message=error.message,
                        details=error.details,
                        request_id=error.request_id,
                        retry_after=error.retry_after,
                        attempts=error.attempts,
                        waited=waited,
                    ) from None
            except (ProtocolError, SchemaError, LimitError) as error:
                page = about if isinstance(error, IncompletePull) else f"{about}, page {report.pages + 1}"
                request_id = report.request_ids[-1] if report.request_ids else None
                if isinstance(error, ProtocolError) and about not in str(error):  # the reader knows bytes alone
                    raise type(error)(f"{page}: {error}", request_id=request_id) from None
                error.add_note(f"{page}, request id {request_id or 'unknown'}")
                raise

    def _bodies(self, pages: Generator[Page, None, None], report: PullReport) -> Generator[bytes, None, None]:
        """The bodies of a list's pages, for a reader that has a turn; while it waits, others have it.

        Whoever takes them closes them: an error that somebody keeps would keep them open with it.
        """
        with _apart(self.turns):
            self.fetching.acquire()
        try:
            with closing(pages):
                while True:
                    with _apart(self.turns):
                        page = next(pages, None)
                    if page is None:
                        return
                    report.note_request(page.request_id)
                    report.retries += page.retries
                    report.waited += page.waited
                    yield page.body
                    self.line.advance(1)
        finally:
            self.fetching.release()  # the next list is fetched while this one's tables are made and written


@contextmanager
def _apart(turns: threading.Semaphore) -> Iterator[None]:
    turns.release()
    try:
        yield
    finally:
        turns.acquire()


def _name(ref: Ref) -> str:
    return f"test set {one_line(ref[0], 120)} {one_line(ref[1], 60)}"


def _checked_refs(refs: Iterable[Ref]) -> list[Ref]:
    wanted = []
    for ref in list[Any](refs):
        if not isinstance(ref, (tuple, list)) or len(ref) != 2 or not all(isinstance(part, str) for part in ref):
            raise ConfigError(
                f"a test set is asked for as a pair of texts (id, version), not {one_line(repr(ref), 100)}"
            )
        wanted.append((ref[0], ref[1]))
    if not wanted:
        raise ConfigError("no test set was asked for: pass pairs such as ('acme.a', '1.0.0')")
    twice = [ref for ref in wanted if wanted.count(ref) > 1]
    if twice:
        raise ConfigError(f"test set {twice[0][0]} {twice[0][1]} is asked for twice: its cases would count double")
    return wanted


def _spread(work: Callable[[Key], Result], keys: Sequence[Key], threads: int, stop: threading.Event) -> list[Result]:
    """The results in the order of the keys.

    Even a single piece of work is done in a thread: Ctrl-C reaches this thread alone, which then has the others stop in
    good order, so that nothing half-written stays behind.
    """
    pool = ThreadPoolExecutor(min(threads, len(keys)), thread_name_prefix="casekit-load")
    try:
        jobs = [pool.submit(work, key) for key in keys]
        done, _ = wait(jobs, return_when=FIRST_EXCEPTION)
        failed = next((job for job in jobs if job in done and job.exception() is not None), None)
        return [job.result() for job in ([failed] if failed is not None else jobs)]
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)
