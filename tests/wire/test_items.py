"""The items of many cases read at once: what comes out is what the structs would have said, or nothing does."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from documents_strategy import Document, cases, page, pages
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from casekit.errors import CasekitError
from casekit.report import OnError, PullReport
from casekit.wire import Reader, Tables, joined, reader
from casekit.wire import group as group_of_pages
from casekit.wire.items import read_items, text_of
from casekit.wire.roads import outlines

ITEM: Document = {"key": "k", "yes": 1, "no": 0, "yesWeight": 1, "totalWeight": 1.5, "reasons": []}
REASON: Document = {"verdict": "yes", "reason": "r"}
EXPERT: Document = {"yesWeight": 1, "totalWeight": 2}


def case(case_id: str, *items: Any) -> Document:
    """A case of some items."""
    subject = {"kind": "agent", "id": "acme.a", "version": "1.0.0"}
    return {"caseId": case_id, "subject": subject, "input": None, "output": None, "items": list(items)}


def walk(bodies: list[bytes], on_error: OnError, *, at_once: bool = True) -> tuple[Tables | str, PullReport]:
    """The tables, or what the error says; read at once as far as that goes, or page by page."""
    report = PullReport()
    walking = Reader.corrections("acme.a", "1.0.0", report, on_error)
    walking._at_once = at_once
    try:
        return joined(walking.groups(bodies)), report
    except CasekitError as error:
        return f"{type(error).__name__}: {error}", report


def read(*items: str) -> pa.ListArray | None:
    """Items of some cases, given as JSON."""
    return read_items(text_of([Raw(one.encode()) for one in items]))


@given(st.booleans().flatmap(lambda plain: cases(plain=plain)), st.integers(0, 99), st.integers(1, 4))
@settings(deadline=None, max_examples=60)
def test_at_once_and_page_by_page_give_equal_tables(given_cases: list[Document], style: int, size: int) -> None:
    """Whatever a server sends, the tables and the report are the same, whether Arrow reads the items or the structs."""
    bodies = pages(given_cases, size, style=style)
    assert walk(bodies, "report") == walk(bodies, "report", at_once=False)


@given(st.lists(st.sampled_from(["plain", "again", "bad", "unknown", "empty"]), max_size=12), st.integers(1, 6))
@settings(deadline=None, max_examples=40)
@pytest.mark.parametrize("on_error", ["raise", "report"])
def test_odd_pages_anywhere_change_nothing(on_error: OnError, kinds: list[str], group: int) -> None:
    """Pages that have to be read one by one, anywhere among others, give the tables, report and error as ever."""
    bodies = []
    for n, kind in enumerate(kinds):
        documents = {
            "plain": [case(f"c-{n}", ITEM)],
            "again": [case("c-0", ITEM)],
            "bad": [case(f"c-{n}", {**ITEM, "yes": "1"})],
            "unknown": [case(f"c-{n}", {**ITEM, "mood": 1})],
            "empty": [],
        }
        bodies.append(page(documents[kind], cursor=str(n)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_of_pages, "GROUP_PAGES", group)
        assert walk(bodies, on_error) == walk(bodies, on_error, at_once=False)


def test_plain_pages_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of today's server, whatever words they hold, never go the slower way."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("page by page")

    monkeypatch.setattr(reader, "read_page", refuse)
    reasons = [
        {"verdict": "no", "reason": text} for text in ('{"a":null}', '": null', "null", "\0", "\U0001f600", "\\")
    ]
    items = [
        ITEM,
        {**ITEM, "rank": 0, "pointer": "", "expert": EXPERT, "correctionIds": []},
        {**ITEM, "reasons": reasons},
    ]
    bodies = pages([case(f"c-{n}", *items) for n in range(7)] + [case("none")], 2)
    tables, report = walk(bodies, "raise")
    assert isinstance(tables, dict)
    assert tables["items"].num_rows == 21
    assert tables["reasons"]["reason"].to_pylist() == [reason["reason"] for reason in reasons] * 7
    assert tables["cases"]["n_items"].to_pylist() == [3] * 7 + [0]
    assert (report.pages, report.cases, report.careful_pages) == (4, 8, 0)


@pytest.mark.parametrize("odd", [[case("c-1", {**ITEM, "mood": 1})], [case("c-0", ITEM), case("c-1")]])
def test_an_odd_list_is_not_read_twice(monkeypatch: pytest.MonkeyPatch, odd: list[Document]) -> None:
    """Once a page had to be read case by case, the rest is not tried at once and then read again."""
    tried: list[bytes] = []

    def noted(body: bytes) -> Any:
        tried.append(body)
        return outlines(body)

    monkeypatch.setattr(group_of_pages, "outlines", noted)
    monkeypatch.setattr(group_of_pages, "GROUP_PAGES", 1)
    bodies = [page([case("c-0", ITEM)]), page([]), page(odd), *(page([case(f"c-{n}", ITEM)]) for n in range(2, 9))]
    tables, _ = walk(bodies, "raise")
    assert isinstance(tables, dict)
    assert tables["cases"]["case_id"].to_pylist() == [f"c-{n}" for n in range(9)]
    assert tried == bodies[:4]  # the page after it had come before it was read


def test_absent_and_empty_stay_apart() -> None:
    """A list that is absent is null, an empty one is empty; an expert who is absent has no weight and no list."""
    items = [ITEM, {**ITEM, "correctionIds": [], "expert": {**EXPERT, "correctionIds": []}}, {**ITEM, "expert": EXPERT}]
    tables, _ = walk([page([case("c", *items)])], "raise")
    assert isinstance(tables, dict)
    assert tables["items"]["correction_ids"].to_pylist() == [None, [], None]
    assert tables["items"]["expert_correction_ids"].to_pylist() == [None, [], None]
    assert tables["items"]["expert_total_weight"].to_pylist() == [None, 2.0, 2.0]


@pytest.mark.parametrize(
    "items",
    [
        [{**ITEM, "mood": 1}],
        [{name: value for name, value in ITEM.items() if name != "yes"}],
        [{name: value for name, value in ITEM.items() if name != "reasons"}],
        [{**ITEM, "reasons": [{"verdict": "yes"}]}],
        [{**ITEM, "expert": {"yesWeight": 1}}],
        [{**ITEM, "pointer": None}],
        [{**ITEM, "rank": None}],
        [{**ITEM, "expert": None}],
        [{**ITEM, "correctionIds": None}],
        [{**ITEM, "correctionIds": [None]}],
        [{**ITEM, "expert": {**EXPERT, "correctionIds": [None, "a"]}}],
        [{**ITEM, "reasons": [{**REASON, "expert": None}]}],
        [{**ITEM, "reasons": [None]}],
        [{**ITEM, "key": 1}],
        [{**ITEM, "yes": "1"}],
        [{**ITEM, "yes": 1.0}],
        [{**ITEM, "yes": True}],
        [{**ITEM, "yes": 2**63}],
        [{**ITEM, "yesWeight": "1"}],
        [{**ITEM, "yesWeight": 2**53}],
        [{**ITEM, "yesWeight": -(2.0**53)}],
        [{**ITEM, "yesWeight": 1e300}],
        [{**ITEM, "yesWeight": -0.0}],
        [{**ITEM, "expert": {**EXPERT, "totalWeight": 2**60}}],
        [{**ITEM, "reasons": [{**REASON, "expert": 1}]}],
        [{**ITEM, "reasons": {}}],
        [None],
        [[]],
        ["text"],
        None,
        {},
        5,
    ],
)
def test_what_the_structs_would_not_take_as_it_is_is_refused(items: Any) -> None:
    """Whatever Arrow may read otherwise than the structs, or at all where they would not, is not read by it."""
    good = json.dumps([ITEM])
    assert read(good) is not None
    assert read(good, json.dumps(items), good) is None
    assert read(good, json.dumps(items, indent=1), good) is None


@pytest.mark.parametrize(
    "members",
    ['"yes":1,"yes":2', '"yesWeight":1e400', '"yes":1e2', '"key":"\\ud800"', '"key":"\\udc00"', '"pointer" : \n null'],
)
def test_json_that_has_two_meanings_is_refused(members: str) -> None:
    """A member that stands there twice, a number too large, half a character, and a null in any white space."""
    rest = json.dumps({name: value for name, value in ITEM.items() if f'"{name}"' not in members})
    text = f"[{{{members},{rest[1:]}]"
    json.loads(text)
    assert read(text) is None


def test_no_case_has_no_items() -> None:
    """Nothing to read is nothing read."""
    assert text_of([]) == b""
    assert read_items(b"") is None
