"""A walk over one list of the server, into memory or onto disk, and what many walks of one load share."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, Protocol, TypeVar

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
from casekit.report import OnError, PullReport, check_on_error
from casekit.snapshots.folder import Place
from casekit.snapshots.manifest import SnapshotInfo
from casekit.snapshots.writer import SnapshotWriter
from casekit.source import Source
from casekit.wire import Reader, Tables, case_digests, joined

__all__ = ["Listing", "Ref", "Walks", "Watch", "spread", "walks", "without_frames"]

RESTARTS: Final = 3  # walks begun again, when the server no longer takes a cursor
READERS: Final = 2  # lists turned into tables at a time

Ref = tuple[str, str]
Asked = list[str | None]  # the server's id of the request for each page that came
Key = TypeVar("Key")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Listing:
    """A list that the server gives: a version of a corrections test set, or an agent's live test set.

    Attributes
    ----------
    of : (str, str) or str
        Test set and version, or the agent.
    project_id : str or None
        Of an agent's cases, only those of this project.
    """

    of: Ref | str
    project_id: str | None = None

    def name(self) -> str:
        """What it is, for messages."""
        if isinstance(self.of, str):
            return f"test set of agent {one_line(self.of, 120)}"
        return f"test set {one_line(self.of[0], 120)} {one_line(self.of[1], 60)}"

    def source(self, client: Client) -> Source:
        """Where its cases come from, when they have come just now."""
        now = datetime.now(UTC)
        if isinstance(self.of, str):
            return Source(agent_id=self.of, origin=client.origin, fetched_at=now)
        return Source(test_sets=(self.of,), origin=client.origin, fetched_at=now)


class Watch(Protocol):
    """Looks on while a snapshot is written."""

    def begin(self) -> None:
        """A walk begins, and no other writer can be at the folder."""

    def add(self, tables: Tables) -> None:
        """A group of cases has come."""

    def end(self, digest_at: Callable[[int], bytes]) -> None:
        """All cases have come, and what stood there before still stands."""


@dataclass
class Walks:
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
    on_error: OnError
    fetching: threading.Semaphore
    turns: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(READERS))
    stop: threading.Event = field(default_factory=threading.Event)

    def in_memory(self, listing: Listing) -> tuple[Tables, PullReport]:
        """The tables of a list, and what the walk met."""

        def walk(report: PullReport, asked: Asked) -> Tables:
            reading = self._reader(listing, report)
            with self._groups(listing, reading, report, asked) as groups:
                tables = joined(groups)
            digests: list[bytes] = []

            def digest_at(place: int) -> bytes:
                if not digests:
                    digests.extend(case_digests(tables))
                return digests[place]

            reading.check_repeats(digest_at)
            return tables

        return self._restarted(listing.name(), walk)

    def on_disk(self, listing: Listing, place: Place, watch: Watch | None = None) -> SnapshotInfo:
        """Write a list to a snapshot, a group of cases at a time."""

        def walk(report: PullReport, asked: Asked) -> SnapshotInfo:
            reading = self._reader(listing, report)
            with SnapshotWriter(place) as writer:
                if watch is not None:
                    watch.begin()
                with self._groups(listing, reading, report, asked) as groups:
                    for group in groups:
                        writer.add(group)
                        if watch is not None:
                            watch.add(group)
                reading.check_repeats(writer.digest_at)
                if watch is not None:
                    watch.end(writer.digest_at)
                return writer.finish(listing.source(self.client), report)

        return self._restarted(listing.name(), walk)[0]

    def _reader(self, listing: Listing, report: PullReport) -> Reader:
        if isinstance(listing.of, str):
            return Reader.agent(listing.of, report, self.on_error)
        return Reader.corrections(*listing.of, report, self.on_error)

    def _pages(self, listing: Listing) -> Generator[Page, None, None]:
        waiting, stop = self.line.waiting, self.stop
        if isinstance(listing.of, str):
            return self.client.agent_case_pages(listing.of, listing.project_id, on_wait=waiting, stop=stop)
        return self.client.test_set_pages(*listing.of, on_wait=waiting, stop=stop)

    @contextmanager
    def _groups(
        self, listing: Listing, reading: Reader, report: PullReport, asked: Asked
    ) -> Iterator[Iterator[Tables]]:
        with (
            self.turns,
            closing(self._bodies(listing, report, asked)) as bodies,
            closing(reading.groups(bodies)) as groups,
        ):
            yield groups

    def _restarted(self, about: str, walk: Callable[[PullReport, Asked], Result]) -> tuple[Result, PullReport]:
        """A walk from the first page to the last, begun again when the server no longer takes its cursor."""
        restarts, retries, waited = 0, 0, 0.0
        while True:
            report, asked = PullReport(restarts=restarts, retries=retries, waited=waited), list[str | None]()
            try:
                return walk(report, asked), report
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
            except CasekitError as error:
                without_frames(error)  # a traceback may be shown with its locals: a page holds people's words
                if not isinstance(error, (ProtocolError, SchemaError, LimitError)) or about in str(error):
                    raise
                # It is of the reader, who knows bytes alone.
                whole = isinstance(error, IncompletePull)  # of no page alone
                page, status = (about, None) if whole else (f"{about}, page {report.pages + 1}", 200)
                request_id = asked[min(report.pages, len(asked) - 1)] if asked else None
                if isinstance(error, ProtocolError):
                    raise type(error)(f"{page}: {error}", status=status, request_id=request_id) from None
                error.add_note(f"{page}, request id {request_id or 'unknown'}")
                raise

    def _bodies(self, listing: Listing, report: PullReport, asked: Asked) -> Generator[bytes, None, None]:
        """The bodies of a list's pages, for a reader that has a turn; while it waits, others have it.

        Whoever takes them closes them: an error that somebody keeps would keep them open with it.
        """
        pages = self._pages(listing)
        with _apart(self.turns):
            self.fetching.acquire()
        try:
            with closing(pages):
                while True:
                    try:
                        with _apart(self.turns):
                            page = next(pages, None)
                    except (ProtocolError, LimitError) as error:
                        error.add_note(f"{listing.name()}, page {len(asked) + 1}")
                        raise
                    if page is None:
                        return
                    asked.append(page.request_id)
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


def without_frames(error: CasekitError) -> CasekitError:
    """The error without what stands in its frames and those of what led to it: pages, in memory and in a traceback."""
    led: BaseException | None = error
    while led is not None:
        traceback.clear_frames(led.__traceback__)
        led = led.__cause__ or led.__context__
    return error


@contextmanager
def walks(
    client: Client | None, title: str, progress: bool | None, on_error: OnError, workers: int = 1
) -> Iterator[Walks]:
    """What the walks of a load share; a client that was made for it is closed after it.

    Raises
    ------
    ConfigError
        ``workers`` or ``on_error`` cannot be used, or there is no client and no setting to make one of.
    """
    if workers < 1:
        raise ConfigError(f"workers is a whole number from 1, not {workers!r}")
    check_on_error(on_error)
    with ExitStack() as stack:
        asked = client if client is not None else stack.enter_context(Client())
        line = stack.enter_context(Progress(one_line(title, 60), progress))
        yield Walks(asked, line, on_error, threading.Semaphore(workers))


def spread(work: Callable[[Key], Result], keys: Sequence[Key], threads: int, stop: threading.Event) -> list[Result]:
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
