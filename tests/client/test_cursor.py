"""The tail of a page: its cursor, and whether the page is whole."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casekit.errors import IncompletePull, ProtocolError
from casekit.http.cursor import is_cut, next_cursor

FREE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["hasMore", "nextCursor", "a"]), inner),
    max_leaves=8,
)


@given(
    st.lists(FREE, max_size=4),
    st.none() | st.text(min_size=1, max_size=30),
    st.permutations(["data", "nextCursor", "hasMore", "meta"]),
    st.sampled_from([None, 1]),
    st.booleans(),
    FREE,
)
def test_the_cursor_is_what_a_full_parse_finds(
    data: list[Any], cursor: str | None, order: list[str], indent: int | None, ascii_only: bool, meta: Any
) -> None:
    """However a page is written and whatever its cases hold, the cursor must be the page's own."""
    members = {"data": data, "nextCursor": cursor, "hasMore": cursor is not None, "meta": meta}
    page = {name: members[name] for name in order if name != "nextCursor" or cursor is not None}
    body = json.dumps(page, indent=indent, ensure_ascii=ascii_only).encode()
    assert next_cursor(body) == cursor
    assert next_cursor(b"\xef\xbb\xbf" + body) == cursor
    assert not is_cut(body)


@given(st.lists(FREE, min_size=1, max_size=4), st.none() | st.text(min_size=1, max_size=9), st.data())
def test_a_page_cut_anywhere_is_known_as_cut(data: list[Any], cursor: str | None, draw: st.DataObject) -> None:
    """A page that broke off must never pass for a whole one, wherever it broke."""
    page = {"data": data, **({} if cursor is None else {"nextCursor": cursor}), "hasMore": cursor is not None}
    body = json.dumps(page, separators=(",", ":")).encode()
    end = draw.draw(st.integers(1, len(body) - 1))
    assert is_cut(body[:end])
    with pytest.raises(ProtocolError):
        next_cursor(body[:end])


@pytest.mark.parametrize(
    "body", [b"", b" ", b"<html>", b"null", b"12", b'"text"', b"\xff\xfe{\x00", b"{} trailing", b"{]"]
)
def test_what_is_no_json_object_is_not_taken_for_a_cut_one(body: bytes) -> None:
    """Only JSON that began and did not end is cut; anything else is what the server meant."""
    assert not is_cut(body)


@pytest.mark.parametrize(
    "text",
    [
        '{"data":[],"hasMore":true}',
        '{"data":[],"hasMore":true,"nextCursor":null}',
        '{"data":[],"hasMore":true,"nextCursor":""}',
        '{"hasMore":true,"data":[]}',
        '{"nextCursor":"","hasMore":true,"data":[]}',
    ],
)
def test_more_without_a_cursor_is_an_incomplete_list(text: str) -> None:
    """A page that says more follows and not how to get it must not pass for the last one."""
    with pytest.raises(IncompletePull, match="hasMore but gives no nextCursor"):
        next_cursor(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        '{"data":[],"hasMore":false,"nextCursor":"left over"}',
        '{"nextCursor":"left over","data":[],"hasMore":false}',
        '{"data":[],"nextCursor":null,"hasMore":false}',
        '{"data":[],"hasMore":true,"hasMore":false}',
    ],
)
def test_has_more_decides(text: str) -> None:
    """Where no more follows, a cursor must not be followed."""
    assert next_cursor(text.encode()) is None


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "null",
        "true",
        '"page"',
        "{}",
        '{"data":[]}',
        '{"data":[],"hasMore":"false"}',
        '{"data":[],"hasMore":null}',
        '{"data":[],"hasMore":0}',
        '{"data":[],"hasMore":true,"nextCursor":5}',
        '{"data":[],"hasMore":false}}',
        '{"data":[],"hasMore":NaN}',
        "{" * 5000,
        '{"data":' + "[" * 100_000,
    ],
)
def test_what_is_no_page_is_an_error(text: str) -> None:
    """JSON that is no page, and what is no JSON, must be told and not guessed at."""
    with pytest.raises(ProtocolError):
        next_cursor(text.encode())


@pytest.mark.parametrize("body", [b'{"data":[],"nextCursor":"\xff","hasMore":true}', b"\xff\xfe{\x00}\x00"])
def test_bytes_that_are_no_text_are_an_error(body: bytes) -> None:
    """A body in another coding than UTF-8 must be told."""
    with pytest.raises(ProtocolError):
        next_cursor(body)


def test_a_cursor_longer_than_the_window_is_found() -> None:
    """A cursor too long for the quick look must come out whole."""
    cursor = "x" * 10_000
    assert next_cursor(json.dumps({"data": [], "nextCursor": cursor, "hasMore": True}).encode()) == cursor
