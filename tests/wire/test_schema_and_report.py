"""The data dictionary, and the report's own arithmetic."""

from __future__ import annotations

import msgspec
import pyarrow as pa
import pytest

from casekit.report import OTHER_PATHS, BadCase, PullReport
from casekit.schema import FORMAT_COLUMNS, JSON, TABLES, dictionary, empty_tables
from casekit.wire.text import last_case_id
from casekit.wire.times import time_of, time_text


def test_every_column_is_explained() -> None:
    """Each column has its meaning; one that may be missing says what that means, and only such a one."""
    rows = dictionary()
    assert len(rows) == sum(len(schema) for schema in TABLES.values())
    for row in rows:
        assert str(row["doc"]).endswith(".")
        assert bool(row["null"]) == row["nullable"]
        assert row["type"]


def test_columns_follow_the_house_rule() -> None:
    """Free JSON ends in _json, weights have a unit, and each table starts with the columns people group by."""
    for schema in TABLES.values():
        assert schema.names[:6] == [field.name for field in FORMAT_COLUMNS]
        assert len(set(schema.names)) == len(schema.names)
        for field in schema:
            assert (field.type == JSON) == field.name.endswith("_json")
            if pa.types.is_floating(field.type):
                assert field.metadata[b"unit"] == b"weight"
    assert {name: table.num_rows for name, table in empty_tables().items()} == dict.fromkeys(TABLES, 0)


def test_reports_add_up() -> None:
    """Two reports added have both counts; of request ids the first 1,000 stay."""
    one = PullReport(pages=1, cases=2, waited=0.5, request_ids=["r"] * 600, bad_cases=[BadCase("a", "/x", "p")])
    one.note_unknown(["/x"])
    other = PullReport(pages=2, cases=3, waited=1.5, request_ids=["s"] * 600, bad_cases=[BadCase("b", "/y", "q")])
    other.note_unknown(["/x", "/y"])
    other.note_odd(["/runId"])
    one.add(other)
    assert (one.pages, one.cases, one.waited) == (3, 5, 2.0)
    assert one.unknown_fields == {"/x": 2, "/y": 1}
    assert one.odd_values == {"/runId": 1}
    assert [bad.case_id for bad in one.bad_cases] == ["a", "b"]
    assert one.request_ids == ["r"] * 600 + ["s"] * 400
    one.note_request("t")
    other.note_request("t")
    other.note_request(None)
    assert len(one.request_ids) == 1000
    assert other.request_ids == ["s"] * 600 + ["t"]


def test_paths_without_end_are_counted_together() -> None:
    """After 1,000 paths new ones share a count; known ones keep theirs."""
    report = PullReport()
    report.note_unknown([*(f"/{n}" for n in range(1200)), "/0"])
    assert report.unknown_fields["/0"] == 2
    assert report.unknown_fields[OTHER_PATHS] == 200


def test_a_report_says_what_happened() -> None:
    """What did not happen is not said."""
    assert str(PullReport()) == "0 cases on 0 pages (0.0 MB)"
    report = PullReport(pages=2, cases=1200, erased=1, duplicates=2, retries=3, waited=4.5, restarts=1, bytes=2_500_000)
    report.note_unknown(["/x"])
    report.note_odd(["/y"])
    report.replaced_characters = 7
    report.bad_cases.append(BadCase("a", "/x", "p"))
    assert str(report) == (
        "1,200 cases on 2 pages (2.5 MB); 1 erased; 2 came twice; 3 retries, 4.5 s waited; begun again 1 x; "
        "1 unknown fields kept; 1 odd values kept; 7 lone surrogates replaced; 1 unreadable cases left out"
    )


def test_a_report_comes_back_from_json() -> None:
    """A report is the same after it has been JSON; one of the wrong types is refused."""
    report = PullReport(pages=1, request_ids=["r"], bad_cases=[BadCase(None, "", "p")])
    report.note_unknown(["/x", "/x"])
    values = msgspec.json.decode(msgspec.json.encode(report.to_dict()))
    assert PullReport.from_dict(values) == report
    assert PullReport.from_dict({**values, "later": 1}) == report
    for bad in ({"pages": "1"}, {"unknown_fields": {"/x": "1"}}, {"bad_cases": [1]}, {"request_ids": None}):
        with pytest.raises(msgspec.ValidationError):
            PullReport.from_dict({**values, **bad})


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (b"", None),
        (b'{"data":[', None),
        (b'{"data":[{"caseId"', None),
        (b'{"data":[{"caseId":', None),
        (b'{"data":[{"caseId":"a', None),
        (b'{"data":[{"caseId" : "a"', "a"),
        (b'{"data":[{"id":"a","kind":"hand","expect":{"id":"x"}', "a"),
        (b'{"data":[{"caseId":"a"},', None),
        (b'{"data":[{"caseId":"a"},{"output":1', None),
        (b'{"data":[{"output":{"caseId":"x"},"caseId":"b\\"\\u0041"', 'b"A'),
        (b'{"data":[{"runId":"caseId","input":["caseId","x"]', None),
        (b'{"data":[{"caseId":{"a":"b"},"x":"y"', None),
        (b']]]}"caseId":"x"', None),
        (b'{"data":[{"caseId":"\\q"', None),
    ],
)
def test_the_case_a_page_breaks_off_in(start: bytes, expected: str | None) -> None:
    """The id of the case is found where it came before the break, at its own level alone."""
    assert last_case_id(start) == expected


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2025-01-02T03:04:05Z", "2025-01-02T03:04:05Z"),
        ("2025-01-02t03:04:05z", "2025-01-02T03:04:05Z"),
        ("2025-01-02T03:04:05.1Z", "2025-01-02T03:04:05.100Z"),
        ("2025-01-02T03:04:05.000001Z", "2025-01-02T03:04:05.000001Z"),
        ("2025-01-02T03:04:05.9999999Z", "2025-01-02T03:04:05.999999Z"),
        ("2025-01-02T03:04:05+01:00", "2025-01-02T02:04:05Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59-00:01", None),
        ("2025-01-02T03:04:05", None),
        ("", None),
    ],
)
def test_times_as_they_are_usually_written(text: str, written: str | None) -> None:
    """A time is written in UTC with 0, 3 or 6 digits; a text that is none gives none."""
    value = time_of(text)
    assert (None if value is None else time_text(value)) == written
