"""From the server to a CaseSet or a snapshot: where the client, the wire and the folder meet."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from casekit.caseset import CaseSet
from casekit.client import Client
from casekit.errors import CasekitError, ConfigError, SnapshotBusyError, SnapshotError, one_line
from casekit.http.address import checked_version, segment
from casekit.report import OnError, PullReport
from casekit.snapshots.folder import Place, local_path
from casekit.snapshots.manifest import SnapshotInfo, check_age
from casekit.snapshots.remote import inside
from casekit.snapshots.target import standing
from casekit.source import Source
from casekit.walk import Listing, Ref, spread, walks, without_frames
from casekit.wire import joined

__all__ = ["load_agent_cases", "load_test_set", "load_test_sets", "pull"]

FRESH: Final = timedelta(days=1)  # how long a pull takes a snapshot for good
NAME_MAX: Final = 160  # bytes of a test set in the name of a folder: with version and writers' ending less than 255
_DEVICE: Final = re.compile(r"^[a-z](?=(?:on|rn|ux|ul|om\d|pt\d)\.)", re.IGNORECASE)  # con. and the like, on Windows
LINE_MAX: Final = 300  # characters that say of one failed set what was wrong


def load_test_set(
    test_set_id: str,
    version: str,
    *,
    client: Client | None = None,
    progress: bool | None = None,
    on_error: OnError = "raise",
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
    on_error: OnError = "raise",
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
    title = Listing(wanted[0]).name() if len(wanted) == 1 else f"{len(wanted)} test sets"
    with walks(client, title, progress, on_error, workers) as load:
        parts = spread(load.in_memory, [Listing(ref) for ref in wanted], 2 * workers, load.stop)
        source = Source(test_sets=tuple(wanted), origin=load.client.origin, fetched_at=datetime.now(UTC))
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
    on_error: OnError = "raise",
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
    listing = Listing(agent_id, project_id)
    with walks(client, f"agent {agent_id}", progress, on_error) as load:
        [(tables, report)] = spread(load.in_memory, [listing], 1, load.stop)
        source = listing.source(load.client)
    return CaseSet(tables, source, report)


def pull(
    refs: Iterable[Ref],
    *,
    into: Place,
    client: Client | None = None,
    workers: int = 4,
    max_age: timedelta = FRESH,
    progress: bool | None = None,
    on_error: OnError = "raise",
) -> list[SnapshotInfo]:
    """Pull test sets straight to disk, one snapshot folder each, in bounded memory.

    Run again, it does what is missing or stale: an interrupted pull goes on, and a failed set is tried anew.

    Parameters
    ----------
    refs
        Pairs of test set and version, each once.
    into
        Folder, or URL of one, that gets a folder ``<test set>-<version>`` for each.
    client, workers
        As in `load_test_sets`.
    max_age
        How old a snapshot may be that is left as it is: one of the same test set and version from the same server,
        whole, unfiltered, and, unless ``on_error`` is ``"report"``, with no unreadable case left out. A day unless
        given; ``timedelta(0)`` pulls everything again. An erasure shows only once a set is pulled again.
    progress, on_error
        As in `load_test_sets`.

    Returns
    -------
    list of SnapshotInfo
        What each snapshot says of itself, in the order of ``refs``; ``fetched_at`` tells which were left as they were.

    Raises
    ------
    ConfigError
        An argument cannot be used; nothing was sent.
    CasekitError
        A set could not be pulled; its old snapshot stands, and the others are not held up by it. This is the error of
        the first such set in the order of ``refs``; its notes name each of them with what was wrong.

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
    check_age(max_age)
    local_path(into)
    title = f"{len(wanted)} test set{'s' if len(wanted) != 1 else ''}"
    with walks(client, title, progress, on_error, workers) as load:

        def to_disk(ref: Ref) -> SnapshotInfo | CasekitError:
            place = inside(into, folder_name(*ref))
            try:
                there = _young(place, Listing(ref).source(load.client), max_age)
                if there is not None and (on_error == "report" or not there.report.bad_cases):
                    return there
                return load.on_disk(Listing(ref), place)
            except CasekitError as error:
                return without_frames(error)

        results = spread(to_disk, wanted, 2 * workers, load.stop)
    failed = [(ref, error) for ref, error in zip(wanted, results, strict=True) if isinstance(error, CasekitError)]
    if failed:
        raise _told(failed, len(wanted))
    return [info for info in results if isinstance(info, SnapshotInfo)]


def _young(place: Place, source: Source, max_age: timedelta) -> SnapshotInfo | None:
    """The snapshot that stands there, where it is one that a pull from this source need not replace yet."""
    try:
        info = standing(place)
    except SnapshotBusyError:
        raise
    except SnapshotError:
        return None  # no snapshot or a damaged one: the pull makes it, or says why it cannot
    same = (info.test_sets, info.agent_id, info.origin) == (source.test_sets, source.agent_id, source.origin)
    # One from the future is of a clock that is wrong, and would never grow old.
    return info if same and timedelta(0) <= info.age < max_age and not info.left_out else None


def _told(failed: list[tuple[Ref, CasekitError]], asked: int) -> CasekitError:
    """The first error, with notes that name every set that failed."""
    lines = [one_line(f"{Listing(ref).name()}: {type(error).__name__}: {error}", LINE_MAX) for ref, error in failed]
    first = failed[0][1]
    first.add_note(f"{len(failed)} of {asked} failed:")
    for line in lines:
        first.add_note(f"  {line}")
    first.add_note("Call pull again to go on: what is whole and younger than max_age is not pulled again.")
    return first


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
    safe = _DEVICE.sub(lambda c: f"_{ord(c[0]):02x}", safe)
    if len(safe) > NAME_MAX:
        digest = hashlib.sha256(test_set_id.encode()).hexdigest()
        safe = f"{safe[: NAME_MAX - 18]}__{digest[:16]}"  # no other name has two underscores
    return f"{safe}-{version}"


def _checked_refs(refs: Iterable[Ref]) -> list[Ref]:
    if not isinstance(refs, Iterable):
        raise ConfigError(f"test sets are asked for as pairs of texts (id, version), not {one_line(repr(refs), 100)}")
    wanted = []
    for ref in list[Any](refs):
        if not isinstance(ref, (tuple, list)) or len(ref) != 2 or not all(isinstance(part, str) for part in ref):
            raise ConfigError(
                f"a test set is asked for as a pair of texts (id, version), not {one_line(repr(ref), 100)}"
            )
        segment(ref[0], "test set id")  # before a folder is looked for under a name that is no test set's
        wanted.append((ref[0], checked_version(ref[1])))
    if not wanted:
        raise ConfigError("no test set was asked for: pass pairs such as ('acme.a', '1.0.0')")
    ref, times = Counter(wanted).most_common(1)[0]
    if times > 1:
        raise ConfigError(f"{Listing(ref).name()} is asked for twice: its cases would count double")
    return wanted
