"""A page's bytes to structs: what is read, what is kept aside, what is refused and what the refusal says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from documents_strategy import Document, agent_cases, cases, page
from hypothesis import given, settings
from hypothesis import strategies as st

from casekit.errors import CasekitError, ProtocolError, SchemaError
from casekit.report import BadCase, OnError, PullReport
from casekit.surrogates import mended
from casekit.wire.roads import Batch, _read_carefully, read_page
from casekit.wire.structs import AgentCase, Case

CASE: Document = {
    "caseId": "case-1",
    "subject": {"kind": "agent", "id": "acme.a", "version": "1.0.0"},
    "input": None,
    "output": None,
    "items": [],
}
ITEM: Document = {"key": "k", "yes": 1, "no": 0, "yesWeight": 1, "totalWeight": 1, "reasons": []}


def read(body: bytes, on_error: OnError = "raise", kind: Any = Case) -> tuple[Batch, PullReport]:
    """Read one page."""
    batch, report = Batch(), PullReport()
    read_page(body, kind, batch, report, on_error=on_error)
    return batch, report


def body(*documents: Document) -> bytes:
    """A page of cases; members replace those of a plain case."""
    return page([{**CASE, **document} for document in documents])


# ---------------------------------------------------------------- both roads


@given(cases(plain=True), st.integers(0, 99))
@settings(deadline=None, max_examples=100)
def test_the_two_roads_give_equal_structs(documents: list[Document], style: int) -> None:
    """A page of today's server gives the same structs by either road, in any order of members and any white space."""
    text = page(documents, style=style)
    fast, report = read(text)
    assert report.careful_pages == 0
    careful = Batch()
    _read_carefully(text, Case, careful, report, "raise")
    assert careful == fast
    assert careful.extras == {}


@given(agent_cases(plain=True), st.integers(0, 99))
@settings(deadline=None, max_examples=50)
def test_the_two_roads_give_equal_agent_structs(documents: list[Document], style: int) -> None:
    """The same for an agent's live test set."""
    text = page(documents, style=style)
    fast, report = read(text, kind=AgentCase)
    assert report.careful_pages == 0
    careful = Batch()
    _read_carefully(text, AgentCase, careful, report, "raise")
    assert careful == fast


def test_white_space_around_values_is_no_part_of_them() -> None:
    """Free JSON is cut out without the white space around it, by either road."""
    text = (
        b'{"data":[{"caseId":"a","subject":{"kind":"agent","id":"i","version":"1"},"input" : \n null\t,'
        b'"output": { "b" : 1 }\r,"items":[ ]}],"hasMore":false}'
    )
    fast, report = read(text)
    careful = Batch()
    _read_carefully(text, Case, careful, report, "raise")
    for batch in (fast, careful):
        assert bytes(batch.cases[0].input) == b"null"
        assert bytes(batch.cases[0].output) == b'{ "b" : 1 }'


# ---------------------------------------------------------------- kept aside, and counted


def test_unknown_members_are_kept_at_any_depth() -> None:
    """A member no struct has is kept by JSON Pointer, escaped as RFC 6901 says, and counted with * for an index."""
    batch, report = read(
        body(
            {
                "later/on": {"x": [1]},
                "subject": {**CASE["subject"], "~": 1},
                "items": [ITEM, {**ITEM, "reasons": [{"verdict": "yes", "reason": "r", "mood": "good"}]}],
            }
        )
    )
    assert batch.extras == {0: {"/later~1on": b'{"x":[1]}', "/subject/~0": b"1", "/items/1/reasons/0/mood": b'"good"'}}
    assert report.unknown_fields == {"/later~1on": 1, "/subject/~0": 1, "/items/*/reasons/*/mood": 1}
    assert report.careful_pages == 1


def test_unknown_members_of_the_page_are_counted() -> None:
    """A page's own unknown members belong to no case: they are counted and nothing more."""
    batch, report = read(b'{"data":[],"hasMore":false,"total":7}')
    assert (batch.cases, batch.extras, report.unknown_fields) == ([], {}, {"page:/total": 1})


def test_a_null_where_the_contract_has_none_is_kept() -> None:
    """Null and absent stay two things, for every optional member that is no free JSON."""
    batch, report = read(body({"runId": None, "context": {"history": None, "retrieved": None}, "expect": None}))
    assert report.odd_values == {"/runId": 1, "/context/history": 1, "/expect": 1}
    assert report.unknown_fields == {}
    assert batch.extras == {0: {"/runId": b"null", "/context/history": b"null", "/expect": b"null"}}
    assert bytes(batch.cases[0].context.retrieved) == b"null"


def test_names_without_end_are_counted_and_not_all_listed() -> None:
    """A server that makes up member names makes no report without end; the counts still add up."""
    batch, report = read(body(*({"caseId": f"c{n}", f"new-{n}": 1} for n in range(1500))))
    assert sum(report.unknown_fields.values()) == 1500
    assert len(report.unknown_fields) == 1001
    assert len(batch.extras) == 1500


def test_an_unknown_word_of_a_closed_list_is_kept() -> None:
    """A verdict or kind that a newer server knows is read as it came, on the fast road."""
    batch, report = read(body({"subject": {"kind": "team", "id": "t", "version": "1"}}))
    assert batch.cases[0].subject.kind == "team"
    assert report.careful_pages == 0


@pytest.mark.parametrize(
    ("weight", "value", "kept"),
    [
        ("3", 3.0, None),
        ("9007199254740991", 2.0**53 - 1, None),
        ("9007199254740992", 2.0**53, b"9007199254740992"),
        ("9007199254740993", 2.0**53, b"9007199254740993"),
        ("1" + "0" * 300, 1e300, b"1" + b"0" * 300),
        ("-0", 0.0, None),
        ("1e-400", 0.0, None),
    ],
)
def test_a_weight_keeps_its_digits(weight: str, value: float, kept: bytes | None) -> None:
    """A number that a double does not hold is read as the nearest one, and its digits are kept aside."""
    text = body({"items": [{**ITEM, "yesWeight": 12345}]}).replace(b"12345", weight.encode())
    batch, _ = read(text)
    assert batch.cases[0].items[0].yesWeight == value
    assert batch.extras.get(0, {}).get("/items/0/yesWeight") == kept


def test_a_whole_number_may_be_written_with_a_point() -> None:
    """JSON Schema counts 3.0 and 1e2 among the integers."""
    text = body({"items": [{**ITEM, "yes": 777}]})
    assert read(text.replace(b"777", b"3.0"))[0].cases[0].items[0].yes == 3
    assert read(text.replace(b"777", b"1e2"))[0].cases[0].items[0].yes == 100
    assert read(text.replace(b"777", b"9007199254740991.0"))[0].cases[0].items[0].yes == 2**53 - 1


@pytest.mark.parametrize("digits", [b"9007199254740992.0", b"-9007199254740993.0", b"1e300", b"3.5"])
def test_a_whole_number_that_a_double_may_not_hold_is_refused(digits: bytes) -> None:
    """Of a number that other digits would give as well, nobody knows which was meant."""
    with pytest.raises(SchemaError, match=r"expected a whole number|expected `int`"):
        read(body({"items": [{**ITEM, "yes": 777}]}).replace(b"777", digits))


# ---------------------------------------------------------------- text


@pytest.mark.parametrize(
    ("escape", "mended_to", "count"),
    [
        (rb"\ud800", b'"\\ufffd"', 1),
        (rb"\uDC00\ud83d", b'"\\ufffd\\ufffd"', 2),
        (rb"\ud83d\ude00", b'"\\ud83d\\ude00"', 0),
        (rb"\\ud800", b'"\\\\ud800"', 0),
        (rb"\\\ud800", b'"\\\\\\ufffd"', 1),
        (rb"\ud83d\\ude00", b'"\\ufffd\\\\ude00"', 1),
    ],
)
def test_a_lone_surrogate_becomes_a_replacement_character(escape: bytes, mended_to: bytes, count: int) -> None:
    """A lone surrogate in free JSON or in a text is replaced and counted; a pair and an escaped backslash are not."""
    text = body({"output": "O", "runId": "R"})
    batch, report = read(text.replace(b'"O"', b'"' + escape + b'"').replace(b'"R"', b'"' + escape + b'"'))
    assert bytes(batch.cases[0].output) == mended_to
    assert batch.cases[0].runId == json.loads(mended_to)
    assert report.replaced_characters == 2 * count


def test_surrogates_as_raw_bytes_are_mended_too() -> None:
    """Bytes that encode lone surrogates are no UTF-8: they are replaced; the halves of a pair are put together."""
    text = body({"output": "O"})
    batch, report = read(text.replace(b"O", b"\xed\xa0\xbd\xed\xb8\x80 \xed\xa0\x80"))
    assert bytes(batch.cases[0].output).decode() == '"\U0001f600 \ufffd"'
    assert report.replaced_characters == 1


def test_a_byte_order_mark_is_no_part_of_the_page() -> None:
    """A UTF-8 byte order mark before the page is skipped."""
    batch, report = read(b"\xef\xbb\xbf" + body({}))
    assert batch.cases[0].caseId == "case-1"
    assert report.replaced_characters == 0


def test_other_encodings_are_refused() -> None:
    """Bytes that are no UTF-8 are no page, even where the decoder would not look: inside free JSON."""
    with pytest.raises(ProtocolError, match=r"not UTF-8 \(byte \d+\)"):
        read(body({"output": "O"}).replace(b"O", b"caf\xe9"))
    with pytest.raises(ProtocolError):
        read(body({}).decode().encode("utf-16"))


def test_nul_and_controls_pass() -> None:
    """Escaped NUL and control characters are text as any other; unescaped ones are no JSON."""
    batch, _ = read(body({"runId": "a\x00\x1b[31m\x7f\x85"}))
    assert batch.cases[0].runId == "a\x00\x1b[31m\x7f\x85"
    with pytest.raises(ProtocolError, match="not JSON"):
        read(body({"runId": "X"}).replace(b"X", b"\x00"))


def test_mending_leaves_good_text_alone() -> None:
    """Text without faults comes back byte for byte."""
    good = '{"a":"\\ud83d\\ude00 é \\\\ud800 \\u0000"}'.encode()
    assert mended(good) == (good, 0)


# ---------------------------------------------------------------- refused


@pytest.mark.parametrize("token", [b"NaN", b"Infinity", b"-Infinity"])
def test_what_json_forbids_is_named(token: bytes) -> None:
    """A NaN is no JSON: the message names the token, the member and the case, and nothing of the case's words."""
    text = body({"caseId": "case-7", "input": "secret", "items": [{**ITEM, "yesWeight": 777}]})
    with pytest.raises(ProtocolError) as caught:
        read(text.replace(b"777", token))
    message = str(caught.value)
    assert "case 'case-7'" in message
    assert "yesWeight" in message
    assert token.decode().strip("-") in message
    assert "secret" not in message


def test_a_name_in_free_json_is_not_taken_for_the_case() -> None:
    """Only the case's own id is named, never what free JSON calls caseId."""
    text = body({"caseId": "case-7", "output": {"caseId": "secret words", "n": 777}})
    with pytest.raises(ProtocolError) as caught:
        read(text.replace(b"777", b"NaN"))
    assert "case-7" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"null",
        b"<html>",
        b'{"data":[],"hasMore":false',
        b'{"data":[],"hasMore":false} x',
        b'{"data":{},"hasMore":false}',
        b'{"data":null,"hasMore":false}',
        b'{"data":[],"hasMore":"false"}',
        b'{"data":[]}',
        b'{"hasMore":false}',
        b'{"error":{"code":"x","message":"m","requestId":"r"}}',
    ],
)
def test_what_is_no_page_is_refused(text: bytes) -> None:
    """Anything but a page of cases is a protocol error, whatever is asked for on a bad case."""
    for on_error in ("raise", "report"):
        with pytest.raises(ProtocolError):
            read(text, on_error)


BAD: list[tuple[str, Document]] = [
    ("/items", {"items": None}),
    ("/items/0", {"items": [None]}),
    ("/items/0/key", {"items": [{**ITEM, "key": 5}]}),
    ("/items/0/yes", {"items": [{**ITEM, "yes": "1"}]}),
    ("/items/0/yes", {"items": [{**ITEM, "yes": 1.5}]}),
    ("/items/0/yes", {"items": [{**ITEM, "yes": 2**63}]}),
    ("/items/0/yes", {"items": [{**ITEM, "yes": True}]}),
    ("/items/0/yesWeight", {"items": [{**ITEM, "yesWeight": "1"}]}),
    ("/items/0/yesWeight", {"items": [{**ITEM, "yesWeight": None}]}),
    ("/items/0/yesWeight", {"items": [{**ITEM, "yesWeight": True}]}),
    (
        "/items/0/reasons/1/verdict",
        {"items": [{**ITEM, "reasons": [{"verdict": "yes", "reason": ""}, {"reason": ""}]}]},
    ),
    ("/items/0/correctionIds/0", {"items": [{**ITEM, "correctionIds": [None]}]}),
    ("/subject", {"subject": "agent"}),
    ("/subject/version", {"subject": {"kind": "agent", "id": "a"}}),
    ("/erased", {"erased": "true"}),
    ("/context/flow/steps", {"context": {"flow": {"calls": []}}}),
    ("/expect/decisions/verdict", {"expect": {"decisions": {}}}),
    ("/segments/0/value", {"segments": [{"key": "k", "value": 1}]}),
]


@pytest.mark.parametrize(("path", "members"), BAD)
def test_a_bad_field_is_named(path: str, members: Document) -> None:
    """A field that is missing or of the wrong type is an error that names case and field."""
    with pytest.raises(SchemaError) as caught:
        read(body({"caseId": "good"}, {"caseId": "a: b. Load with", **members}))
    assert (caught.value.case_id, caught.value.path) == ("a: b. Load with", path)
    assert f"field {path}" in str(caught.value)


@pytest.mark.parametrize(("path", "members"), BAD)
def test_a_bad_case_is_left_out_and_reported(path: str, members: Document) -> None:
    """With on_error="report" the other cases are read, and the report says what is wrong where."""
    batch, report = read(body({"caseId": "1"}, {"caseId": "a: b", **members}, {"caseId": "2", "new": 1}), "report")
    assert [case.caseId for case in batch.cases] == ["1", "2"]
    assert batch.extras == {1: {"/new": b"1"}}
    (bad,) = report.bad_cases
    assert (bad.case_id, bad.path) == ("a: b", path)
    assert bad.problem.lower().startswith(("expected", "the required", "integer", "number"))


def test_a_case_without_an_id_has_none() -> None:
    """A case whose id cannot be read is reported without one."""
    text = page([{**CASE, "caseId": 5}, {k: v for k, v in CASE.items() if k != "caseId"}])
    _, report = read(text, "report")
    assert report.bad_cases == [
        BadCase(None, "/caseId", "Expected `str`, got `int`"),
        BadCase(None, "/caseId", "the required member is missing"),
    ]
    with pytest.raises(SchemaError, match="without a readable caseId"):
        read(text)


def test_a_page_is_read_whole_or_not_at_all() -> None:
    """A page that is refused leaves neither cases nor counts behind."""
    batch, report = Batch(), PullReport()
    with pytest.raises(SchemaError):
        read_page(body({"new": 1}, {"items": 5}), Case, batch, report)
    assert (batch, report) == (Batch(), PullReport(careful_pages=1))


# ---------------------------------------------------------------- anything at all


@given(cases(plain=False, most=2), st.data())
@settings(deadline=None, max_examples=100)
def test_broken_bytes_give_cases_or_an_error_of_casekits(documents: list[Document], data: st.DataObject) -> None:
    """A page with bytes changed, lost or doubled gives a batch or a CasekitError, never another exception."""
    text = bytearray(page(documents, style=data.draw(st.integers(0, 5))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.binary(max_size=3) | st.sampled_from([b"null", b'"', b"[", b"\\ud800"])
        )
    for on_error in ("raise", "report"):
        message = ""
        try:
            batch, report = read(bytes(text), on_error)
        except CasekitError as error:
            message = str(error)
        else:
            assert on_error == "report" or not report.bad_cases
            assert isinstance(batch, Batch)
        assert len(message) <= 2000
