"""The line for a paper: it says what the cases are, and the same hash for whoever has the same cases."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from documents_strategy import Document, cases, page
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import casekit as ck
from casekit import citation, client
from casekit.caseset import CaseSet
from casekit.errors import ConfigError
from casekit.report import BadCase, PullReport
from casekit.schema import empty_tables
from casekit.snapshot import read_snapshot, snapshot_info, write_snapshot
from casekit.source import Source
from casekit.wire import Reader, joined

Made = Callable[..., CaseSet]
SUBJECT = {"kind": "agent", "id": "acme.a", "version": "1"}
ERASED: Document = {
    "caseId": "e",
    "subject": SUBJECT,
    "input": None,
    "output": None,
    "items": [],
    "erased": True,
}


def hash_of(line: str) -> str:
    """The hash that a line states."""
    found = re.search(r"; content hash ([0-9a-f]{16}) \(SHA-256, first 16 hex digits\); casekit [\d.]+$", line)
    assert found is not None
    return found[1]


def test_no_cases_have_a_line() -> None:
    """Without cases, source and date the line says so, and has the hash of nothing."""
    line = CaseSet(empty_tables()).cite()
    assert line.startswith(
        "no test set; 0 cases, 0 items, 0 corrections; date fetched unknown; content hash e3b0c44298fc1c14 "
    )


def test_the_line_says_what_there_is(made: Made) -> None:
    """Set, version, counts, day and versions stand there, in one line, in this order."""
    line = made("a", "b", ERASED).cite()
    assert line.replace(hash_of(line), "HASH") == (
        "acme.a 1.0.0; 3 cases (1 erased), 2 items, 6 corrections; fetched 2025-01-02 (UTC); "
        f"content hash HASH (SHA-256, first 16 hex digits); casekit {ck.__version__}"
    )
    assert "1 case, 1 item, 3 corrections" in made("a").cite()


def test_the_day_is_that_of_utc(made: Made) -> None:
    """A time in another zone is told as the day it was in UTC."""
    late = datetime(2025, 1, 1, 23, 30, tzinfo=timezone(timedelta(hours=-5)))
    assert "; fetched 2025-01-02 (UTC); " in CaseSet(made("a").tables, Source(fetched_at=late)).cite()


def test_filters_and_unreadable_cases_are_named(made: Made) -> None:
    """What filters left out stands in the line, filter by filter, and so do cases that could not be read."""
    full = made("a", "b", ERASED)
    report = PullReport(bad_cases=[BadCase("x", "/items", "p")])
    part = CaseSet(full.tables, full.source, report).without_erased().where([True, False])
    line = part.cite()
    assert "; filtered by without_erased: 1 case, 0 items; filtered by where: 1 case, 1 item; " in line
    assert "; 1 unreadable case left out; " in line
    assert hash_of(line) == hash_of(made("a").cite()) != hash_of(full.cite())


def test_live_cases_have_no_items_to_count() -> None:
    """Of live cases nothing is said about items; beside others it is said how many they are."""
    by = {"kind": "user", "id": "reviewer-1"}
    at = "2025-01-02T03:04:05Z"
    document = {"id": "x", "kind": "hand", "projectId": "p", "runId": "r", "madeOn": "1", "expect": {}, "addedBy": by,
                "addedAt": at, "updatedAt": at, "retired": {"reason": "r", "by": by, "at": at}}  # fmt: skip
    tables = joined(Reader.agent("acme.b", PullReport()).groups([page([document])]))
    live = CaseSet(tables, Source(agent_id="acme.b"))
    assert live.cite().startswith("live test set of acme.b; 1 case (1 retired); date fetched unknown; content hash ")
    frozen = joined(Reader.corrections("acme.a", "1.0.0", PullReport()).groups([page([ERASED])]))
    both = CaseSet(joined([tables, frozen]), Source(test_sets=(("acme.a", "1.0.0"),)))
    assert "; 2 cases (1 erased, 1 retired, 1 of live test sets), 0 items, 0 corrections; " in both.cite()


def test_hostile_names_stay_on_the_line(made: Made) -> None:
    """A name cannot break the line or hide a part of it, and a long one does not push the version out."""
    line = made("a", test_set_id="x\n\x1b[2Ky\u202e").cite()
    assert line.startswith("x\\n\\x1b[2Ky\\u202e 1.0.0; ")
    assert line.isprintable()
    assert made("a", test_set_id="x" * 300).cite().startswith("x" * 300 + " 1.0.0; ")


def test_several_snapshots_have_the_oldest_day(made: Made, tmp_path: Path) -> None:
    """Read from several folders, the line says that the day is the oldest one."""
    for version in ("1.0.0", "2.0.0"):
        write_snapshot(made("a", version=version), tmp_path / version)
    line = read_snapshot([tmp_path / "1.0.0", tmp_path / "2.0.0"]).cite()
    assert line.startswith(
        "acme.a 1.0.0, acme.a 2.0.0; 2 cases, 2 items, 6 corrections; oldest fetched 2025-01-02 (UTC)"
    )


def test_rows_that_do_not_belong_together_are_refused(made: Made) -> None:
    """Cases without a hash have no line that could be trusted."""
    some = made("a", "b")
    mixed = CaseSet({**some.tables, "items": some.arrow("items").take(pa.array([1, 0]))})
    with pytest.raises(ConfigError, match=r"^these cases cannot be cited: rows of items .*; load them again$"):
        mixed.cite()


def test_the_version_of_casekit_is_not_in_the_hash(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version says so at the end of the line, and nowhere else."""
    now = made("a").cite()
    monkeypatch.setattr(citation, "__version__", "99.0.0")
    assert made("a").cite() == now.removesuffix(ck.__version__) + "99.0.0"


# Plain documents leave out weights that the strategy has drawn.
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(
    documents=st.tuples(cases(plain=True, most=3), cases(plain=True, most=3)),
    size=st.integers(1, 5),
    workers=st.integers(1, 4),
    seed=st.randoms(use_true_random=False),
)
def test_the_hash_is_that_of_the_cases(
    tmp_path_factory: pytest.TempPathFactory,
    documents: tuple[list[Document], list[Document]],
    size: int,
    workers: int,
    seed: Any,
) -> None:
    """Page size, order of cases and sets, workers, and a way over the disk leave the hash as it is."""
    refs = [("acme.a", "1.0.0"), ("acme.b", "2.0.0")]
    loaded = load(dict(zip(refs, documents, strict=True)), refs, size=100, workers=1)
    mixed = [seed.sample(some, len(some)) for some in documents]
    order = seed.sample(refs, len(refs))
    again = load(dict(zip(refs, mixed, strict=True)), order, size=size, workers=workers)
    assert hash_of(again.cite()) == hash_of(loaded.cite())
    folder = tmp_path_factory.mktemp("kept") / "snapshot"
    write_snapshot(again, folder)
    assert read_snapshot(folder).cite() == again.cite()
    assert snapshot_info(folder).content_hash[:16] == hash_of(again.cite())
    if any(documents):
        first = documents[0] or documents[1]
        first[0] = {**first[0], "input": "another"}
        other = load(dict(zip(refs, documents, strict=True)), refs, size=100, workers=1)
        assert hash_of(other.cite()) != hash_of(loaded.cite())


def load(
    sets: dict[tuple[str, str], list[Document]], refs: list[tuple[str, str]], *, size: int, workers: int
) -> CaseSet:
    """Load test sets from a server that has them, with pages of a size."""
    with pytest.MonkeyPatch.context() as patch, ck.LocalServer() as server:
        patch.setattr(client, "PAGE_CASES", size)
        for ref, documents in sets.items():
            server.add_test_set(*ref, documents)
        with ck.Client(server.url, token=server.token) as reader:
            found = ck.load_test_sets(refs, client=reader, workers=workers, progress=False)
            pages = sum(max(1, -(-len(documents) // size)) for documents in sets.values())
            assert found.report.pages == pages
            assert found.source.fetched_at is not None
            assert found.source.fetched_at.tzinfo is UTC
            return found
