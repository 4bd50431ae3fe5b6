"""A walk over pages: cases once, counts that add up, and an end."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from documents_strategy import Document, cases, page, pages, served
from hypothesis import given, settings
from hypothesis import strategies as st

from casekit.errors import ConfigError, IncompletePull, LimitError, SchemaError
from casekit.report import BadCase, OnError, PullReport
from casekit.wire import Reader, Tables, case_digests, documents, joined, reader
from casekit.wire import group as group_of_pages

AGENT_CASE: Document = {
    "id": "case-1",
    "kind": "hand",
    "projectId": "p",
    "runId": "r",
    "madeOn": "1.0.0",
    "expect": {},
    "addedBy": {"kind": "user", "id": "u"},
    "addedAt": "2025-01-02T03:04:05Z",
    "updatedAt": "2025-01-02T03:04:05Z",
}


def case(case_id: str, **members: Any) -> Document:
    """A plain case."""
    subject = {"kind": "agent", "id": "acme.a", "version": "1.0.0"}
    return {"caseId": case_id, "subject": subject, "input": None, "output": None, "items": [], **members}


def walk(bodies: Any, on_error: OnError = "raise", *, agent: bool = False) -> tuple[Tables, PullReport]:
    """Read pages to their end, repeats compared."""
    report = PullReport()
    walking = (
        Reader.agent("acme.agent", report, on_error)
        if agent
        else Reader.corrections("acme.a", "1.0.0", report, on_error)
    )
    groups = list(walking.groups(bodies))
    tables = joined(groups)
    digests = case_digests(tables)
    walking.check_repeats(digests.__getitem__)
    return tables, report


def ids(tables: Tables) -> list[str]:
    """Ids of the cases."""
    found: list[str] = tables["cases"]["case_id"].to_pylist()
    return found


@pytest.fixture(params=[1, 3, 1000])
def group_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Make groups of so many cases."""
    monkeypatch.setattr(group_of_pages, "GROUP_CASES", request.param)
    size: int = request.param
    return size


# ---------------------------------------------------------------- repeats


def test_a_case_that_comes_twice_is_kept_once(group_size: int) -> None:
    """A case that comes again with the same content, on the same page or later, is counted and kept once."""
    bodies = [page([case("a"), case("b"), case("a")], cursor="1"), page([case("b"), case("c")])]
    tables, report = walk(bodies)
    assert ids(tables) == ["a", "b", "c"]
    assert (report.cases, report.duplicates, report.pages) == (3, 2, 2)


def test_a_case_that_comes_again_changed_ends_the_pull(group_size: int) -> None:
    """A case that comes again with other content proves that the list changed: no cases are given out as whole."""
    bodies = [page([case("a"), case("b")], cursor="1"), page([case("b", output=1), case("c")])]
    with pytest.raises(IncompletePull, match="case 'b' came twice with different content"):
        walk(bodies)


def test_a_repeat_is_compared_with_its_unknown_members(group_size: int) -> None:
    """What no column holds is content too."""
    with pytest.raises(IncompletePull):
        walk([page([case("a", new=1)], cursor="1"), page([case("a", new=2)])])
    _, report = walk([page([case("b"), case("a", new=1)], cursor="1"), page([case("a", new=1), case("c", new=3)])])
    assert report.duplicates == 1


def test_another_order_of_members_is_the_same_case() -> None:
    """A repeat is compared by its cells, not by its bytes."""
    members = case("a", erased=False, runId="r")
    _, report = walk([page([members], cursor="1"), page([dict(reversed(members.items()))])])
    assert report.duplicates == 1


@given(cases(plain=False, most=6), st.lists(st.integers(0, 5), max_size=6), st.integers(1, 4))
@settings(deadline=None, max_examples=50)
def test_repeats_anywhere_change_no_table(given_cases: list[Document], again: list[int], size: int) -> None:
    """Cases repeated later in the list give the tables of the list without them."""
    repeated = given_cases + [given_cases[n] for n in again if n < len(given_cases)]
    tables, report = walk(pages(repeated, size))
    assert tables == walk(pages(given_cases, size))[0]
    assert report.duplicates == len(repeated) - len(given_cases)


# ---------------------------------------------------------------- unreadable cases


def test_cases_in_are_cases_out_and_reported(group_size: int) -> None:
    """With on_error="report", every case of the pages is given out, counted as a repeat, or reported."""
    deep = "[" * 501 + "]" * 501
    bodies = [
        page([case("a"), case("bad-1", items=5), case("b")], cursor="1"),
        page([case("deep", output="DEEP"), case("a"), case("bad-1", items=5)], cursor="2").replace(
            b'"DEEP"', deep.encode()
        ),
        page([case("c"), {"caseId": 5}]),
    ]
    tables, report = walk(bodies, "report")
    assert ids(tables) == ["a", "b", "c"]
    assert [(bad.case_id, bad.path) for bad in report.bad_cases] == [
        ("bad-1", "/items"),
        ("deep", "/output"),
        ("bad-1", "/items"),
        (None, "/caseId"),
    ]
    assert report.cases + report.duplicates + len(report.bad_cases) == 8
    assert len(list(documents(tables))) == 3


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["good", "bad", "deep"])), max_size=12), st.integers(1, 5))
@settings(deadline=None, max_examples=60)
def test_the_counts_always_add_up(served_cases: list[tuple[int, str]], size: int) -> None:
    """Whatever comes in whatever order, nothing is lost uncounted, or the pull says that the list changed."""
    made: dict[str, Document] = {"good": {}, "bad": {"items": 5}, "deep": {"output": "DEEP"}}
    deep = b"[" * 501 + b"]" * 501
    bodies = [
        body.replace(b'"DEEP"', deep) for body in pages([case(f"c{n}", **made[kind]) for n, kind in served_cases], size)
    ]
    try:
        tables, report = walk(bodies, "report")
    except IncompletePull:
        kinds = {n: {kind for m, kind in served_cases if m == n} for n, _ in served_cases}
        assert any(len(found) > 1 for found in kinds.values())
    else:
        assert len(served_cases) == report.cases + report.duplicates + len(report.bad_cases)
        assert len(ids(tables)) == len(set(ids(tables))) == report.cases


def test_a_deep_value_is_named(group_size: int) -> None:
    """Where an unreadable case is an error, too deep a value names the case and the field, on the fast road too."""
    deep = b"[" * 501 + b"]" * 501
    body = page([case("a"), case("b", context={"history": [0, "DEEP"]})]).replace(b'"DEEP"', deep)
    with pytest.raises(LimitError, match="case 'b', field /context/history/1: nests deeper than 500 levels"):
        walk([body])
    whole = page([case("b", output="DEEP")]).replace(b'"DEEP"', b"[" * 500 + b"]" * 500)
    assert walk([whole])[1].careful_pages == 0


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2025-01-02", "2025-01-02T03:04:05", "2025-13-01T00:00:00Z", "0001-01-01T00:00:00+14:00"]
)
@pytest.mark.parametrize("field", ["addedAt", "updatedAt"])
def test_a_bad_time_is_a_bad_case(text: str, field: str) -> None:
    """A text that is no time, or has no offset, or is before all time, makes its case unreadable, and no other."""
    bodies = [page([AGENT_CASE, {**AGENT_CASE, "id": "case-2", field: text}, {**AGENT_CASE, "id": "case-3", "new": 1}])]
    with pytest.raises(SchemaError) as caught:
        walk(bodies, agent=True)
    assert (caught.value.case_id, caught.value.path) == ("case-2", f"/{field}")
    tables, report = walk(bodies, "report", agent=True)
    assert ids(tables) == ["case-1", "case-3"]
    assert [(bad.case_id, bad.path) for bad in report.bad_cases] == [("case-2", f"/{field}")]
    assert list(documents(tables))[1]["new"] == 1


def test_a_bad_time_of_retirement_is_named() -> None:
    """The time in ``retired`` is looked at too."""
    retired = {"reason": "r", "by": {"kind": "user", "id": "u"}, "at": "soon"}
    _, report = walk([page([{**AGENT_CASE, "retired": retired}])], "report", agent=True)
    assert report.bad_cases == [BadCase("case-1", "/retired/at", "expected a date and time with its offset (RFC 3339)")]


def test_on_error_is_one_of_two_words() -> None:
    """Another word is an error before anything is read."""
    with pytest.raises(ConfigError, match="on_error is 'raise' or 'report', not 'ignore'"):
        Reader.corrections("acme.a", "1.0.0", PullReport(), "ignore")  # type: ignore[arg-type]


# ---------------------------------------------------------------- counts


def test_what_older_servers_leave_out_is_counted() -> None:
    """Members that newer servers send are counted where they are absent; repeats are not counted twice."""
    item = {"key": "k", "yes": 1, "no": 0, "yesWeight": 1, "totalWeight": 1, "reasons": []}
    new = {**item, "expert": {"yesWeight": 1, "totalWeight": 1}, "correctionIds": []}
    given_cases = [case("a", items=[item, new]), case("b", runId="r", items=[item]), case("a", items=[item, new])]
    _, report = walk([page(given_cases)])
    assert report.absent_fields == {"/runId": 1, "/items/*/expert": 2, "/items/*/correctionIds": 2}


def test_erased_cases_are_counted_and_stay() -> None:
    """An erased case is a case."""
    tables, report = walk([page([case("a", erased=True), case("b", erased=False), case("c")])])
    assert (report.cases, report.erased, ids(tables)) == (3, 1, ["a", "b", "c"])


def test_bytes_and_pages_are_counted() -> None:
    """Pages and their bytes are counted, empty pages among them."""
    bodies = [page([case("a")], cursor="1"), page([], cursor="2"), page([case("b")])]
    _, report = walk(bodies)
    assert (report.pages, report.bytes) == (3, sum(map(len, bodies)))


def test_groups_end_early_when_pages_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group ends at a number of bytes, so that memory has a bound."""
    monkeypatch.setattr(group_of_pages, "GROUP_BYTES", 300)
    walking = Reader.corrections("acme.a", "1.0.0", PullReport())
    groups = list(walking.groups(pages([case(f"c{n}", output="x" * 200) for n in range(4)], 1)))
    assert [group["cases"].num_rows for group in groups] == [1, 1, 1, 1]


def test_columns_too_large_for_arrow_are_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Arrow cannot hold a column, the error is casekit's own."""

    def overflow(*_: Any) -> None:
        raise pa.ArrowCapacityError("x")

    monkeypatch.setattr(reader, "corrections_tables", overflow)
    with pytest.raises(LimitError, match="1 cases make a column of more than 2 GiB"):
        walk([page([case("a")])])


# ---------------------------------------------------------------- no end


def endless(documents_of: Any) -> Iterator[bytes]:
    """Pages for ever, as far as a reader that should end goes: one that does not fails, and hangs no test."""
    for n in range(1000):
        yield page(documents_of(n), cursor=str(n))


@pytest.mark.parametrize(
    "documents_of",
    [
        lambda n: [],
        lambda n: [case("a")],
        lambda n: [case(f"c{n % 10}")],
        lambda n: [case("bad", items=5)],
        lambda n: [{"caseId": None}],
    ],
)
def test_pages_without_end_end(documents_of: Any) -> None:
    """After 100 pages in a row that bring no new case, the list is taken for endless."""
    report = PullReport()
    walking = Reader.corrections("acme.a", "1.0.0", report, "report")
    with pytest.raises(IncompletePull, match="100 pages in a row brought no new case"):
        list(walking.groups(endless(documents_of)))
    assert report.pages < 120


def test_a_hundred_idle_pages_at_the_end_are_a_list() -> None:
    """A list whose last 100 pages bring nothing new has an end, so it is whole."""
    report = PullReport()
    walking = Reader.corrections("acme.a", "1.0.0", report)
    groups = list(walking.groups([page([case("a")]), *[page([])] * 100]))
    assert sum(group["cases"].num_rows for group in groups) == 1
    assert report.pages == 101


def test_empty_pages_among_others_are_no_end() -> None:
    """99 pages that bring nothing, again and again, are read to the end."""
    bodies = [page([case(f"c{n}")] if n % 100 == 99 else [], cursor=str(n)) for n in range(300)]
    tables, _ = walk([*bodies, page([])])
    assert len(ids(tables)) == 3


@pytest.mark.parametrize("members", [{"items": 5}, {"output": "DEEP"}])
def test_unreadable_cases_are_new_cases(members: Document) -> None:
    """A set in which no case can be read is reported case by case, however many pages it has."""
    deep = b"[" * 501 + b"]" * 501
    bodies = [body.replace(b'"DEEP"', deep) for body in pages([case(f"c{n}", **members) for n in range(150)], 1)]
    _, report = walk(bodies, "report")
    assert len(report.bad_cases) == len(served(bodies)) == 150


def test_the_collector_is_as_it_was() -> None:
    """Reading pauses Python's collector and leaves it as it was, on or off, also after an error."""
    assert gc.isenabled()
    walk([page([case("a")])])
    with pytest.raises(SchemaError):
        walk([page([case("a", items=5)])])
    assert gc.isenabled()
    gc.disable()
    try:
        walk([page([case("a")])])
        assert not gc.isenabled()
    finally:
        gc.enable()
