"""JSON outside of lists: what a write's answer may hold, and what of an error can be read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casekit.documents import ErrorBody
from casekit.http.body import legible, mended

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)
DEEP = 50_000


def envelope(**more: Any) -> bytes:
    """An error's body with what every test looks for behind what is in its way."""
    return json.dumps({"error": {**more, "code": "database-busy", "requestId": "req-1"}}).encode()


def nested(levels: int) -> str:
    """Details of so many levels, with brackets in a text, which count for nothing."""
    return '{"a":' * levels + r'"]}\"]}"' + "}" * levels


@given(VALUES)
@settings(max_examples=60)
def test_what_is_sound_stays_as_it_is(value: Any) -> None:
    """JSON without a fault must come out with the same value, of a write's answer and of an error alike."""
    for ensure_ascii in (True, False):
        text = json.dumps(value, ensure_ascii=ensure_ascii).encode()
        assert json.loads(mended(text)) == json.loads(legible(text)) == value


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'"\\ud800"', "\ufffd"),
        (b'"\\uDFFF\\ud83d\\ude00\\uD83D"', "\ufffd\U0001f600\ufffd"),
        (b'"\xed\xa0\x80"', "\ufffd"),  # a half in the coding itself
        (b'"\xed\xa0\xbd\xed\xb8\x80"', "\U0001f600"),  # and a pair of them
        (b'{"\\ud800": ["\\\\ud800"]}', {"\ufffd": ["\\ud800"]}),
        (b'\xef\xbb\xbf {"n": 9007199254740993}', {"n": 9007199254740993}),
        (b"[1e400, -0.0, 1.0]", [float("inf"), 0, 1.0]),
    ],
)
def test_an_answer_is_mended_as_a_list_is(body: bytes, value: Any) -> None:
    """Each half of a character without its other half must become U+FFFD, and nothing else be changed."""
    assert json.loads(mended(body)) == value


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"x": NaN}', "NaN is no number of JSON"),
        (b"[Infinity]", "Infinity is no number of JSON"),
        (b"-Infinity", "-Infinity is no number of JSON"),
        (b"{'secret': 1}", "not JSON"),
        (b'{"secret": 1', "not JSON"),
        (b'{"secret": 1}{}', "not JSON"),
        (b"", "not JSON"),
        (b'"secret \xe9"', "not UTF-8"),
        (b"9" * 5000, "a number too long"),
        (b"[" * DEEP + b"]" * DEEP, "nests too deep"),
    ],
)
def test_an_answer_that_is_no_json_is_told_without_its_words(body: bytes, words: str) -> None:
    """What JSON does not have must not pass for a value, and no error must carry the body along."""
    with pytest.raises(ValueError, match=words) as caught:
        mended(body)
    assert type(caught.value) is ValueError
    assert caught.value.__context__ is None
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (envelope(message="fine"), "fine"),
        (envelope(message="\ud800"), "\ufffd"),
        (envelope(message="?").replace(b"?", b"\xe9"), "\ufffd"),
        (envelope(message="?").replace(b"?", b"\xed\xa0\x80"), "\ufffd\ufffd\ufffd"),
        (envelope(message="?").replace(b"?", b"\n\x00"), "\n\x00"),
        (b"\xef\xbb\xbf\n" + envelope(message="marked"), "marked"),
        (envelope(details={"\ud800": ["\udc00"]}), None),
        (envelope(details={"n": "?"}).replace(b'"?"', b"9" * 5000), None),
        (envelope(details={"n": "?"}).replace(b'"?"', b"-" + b"9" * 5000), None),
        (envelope(details={"n": "?"}).replace(b'"?"', b"NaN"), None),
        (envelope(details="?").replace(b'"?"', nested(300).encode()), None),
        (envelope(details="?").replace(b'"?"', nested(DEEP).encode()), None),
        (envelope(message="?").replace(b'"?"', b"[" * DEEP + b"]" * DEEP), None),
        (envelope(more=["[" * 1000]), None),
    ],
)
def test_the_code_of_an_error_is_read_whatever_stands_beside_it(body: bytes, message: str | None) -> None:
    """Code and request id decide what happens next: no other part of the envelope must take them away."""
    read = ErrorBody.read(legible(body))
    assert (read.code, read.request_id, read.message) == ("database-busy", "req-1", message)


@pytest.mark.parametrize(("levels", "kept"), [(1, True), (100, True), (101, False), (300, False)])
def test_details_are_whole_or_none(levels: int, kept: bool) -> None:
    """Details that nest deeper than can be shown must be left out as a whole, and never be cut in part."""
    text = nested(levels)
    body = f'{{"error":{{"code":"c","details":{text},"message":"m"}}}}'.encode()
    read = ErrorBody.read(legible(body))
    assert (read.code, read.message) == ("c", "m")
    assert read.details == (json.loads(text) if kept else None)


@given(st.binary(max_size=80) | st.text('{}[]"\\,:u', max_size=80).map(str.encode))
@settings(max_examples=60)
def test_no_bytes_hide_the_code(junk: bytes) -> None:
    """Any bytes in the message must leave the code; in the place of the whole body they must raise nothing."""
    for body in (junk, junk + b"[" * 101):
        assert ErrorBody.read(legible(body)) == ErrorBody()
    said = junk.translate(None, delete=b'"\\')
    assert (
        ErrorBody.read(legible(envelope(message="?", details=[[]] * 101).replace(b"?", said))).code == "database-busy"
    )


@pytest.mark.parametrize("body", [b"<html>", b"", b'{"error": {"code": "c"', b"[" * DEEP, b'{"a":"' + b'\\"' * DEEP])
def test_what_is_no_json_stays_as_it_is(body: bytes) -> None:
    """A body that cannot be read must be handed on, in a time that grows with its length alone."""
    assert legible(body) == body
