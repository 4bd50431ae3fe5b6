"""The digest of a case: the same for the same content, another for any other."""

from __future__ import annotations

import hashlib
import random
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from documents_strategy import Document, cases, page, pages
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from casekit.report import PullReport
from casekit.schema import FORMAT_COLUMNS, JSON, STRINGS, TABLES, empty_tables
from casekit.wire import Reader, Tables, case_digests, case_keys, content_hash, digest, joined


def case(case_id: str, **members: Any) -> Document:
    """A plain case."""
    subject = {"kind": "agent", "id": "acme.a", "version": "1.0.0"}
    return {"caseId": case_id, "subject": subject, "input": None, "output": None, "items": [], **members}


FULL = case(
    "full",
    runId="run",
    input={"a": 1},
    output=[1],
    segments=[{"key": "k", "value": "v"}],
    items=[
        {
            "key": "k",
            "pointer": "/0",
            "rank": 0,
            "yes": 2,
            "no": 1,
            "yesWeight": 2.5,
            "totalWeight": 3,
            "expert": {"yesWeight": 1, "totalWeight": 1, "correctionIds": ["c"]},
            "correctionIds": ["c", "d"],
            "reasons": [{"verdict": "yes", "reason": "r", "correctorGroupId": "g", "expert": True}],
        },
        {"key": "l", "yes": 0, "no": 0, "yesWeight": 0, "totalWeight": 0, "reasons": []},
    ],
    context={
        "history": ["hello"],
        "historyTruncated": False,
        "retrieved": 1,
        "recalled": 2,
        "sessionApproval": {"approved": True, "rationale": "ok"},
        "flow": {
            "calls": [
                {
                    "runId": "r",
                    "toolId": "t",
                    "nodeId": "n",
                    "scope": "s",
                    "arguments": 1,
                    "result": 2,
                    "fromEvent": True,
                }
            ],
            "steps": [
                {
                    "runId": "r",
                    "agentId": "a",
                    "agentVersion": "v",
                    "nodeId": "n",
                    "scope": "s",
                    "retrieved": 1,
                    "recalled": 2,
                }
            ],
            "truncated": False,
        },
        "toolEnv": {},
        "replayOf": "r",
    },
    corrections=[
        {
            "correctionId": "c",
            "correctorGroupId": "g",
            "expert": True,
            "calls": [{"tool": "t", "args": {}}],
            "notCalled": ["u"],
        }
    ],
    expect={
        "decisions": {"verdict": "wrong", "shouldCall": [{"tool": "t", "args": {}}], "mustNotCall": ["u"]},
        "answer": {"verdict": "wrong", "shouldSay": "s", "why": "w"},
        "items": [{"key": "k", "verdict": "right", "pointer": "/0", "rank": 0}],
    },
    expert=True,
    erased=False,
    later=1,
)
AGENT = {
    "id": "full",
    "kind": "hand",
    "projectId": "p",
    "runId": "r",
    "madeOn": "1",
    "expect": {},
    "addedBy": {"kind": "user", "id": "u"},
    "addedAt": "2025-01-02T03:04:05Z",
    "updatedAt": "2025-01-02T03:04:05Z",
    "retired": {"reason": "r", "by": {"kind": "user", "id": "u"}, "at": "2025-01-02T03:04:05Z"},
}


def tables_of(bodies: list[bytes], version: str = "1.0.0") -> Tables:
    """The tables of some pages."""
    return joined(Reader.corrections("acme.a", version, PullReport()).groups(bodies))


def agent_tables(*given_cases: Document) -> Tables:
    """The tables of some cases of an agent."""
    return joined(Reader.agent("acme.agent", PullReport()).groups([page(list(given_cases))]))


def only(*given_cases: Document) -> list[bytes]:
    """The digests of some cases."""
    return case_digests(tables_of([page(list(given_cases))]))


# ---------------------------------------------------------------- the same


def test_no_case_has_no_digest() -> None:
    """Of no case there is no digest, and the content hash is that of nothing."""
    assert case_digests(empty_tables()) == []
    assert content_hash([]) == hashlib.sha256(b"").hexdigest()


def test_the_layout_is_what_it_was() -> None:
    """The digest of a case with every member is the one that older snapshots have."""
    assert content_hash(only(FULL)) == "a83a83daa71f6fac82d0e6bfc0701ff8676b3497a54d7e9cb191087ae477bc25"
    assert (
        content_hash(case_digests(agent_tables(AGENT)))
        == "d2aaba6dd593a12048c8cbf43633a8b7802a7defa9f7e59534a274d472017109"
    )


@given(cases(plain=False, most=6), st.integers(1, 6), st.integers(0, 9))
@settings(deadline=None, max_examples=30)
def test_order_pages_and_grouping_change_nothing(given_cases: list[Document], size: int, seed: int) -> None:
    """A case has the digest it has alone, whatever stands around it; the content hash knows no order."""
    whole = only(*given_cases)
    assert whole == [one for document in given_cases for one in only(document)]
    order = list(given_cases)
    random.Random(seed).shuffle(order)
    assert content_hash(case_digests(tables_of(pages(order, size)))) == content_hash(whole)


@given(cases(plain=False, most=5), st.integers(1, 3))
@settings(deadline=None, max_examples=30)
def test_blocks_and_chunks_change_nothing(given_cases: list[Document], block: int) -> None:
    """How many cases are laid out at once, and how Arrow chunks the columns, is nothing to the digest."""
    tables = tables_of([page(given_cases)])
    expected = case_digests(tables)
    chunked = {
        name: pa.concat_tables([table.slice(n, 1) for n in range(table.num_rows)]) if table.num_rows else table
        for name, table in tables.items()
    }
    assert case_digests(chunked) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digest, "BLOCK_CASES", block)
        assert case_digests(tables) == expected


def test_several_sets_together_have_the_digests_they_have_apart() -> None:
    """The same case id in several versions, one after another in every table, is told apart."""
    parts = [tables_of([page([FULL, case("b")])], "1.0.0"), tables_of([page([{**FULL, "erased": True}])], "2.0.0")]
    parts += [tables_of([page([{**FULL, "items": []}])], "3.0.0"), agent_tables(AGENT)]
    assert case_digests(joined(parts)) == [one for part in parts for one in case_digests(part)]


def test_what_stands_under_a_null_is_nothing() -> None:
    """Arrow lets any bytes stand under a null; they are no content."""
    tables = tables_of([page([case("a", runId="r"), case("b")])])
    column = tables["cases"]["run_id"].combine_chunks()
    dirty = pa.StringArray.from_buffers(
        2, pa.py_buffer(np.array([0, 1, 5], dtype=np.int32)), pa.py_buffer(b"rJUNK"), pa.py_buffer(b"\x01")
    )
    assert dirty.to_pylist() == column.to_pylist() == ["r", None]
    at = tables["cases"].schema.get_field_index("run_id")
    changed = {**tables, "cases": tables["cases"].set_column(at, tables["cases"].schema.field(at), dirty)}
    assert case_digests(changed) == case_digests(tables)


def test_a_list_under_a_null_is_nothing() -> None:
    """The same for a list that is absent."""
    items = [{"key": k, "yes": 0, "no": 0, "yesWeight": 0, "totalWeight": 0, "reasons": []} for k in "kl"]
    tables = tables_of([page([case("a", items=[{**items[0], "correctionIds": ["c"]}, items[1]])])])
    dirty = pa.ListArray.from_buffers(
        STRINGS,
        2,
        [pa.py_buffer(b"\x01"), pa.py_buffer(np.array([0, 1, 3], dtype=np.int32))],
        children=[pa.array(["c", "x", "y"])],
    )
    assert dirty.to_pylist() == [["c"], None]
    at = tables["items"].schema.get_field_index("correction_ids")
    changed = {**tables, "items": tables["items"].set_column(at, tables["items"].schema.field(at), dirty)}
    assert case_digests(changed) == case_digests(tables)


def test_a_list_of_no_texts_may_have_no_buffers() -> None:
    """Arrow lets an array of nothing have no offsets at all."""
    item = {"key": "k", "yes": 0, "no": 0, "yesWeight": 0, "totalWeight": 0, "reasons": [], "correctionIds": []}
    tables = tables_of([page([case("a", items=[item])])])
    nothing = pa.StringArray.from_buffers(0, pa.py_buffer(b""), pa.py_buffer(b""))
    bare = pa.ListArray.from_buffers(STRINGS, 1, [None, pa.py_buffer(np.zeros(2, dtype=np.int32))], children=[nothing])
    at = tables["items"].schema.get_field_index("correction_ids")
    changed = {**tables, "items": tables["items"].set_column(at, tables["items"].schema.field(at), bare)}
    assert case_digests(changed) == case_digests(tables)


def test_minus_zero_is_zero() -> None:
    """As JSON, -0.0 and 0 are equal."""
    item = {"key": "k", "yes": 0, "no": 0, "yesWeight": 0, "totalWeight": 0, "reasons": []}
    assert only(case("a", items=[item])) == only(case("a", items=[{**item, "yesWeight": -0.0}]))


# ---------------------------------------------------------------- another


def changed(cell: Any, kind: pa.DataType) -> Any:
    """Another value of the type; a null where there was one, one where there was a null."""
    if cell is None:
        return {pa.bool_(): False, pa.int64(): 0, pa.float64(): 0.0, STRINGS: [], pa.string(): ""}.get(
            kind, "0" if kind == JSON else 0
        )
    if isinstance(cell, bool):
        return not cell
    if isinstance(cell, int | float):
        return cell + 1
    if isinstance(cell, list):
        return [*cell, ""]
    return cell + cell[:0].__class__(" ") if isinstance(cell, str) else cell.replace(year=cell.year + 1)


COLUMNS = [
    (table, field.name)
    for table, schema in TABLES.items()
    for field in schema
    if table == "cases" or field.name not in {f.name for f in FORMAT_COLUMNS}
]


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_any_other_cell_is_another_digest(table: str, column: str) -> None:
    """Changing a cell of any column, or making it null, changes the digest."""
    for tables in (tables_of([page([FULL])]), agent_tables(AGENT)):
        if not tables[table].num_rows:
            continue
        at = tables[table].schema.get_field_index(column)
        field = tables[table].schema.field(at)
        cells = tables[table][column].to_pylist()
        others = [changed(cells[0], field.type)]
        if field.nullable and cells[0] is not None:
            others.append(None)
        kind = pa.string() if field.type == JSON else field.type
        for other in others:
            array = pa.array([other, *cells[1:]], kind)
            array = pa.ExtensionArray.from_storage(JSON, array) if field.type == JSON else array
            new = {**tables, table: tables[table].set_column(at, field, array)}
            if column == "case_id":  # the rows of the case follow it
                new = tables_of([page([{**FULL, "caseId": other}])])
            assert case_digests(new) != case_digests(tables), other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"runId": "ab", "segments": []}, {"runId": "a", "segments": []}),
        ({"segments": []}, {}),
        ({"segments": [{"key": "ab", "value": "c"}]}, {"segments": [{"key": "a", "value": "bc"}]}),
        (
            {"segments": [{"key": "a", "value": "b"}, {"key": "a", "value": "b"}]},
            {"segments": [{"key": "a", "value": "b"}]},
        ),
        (
            {"expect": {"decisions": {"verdict": "right", "mustNotCall": ["ab"]}}},
            {"expect": {"decisions": {"verdict": "right", "mustNotCall": ["a", "b"]}}},
        ),
        (
            {"expect": {"decisions": {"verdict": "right", "mustNotCall": []}}},
            {"expect": {"decisions": {"verdict": "right", "mustNotCall": [""]}}},
        ),
        (
            {"expect": {"decisions": {"verdict": "right", "mustNotCall": []}}},
            {"expect": {"decisions": {"verdict": "right"}}},
        ),
        ({"output": ""}, {"output": None}),
        ({"output": 1}, {"output": 1.0}),
        ({"context": {}}, {}),
        ({"erased": False}, {}),
        ({"x": 1}, {"y": 1}),
    ],
)
def test_what_runs_together_stays_apart(one: Document, other: Document) -> None:
    """Texts that make the same letters side by side, and lists that make the same texts, have other digests."""
    assert only(case("a", **one)) != only(case("a", **other))


@given(cases(plain=False, most=2))
@settings(deadline=None, max_examples=30)
def test_other_documents_have_other_digests(given_cases: list[Document]) -> None:
    """Two generated cases that differ have other digests."""
    assume(len(given_cases) == 2)
    one, other = given_cases
    assert len(set(only(one, other))) == 2
    renamed = {**other, "caseId": one["caseId"]}
    tables = tables_of([page([one])]), tables_of([page([renamed])])
    assert (case_digests(tables[0]) == case_digests(tables[1])) == (tables[0] == tables[1])


# ---------------------------------------------------------------- refused


def test_rows_of_no_case_are_refused() -> None:
    """A child row without its case, or out of order, is an error and no digest."""
    tables = tables_of([page([FULL, {**FULL, "caseId": "b"}])])
    orphaned = {**tables, "cases": tables["cases"].slice(0, 1)}
    with pytest.raises(ValueError, match="of no case"):
        case_digests(orphaned)
    turned = {**tables, "items": tables["items"].take(pa.array([2, 3, 0, 1]))}
    with pytest.raises(ValueError, match="not in the order"):
        case_digests(turned)
    with pytest.raises(ValueError, match="twice"):
        case_digests({name: pa.concat_tables([table, table]) for name, table in tables.items()})


def test_keys_tell_cases_apart() -> None:
    """A key has the set, version, subject and id, each with its length: no two cases have the same."""
    names = ["test_set_id", "version", "subject_id", "case_id"]
    rows = [dict(zip(names, ids, strict=True)) for ids in product([None, "", "a:", ":1:"], repeat=4)]
    keys = case_keys(pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in names])))
    assert len(set(keys.to_pylist())) == len(rows)
