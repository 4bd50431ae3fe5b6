"""Pages to tables and back: the documents are those that were served, equal as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from documents_strategy import Document, agent_cases, cases, page, pages, same, served
from hypothesis import given, settings
from hypothesis import strategies as st

from casekit.errors import LimitError
from casekit.report import PullReport
from casekit.schema import TABLES
from casekit.wire import Reader, Tables, case_digests, content_hash, documents, joined

ROOT = Path(__file__).parents[2]
REAL = {
    "mtbench": sorted((ROOT / "data" / "mtbench").glob("page-*.json"))[:3],
    "rag24": [ROOT / "tests" / "data" / "served" / "rag24.json"],
    "tau_airline": [ROOT / "tests" / "data" / "served" / "tau_airline.json"],
}


def tables_of(bodies: list[bytes], report: PullReport | None = None) -> Tables:
    """The tables of pages of a corrections test set."""
    return joined(Reader.corrections("acme.a", "1.0.0", report or PullReport()).groups(bodies))


def agent_tables_of(bodies: list[bytes]) -> Tables:
    """The tables of pages of an agent's live test set."""
    return joined(Reader.agent("acme.agent", PullReport()).groups(bodies))


def one(document: Document) -> Document:
    """The document that comes back for one that goes in."""
    (found,) = documents(tables_of([page([document])]))
    return found


CASE: Document = {
    "caseId": "case-1",
    "subject": {"kind": "agent", "id": "acme.a", "version": "1.0.0"},
    "input": None,
    "output": None,
    "items": [],
}
ITEM: Document = {"key": "k", "yes": 1, "no": 0, "yesWeight": 1, "totalWeight": 1, "reasons": []}


@pytest.mark.parametrize("folder", REAL)
def test_real_documents_come_back(folder: str) -> None:
    """The cases of public data are the same after they have been tables."""
    bodies = [path.read_bytes() for path in REAL[folder]]
    report = PullReport()
    tables = tables_of(bodies, report)
    found, given_cases = list(documents(tables)), served(bodies)
    assert found == given_cases
    assert report.careful_pages == 0
    assert report.cases == len(given_cases)


@given(cases(plain=False), st.integers(0, 99), st.integers(1, 4))
@settings(deadline=None, max_examples=100)
def test_every_document_comes_back(given_cases: list[Document], style: int, size: int) -> None:
    """Each member the contract has, unknown ones at any depth, nulls, and free JSON to the last digit come back."""
    bodies = pages(given_cases, size, style=style)
    found = list(documents(tables_of(bodies)))
    assert len(found) == len(given_cases)
    assert all(map(same, found, served(bodies)))


@given(agent_cases(plain=False), st.integers(0, 99), st.integers(1, 4))
@settings(deadline=None, max_examples=100)
def test_every_agent_document_comes_back(given_cases: list[Document], style: int, size: int) -> None:
    """The same for an agent's live test set, its times as they were written."""
    bodies = pages(given_cases, size, style=style)
    found = list(documents(agent_tables_of(bodies)))
    assert len(found) == len(given_cases)
    assert all(map(same, found, served(bodies)))


@given(cases(plain=False), st.integers(0, 99))
@settings(deadline=None, max_examples=50)
def test_tables_keep_their_schema(given_cases: list[Document], style: int) -> None:
    """All tables are there with all columns, whatever the rows, and no cell breaks its type."""
    tables = tables_of(pages(given_cases, 2, style=style))
    assert list(tables) == list(TABLES)
    for name, table in tables.items():
        assert table.schema.equals(TABLES[name], check_metadata=True)
        table.validate(full=True)
        for field in table.schema:
            assert field.nullable or table[field.name].null_count == 0


@given(cases(plain=True), st.integers(0, 99))
@settings(deadline=None, max_examples=50)
def test_the_two_roads_give_equal_tables(given_cases: list[Document], style: int) -> None:
    """A page that both roads can read gives the same tables by either."""
    body = page(given_cases, style=style)
    report = PullReport()
    assert tables_of([b'{"later":1,' + body[1:]], report) == tables_of([body])
    assert report.careful_pages == 1


def test_no_case_gives_empty_tables() -> None:
    """An empty list gives all tables with all columns and no row, and no document."""
    tables = tables_of([page([])])
    assert {name: table.num_rows for name, table in tables.items()} == dict.fromkeys(TABLES, 0)
    assert list(documents(tables)) == []
    assert tables_of([]) == tables


@pytest.mark.parametrize("size", [*range(1, 9), 10, 33, 50, 99, 100])
def test_the_page_size_changes_nothing(size: int) -> None:
    """Pages of any size give the same tables and the same content hash."""
    given_cases = served([path.read_bytes() for path in REAL["mtbench"]])[:100]
    whole = tables_of([page(given_cases)])
    tables = tables_of(pages(given_cases, size))
    assert tables == whole
    assert content_hash(case_digests(tables)) == content_hash(case_digests(whole))


@pytest.mark.parametrize(
    "absent_null_empty",
    [
        ("segments", [{"key": "k", "value": "v"}]),
        ("corrections", [{"correctionId": "c", "calls": [], "notCalled": []}]),
        ("runId", "r"),
        ("expert", False),
        ("erased", False),
        ("context", {"history": []}),
        ("expect", {"items": []}),
    ],
)
def test_absent_null_and_empty_stay_apart(absent_null_empty: tuple[str, Any]) -> None:
    """A member that is absent, null, empty, or there comes back as just that."""
    name, full = absent_null_empty
    empty = type(full)()
    for document in (CASE, {**CASE, name: None}, {**CASE, name: empty}, {**CASE, name: full}):
        assert same(one(document), document)


@pytest.mark.parametrize("part", ["decisions", "answer"])
def test_an_expectation_comes_back_as_it_came(part: str) -> None:
    """Lists of an expectation that are absent, null or empty stay apart too."""
    lists = {"decisions": ["shouldCall", "mustNotCall"], "answer": ["shouldSay", "why"]}[part]
    blank: Any = [] if part == "decisions" else ""
    for values in ({}, dict.fromkeys(lists), dict.fromkeys(lists, blank)):
        document = {**CASE, "expect": {part: {"verdict": "wrong", **values}, "items": []}}
        assert same(one(document), document)


@pytest.mark.parametrize(
    "text",
    [
        "123456789012345678901234567890",
        "-9223372036854775809",
        "1",
        "1.0",
        "1e0",
        "1E+2",
        "0.1000000000000000055511151231257827",
        "-0.0",
        "{}",
        "[]",
        '""',
        '"\\u0000"',
        '{"a":1,"a":2}',
        '{"caseId":"x","items":[],"a.b":1,"a":{"b":2},"":3}',
        " [ 1 ,\n\t2 ] ",
        '"NaN"',
        "1e400",
    ],
)
def test_free_json_is_kept_letter_by_letter(text: str) -> None:
    """Free JSON stays the server's own text: digits, 1 against 1.0, doubled keys, white space inside."""
    body = page([{**CASE, "output": "O", "context": {"history": ["O"], "retrieved": "O", "toolEnv": "O"}}])
    tables = tables_of([body.replace(b'"O"', text.encode())])
    row = tables["cases"].to_pylist()[0]
    expected = text.strip()
    assert row["output_json"] == row["retrieved_json"] == row["tool_env_json"] == expected
    assert tables["messages"]["message_json"].to_pylist() == [expected]
    (document,) = documents(tables)
    assert json.dumps(document["output"]) == json.dumps(json.loads(text))


def test_more_digits_than_python_reads() -> None:
    """An integer of 5,000 digits is kept as text, and the document says which case Python cannot read."""
    body = page([{**CASE, "output": "O"}]).replace(b'"O"', b"7" * 5000)
    tables = tables_of([body])
    assert tables["cases"]["output_json"].to_pylist() == ["7" * 5000]
    with pytest.raises(LimitError, match="case 'case-1' holds a number"):
        list(documents(tables))


def test_weights_keep_what_a_double_does_not_hold() -> None:
    """A weight beyond 2**53 comes back digit for digit, beside the nearest double in the table."""
    document = {**CASE, "items": [{**ITEM, "yesWeight": 2**53 + 1, "totalWeight": 10**30 + 1}]}
    (item,) = tables_of([page([document])])["items"].to_pylist()
    assert (item["yes_weight"], item["total_weight"]) == (2.0**53, 1e30)
    assert same(one(document), document)


def test_calls_stand_in_the_order_of_the_cases() -> None:
    """Calls of corrections and of the expectation stand together by case, and go back where they came from."""
    call = {"tool": "t", "args": {"n": 1.0}}
    correction = {"correctionId": "c", "calls": [call, {**call, "tool": "u"}], "notCalled": ["v"]}
    expect = {"decisions": {"verdict": "wrong", "shouldCall": [{**call, "tool": "w"}]}}
    given_cases = [
        {**CASE, "caseId": "a", "expect": expect},
        {**CASE, "caseId": "b", "corrections": [correction, correction], "expect": expect},
        {**CASE, "caseId": "c", "corrections": [correction]},
    ]
    tables = tables_of([page(given_cases)])
    calls = tables["expected_calls"]
    assert calls["case_id"].to_pylist() == ["a", *["b"] * 5, *["c"] * 2]
    assert calls["source"].to_pylist() == ["expect", *["corrections"] * 4, "expect", *["corrections"] * 2]
    assert calls["correction_no"].to_pylist() == [None, 0, 0, 1, 1, None, 0, 0]
    assert list(documents(tables)) == given_cases


def test_child_rows_repeat_their_cases_ids() -> None:
    """Each child row has the ids of its case, and its place among its siblings."""
    given_cases = [
        {
            **CASE,
            "caseId": case_id,
            "runId": f"run-{case_id}",
            "items": [
                {**ITEM, "key": f"{case_id}-{n}", "reasons": [{"verdict": "no", "reason": "r"}] * n} for n in range(3)
            ],
        }
        for case_id in ("a", "b")
    ]
    tables = tables_of([page(given_cases)])
    assert tables["items"].select(["case_id", "run_id", "item_no", "key"]).to_pylist() == [
        {"case_id": c, "run_id": f"run-{c}", "item_no": n, "key": f"{c}-{n}"} for c in "ab" for n in range(3)
    ]
    assert tables["reasons"].select(["case_id", "item_no", "item_key", "reason_no"]).to_pylist() == [
        {"case_id": c, "item_no": n, "item_key": f"{c}-{n}", "reason_no": m}
        for c in "ab"
        for n, m in [(1, 0), (2, 0), (2, 1)]
    ]
    assert set(tables["reasons"]["test_set_id"].to_pylist()) == {"acme.a"}


def test_documents_of_many_rows_come_block_by_block() -> None:
    """More rows than are made Python objects at once change nothing."""
    given_cases = [{**CASE, "caseId": f"c{n}", "segments": [{"key": "k", "value": str(n)}] * 3} for n in range(2100)]
    tables = tables_of(pages(given_cases, 100))
    assert tables["segments"].num_rows > 5000
    assert list(documents(tables)) == given_cases


@pytest.mark.parametrize("digits", ["", ".5", ".123", ".123456", ".123456789", ".100", ".000000"])
@pytest.mark.parametrize("offset", ["Z", "+00:00", "+05:30", "-11:45"])
def test_times_come_back_as_they_were_written(digits: str, offset: str) -> None:
    """A time of 0, 1, 3, 6 or 9 digits, in any offset, is the same instant in the table and the same text again."""
    text = f"2025-01-02T03:04:05{digits}{offset}"
    case = {
        "id": "case-1",
        "kind": "hand",
        "projectId": "p",
        "runId": "r",
        "madeOn": "1.0.0",
        "expect": {},
        "addedBy": {"kind": "user", "id": "u"},
        "addedAt": text,
        "updatedAt": "2025-01-02T03:04:05Z",
        "retired": {"reason": "r", "by": {"kind": "user", "id": "u"}, "at": text},
    }
    tables = agent_tables_of([page([case])])
    assert list(documents(tables)) == [case]
    micros = f"{digits[1:]:0<6}"[:6] if digits else "000000"
    minutes = {"Z": 0, "+00:00": 0, "+05:30": 330, "-11:45": -705}[offset]
    expected = 1735787045_000000 + int(micros) - minutes * 60_000000
    for name in ("added_at", "retired_at"):
        assert tables["cases"][name].cast(pa.int64()).to_pylist() == [expected]
