"""A snapshot is what was written: tables, schema, source, report, and the hash of the cases."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from documents_strategy import Document, agent_cases, cases, page, pages, served
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from casekit.caseset import CaseSet
from casekit.errors import SnapshotError
from casekit.report import BadCase, PullReport
from casekit.schema import TABLES
from casekit.snapshot import read_snapshot, snapshot_info, verify_snapshot, write_snapshot
from casekit.snapshots import parquet, stored
from casekit.snapshots.writer import SnapshotWriter
from casekit.source import LeftOut, Source
from casekit.wire import Reader, case_digests, content_hash, joined

ROOT = Path(__file__).parents[2]
Made = Callable[..., CaseSet]


def equal(one: CaseSet, other: CaseSet) -> None:
    """Two CaseSets have the same tables, schema and metadata included."""
    for name in TABLES:
        assert one.arrow(name).schema.equals(other.arrow(name).schema, check_metadata=True)
        assert one.arrow(name).equals(other.arrow(name))


def test_what_is_read_is_what_was_written(made: Made, tmp_path: Path) -> None:
    """Tables, source, report and left-out counts come back; the folder is noted."""
    given_cases = made("a", "b", "c").where([True, False, True])
    written = write_snapshot(given_cases, tmp_path / "s")
    found = read_snapshot(tmp_path / "s")
    equal(found, given_cases)
    assert found.source == Source(
        test_sets=(("acme.a", "1.0.0"),),
        origin="http://127.0.0.1:8765",
        fetched_at=given_cases.source.fetched_at,
        folders=(str(tmp_path / "s"),),
    )
    assert found.report == given_cases.report
    assert found.left_out == given_cases.left_out == (LeftOut("where", 1, 1),)
    assert snapshot_info(tmp_path / "s") == written == verify_snapshot(tmp_path / "s")
    assert (written.rows("cases"), written.rows("items")) == (2, 2)
    assert written.title() == "acme.a 1.0.0"


def test_the_folder_holds_tables_and_manifest(made: Made, tmp_path: Path) -> None:
    """There is one Parquet file per table and the manifest, and nothing else in or beside the folder."""
    write_snapshot(made("a"), tmp_path / "deep" / "down" / "s")
    assert {p.name for p in (tmp_path / "deep" / "down" / "s").iterdir()} == {f"{t}.parquet" for t in TABLES} | {
        "snapshot.json"
    }
    assert [p.name for p in (tmp_path / "deep" / "down").iterdir()] == ["s"]


def test_an_empty_set_is_a_snapshot(made: Made, tmp_path: Path) -> None:
    """No case at all is kept and read as such, with all columns."""
    write_snapshot(made(), tmp_path / "s")
    found = read_snapshot(tmp_path / "s")
    equal(found, made())
    assert len(found) == 0
    assert found.items.columns.tolist() == TABLES["items"].names
    assert list(found.tables) == list(TABLES)
    assert len(found.tables) == len(TABLES)
    verify_snapshot(tmp_path / "s")


@pytest.mark.parametrize(
    "bodies",
    [
        sorted((ROOT / "data" / "mtbench").glob("page-*.json")),
        [ROOT / "tests" / "data" / "served" / "rag24.json"],
        [ROOT / "tests" / "data" / "served" / "tau_airline.json"],
    ],
    ids=["mtbench", "rag24", "tau_airline"],
)
def test_real_cases_come_back(bodies: list[Path], tmp_path: Path) -> None:
    """Public data are the same after they have been Parquet, schema and documents included."""
    texts = [path.read_bytes() for path in bodies]
    report = PullReport()
    tables = joined(Reader.corrections("real", "1.0.0", report).groups(texts))
    written = CaseSet(tables, Source(test_sets=(("real", "1.0.0"),)), report)
    write_snapshot(written, tmp_path / "s")
    found = read_snapshot(tmp_path / "s")
    equal(found, written)
    assert list(found.documents()) == served(texts)
    verify_snapshot(tmp_path / "s")


@given(cases(plain=False), st.booleans())
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_cases_come_back(tmp_path: Path, given_cases: list[Document], rows: bool) -> None:
    """Generated cases of every kind come back, also when row groups are small."""
    report = PullReport()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "ROW_GROUP_ROWS", 1 if rows else 25_000)
        with SnapshotWriter(tmp_path / "s") as writing:
            tables = []
            for group in Reader.corrections("acme.a", "1.0.0", report).groups(pages(given_cases, 1)):
                tables.append(group)
                writing.add(group)
            writing.finish(Source(test_sets=(("acme.a", "1.0.0"),)), report)
    equal(read_snapshot(tmp_path / "s"), CaseSet(joined(tables)))
    verify_snapshot(tmp_path / "s")


@given(agent_cases(plain=False))
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_agent_cases_come_back(tmp_path: Path, given_cases: list[Document]) -> None:
    """The same for an agent's live test set."""
    report = PullReport()
    tables = joined(Reader.agent("acme.agent", report).groups([page(given_cases)]))
    write_snapshot(CaseSet(tables, Source(agent_id="acme.agent"), report), tmp_path / "s")
    found = read_snapshot(tmp_path / "s")
    equal(found, CaseSet(tables))
    assert found.source.agent_id == "acme.agent"
    verify_snapshot(tmp_path / "s")


@pytest.mark.parametrize("group_rows", [1, 2, 7])
def test_the_content_hash_knows_no_grouping(
    made: Made, tmp_path: Path, group_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same cases in another order, other groups and other row groups have the same content hash."""
    expected = write_snapshot(made(*"abcdefg"), tmp_path / "one").content_hash
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", group_rows)
    with SnapshotWriter(tmp_path / "two") as writing:
        for case_id in "gfedcba":
            writing.add(made(case_id).tables)  # type: ignore[arg-type]
        found = writing.finish(Source(test_sets=(("acme.a", "1.0.0"),)), PullReport())
    assert found.content_hash == expected
    assert pq.ParquetFile(tmp_path / "two" / "cases.parquet").num_row_groups == -(-7 // group_rows)
    assert write_snapshot(made(*"abcdef"), tmp_path / "three").content_hash != expected


def test_many_rows_make_several_row_groups(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A CaseSet that is written at once has row groups of a bounded size too."""
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", 2)
    write_snapshot(made(*"abcdefg"), tmp_path / "s")
    metadata = pq.read_metadata(tmp_path / "s" / "cases.parquet")
    assert [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)] == [4, 3]
    equal(read_snapshot(tmp_path / "s"), made(*"abcdefg"))


def test_tables_out_of_order_are_not_kept(made: Made, tmp_path: Path) -> None:
    """Tables made by hand whose rows are not in the order of their cases are refused."""
    tables = dict(made("a", "b").tables)
    tables["items"] = tables["items"].take(pa.array([1, 0]))
    with pytest.raises(SnapshotError, match="cannot be written: rows of items are of no case, or not in the order"):
        write_snapshot(CaseSet(tables), tmp_path / "s")
    assert list(tmp_path.iterdir()) == []


def test_the_report_comes_back(made: Made, tmp_path: Path) -> None:
    """What the load met is kept: unknown fields, bad cases and all."""
    report = PullReport(pages=3, retries=1, waited=1.5, replaced_characters=2, careful_pages=1, request_ids=["r-1"])
    report.note_unknown(["/x", "/x", "page:/y"])
    report.absent_fields["/runId"] += 4
    report.bad_cases += [BadCase("a", "/items", "expected an array"), BadCase(None, "", "expected an object")]
    cases_ = made("a")
    write_snapshot(CaseSet(cases_.tables, cases_.source, report), tmp_path / "s")
    assert read_snapshot(tmp_path / "s").report == report
    report.request_ids.append("\ud800")
    write_snapshot(CaseSet(cases_.tables, cases_.source, report), tmp_path / "s")
    assert read_snapshot(tmp_path / "s").report.request_ids == ["r-1", "?"]


def test_a_replaced_snapshot_is_replaced_whole(made: Made, tmp_path: Path, bytes_of: Any) -> None:
    """A snapshot that stands there gives way to the new one, and no byte of it is left."""
    write_snapshot(made({**made("a").case("a"), "output": "OLDWORDS"}), tmp_path / "s")
    assert b"OLDWORDS" in bytes_of(tmp_path)["s/cases.parquet"]
    write_snapshot(made("b"), tmp_path / "s")
    assert read_snapshot(tmp_path / "s").cases["case_id"].tolist() == ["b"]
    assert not any(b"OLDWORDS" in text for text in bytes_of(tmp_path).values())


def test_a_snapshot_may_be_written_over_itself(made: Made, tmp_path: Path) -> None:
    """A CaseSet that is read from a folder can be filtered and written to the same folder."""
    write_snapshot(made("a", "b"), tmp_path / "s")
    found = read_snapshot(tmp_path / "s")
    write_snapshot(found.where([True, False]), tmp_path / "s")
    assert len(read_snapshot(tmp_path / "s")) == 1
    assert len(found) == 2


def test_what_was_opened_stays_readable(made: Made, tmp_path: Path) -> None:
    """Tables that were not read yet are those that stood there when the snapshot was opened."""
    write_snapshot(made("a", "b"), tmp_path / "s")
    found = read_snapshot(tmp_path / "s")
    write_snapshot(made("c"), tmp_path / "s")
    assert found.items["case_id"].tolist() == ["a", "b"]


def test_nothing_of_the_machine_is_inside(made: Made, tmp_path: Path, bytes_of: Any) -> None:
    """Neither the folder's path nor the user's name nor a token is in any file."""
    folder = tmp_path / "PATHMARK" / "s"
    write_snapshot(made("a"), folder)
    for text in bytes_of(folder).values():
        assert b"PATHMARK" not in text
        assert str(Path.home()).encode() not in text or str(Path.home()) == "/"
        assert b"token" not in text.lower()
        assert b"Bearer" not in text


def test_words_stand_in_no_footer(made: Made, tmp_path: Path) -> None:
    """Column statistics have no one's words."""
    words = {"expect": {"answer": {"verdict": "wrong", "shouldSay": "WORDS", "why": "WORDS"}}, "output": "WORDS"}
    item = {
        "key": "k",
        "yes": 1,
        "no": 0,
        "yesWeight": 1,
        "totalWeight": 1,
        "reasons": [{"verdict": "no", "reason": "WORDS"}],
    }
    write_snapshot(made({**made("a").case("a"), **words, "items": [item]}), tmp_path / "s")
    for name in TABLES:
        metadata = pq.read_metadata(tmp_path / "s" / f"{name}.parquet")
        for group in range(metadata.num_row_groups):
            for column in range(metadata.num_columns):
                statistics = metadata.row_group(group).column(column).statistics
                if statistics is not None and statistics.has_min_max:
                    assert "WORDS" not in (statistics.min, statistics.max)


def test_other_libraries_open_the_files(made: Made, tmp_path: Path) -> None:
    """Pandas, DuckDB and polars read cases and items without casekit, and find the same."""
    import duckdb
    import pandas as pd
    import polars as pl

    written = made({**made("a").case("a"), "runId": "r", "items": made("a").case("a")["items"] * 2}, "b")
    write_snapshot(written, tmp_path / "s")
    for name in ("cases", "items"):
        path = tmp_path / "s" / f"{name}.parquet"
        expected = written.arrow(name)
        frame = pd.read_parquet(path)
        assert frame["case_id"].tolist() == expected["case_id"].to_pylist()
        polars_frame = pl.read_parquet(path)
        assert polars_frame["case_id"].to_list() == expected["case_id"].to_pylist()
        assert polars_frame.columns == expected.column_names
        with duckdb.connect() as connection:
            rows = connection.execute(f"select case_id, version from '{path}'").fetchall()
        assert rows == list(zip(expected["case_id"].to_pylist(), expected["version"].to_pylist(), strict=True))
    path = tmp_path / "s" / "cases.parquet"
    with duckdb.connect() as connection:
        assert connection.execute(f"select cast(input_json->>'n' as integer) from '{path}'").fetchall() == [(1,), (1,)]
    assert pl.read_parquet(path)["output_json"].to_list() == ['"words"', '"words"']
    assert pd.read_parquet(path)["output_json"].tolist() == ['"words"', '"words"']


# ---------------------------------------------------------------- several together


def test_older_and_newer_servers_are_read_together(made: Made, tmp_path: Path) -> None:
    """A version without run ids and expert weights and one with them make one CaseSet, what is unknown missing."""
    plain = made("a").case("a")
    item = {**plain["items"][0], "expert": {"yesWeight": 1, "totalWeight": 1}, "correctionIds": ["c"]}
    newer = {**plain, "runId": "r", "items": [item], "expert": True}
    write_snapshot(made(plain, version="1.0.0"), tmp_path / "old")
    write_snapshot(made(newer, version="2.0.0"), tmp_path / "new")
    found = read_snapshot([tmp_path / "old", tmp_path / "new"])
    assert found.items["version"].tolist() == ["1.0.0", "2.0.0"]
    assert found.items["expert_total_weight"].isna().tolist() == [True, False]
    assert found.cases["run_id"].isna().tolist() == [True, False]
    assert list(found.documents()) == [plain, newer]
    assert found.case("a", version="2.0.0") == newer
    assert found.source.test_sets == (("acme.a", "1.0.0"), ("acme.a", "2.0.0"))
    assert found.report.cases == 2


def test_a_list_a_pattern_and_a_parent_folder(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several snapshots are named by a list, a pattern or the folder they stand in, and give the same."""
    for version in ("1.0.0", "2.0.0", "3.0.0"):
        write_snapshot(made("a", version=version), tmp_path / f"acme-{version}")
    (tmp_path / "notes.txt").write_text("not a snapshot")
    (tmp_path / "empty").mkdir()
    by_list = read_snapshot([tmp_path / f"acme-{v}.0.0" for v in (1, 2, 3)])
    for found in (read_snapshot(tmp_path), read_snapshot(str(tmp_path / "acme-*"))):
        equal(found, by_list)
        assert found.source == by_list.source
    monkeypatch.chdir(tmp_path)
    equal(read_snapshot("acme-*"), by_list)
    assert read_snapshot([Path("acme-3.0.0"), "acme-1.0.0"]).cases["version"].tolist() == ["3.0.0", "1.0.0"]


def test_a_folder_with_signs_of_a_pattern_is_a_folder(made: Made, tmp_path: Path) -> None:
    """A folder whose name looks like a pattern is opened by its name."""
    write_snapshot(made("a"), tmp_path / "a[1]*")
    assert len(read_snapshot(tmp_path / "a[1]*")) == 1


def test_the_same_set_twice_is_refused(made: Made, live: Made, tmp_path: Path) -> None:
    """A test set and version that comes twice would count double, also as one of several in a snapshot."""
    write_snapshot(made("a"), tmp_path / "one")
    write_snapshot(made("b"), tmp_path / "two")
    with pytest.raises(SnapshotError, match=r"acme\.a 1\.0\.0 comes twice"):
        read_snapshot([tmp_path / "one", tmp_path / "two"])
    with pytest.raises(SnapshotError, match="comes twice"):
        read_snapshot([tmp_path / "one", tmp_path / "one"])
    both = CaseSet(
        joined([made("a").tables, made("c", version="2.0.0").tables]),  # type: ignore[list-item]
        Source(test_sets=(("acme.a", "1.0.0"), ("acme.a", "2.0.0"))),
    )
    write_snapshot(both, tmp_path / "both")
    assert len(read_snapshot(tmp_path / "both")) == 2
    with pytest.raises(SnapshotError, match=r"acme\.a 1\.0\.0 comes twice"):
        read_snapshot([tmp_path / "both", tmp_path / "one"])
    for name in ("x", "y"):
        write_snapshot(live("acme.agent", name), tmp_path / name)
    with pytest.raises(SnapshotError, match=r"live test set of acme\.agent comes twice"):
        read_snapshot([tmp_path / "x", tmp_path / "y"])


def test_two_agents_may_have_the_same_case_ids(live: Made, tmp_path: Path) -> None:
    """Live test sets of two agents are read together, their cases told apart."""
    write_snapshot(live("acme.x", "case-1", "case-2"), tmp_path / "x")
    write_snapshot(live("acme.y", "case-1"), tmp_path / "y")
    found = read_snapshot([tmp_path / "x", tmp_path / "y"])
    assert len(found) == 3
    assert [document["id"] for document in found.documents()] == ["case-1", "case-2", "case-1"]
    assert "live test sets of acme.x, acme.y" in repr(found)
    with pytest.raises(KeyError, match="several live test sets"):
        found.case("case-1")
    assert found.case("case-2")["id"] == "case-2"


def test_many_snapshots_do_not_use_up_the_open_files(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many snapshots, the tables are read at once and the files closed; the CaseSet is the same."""
    for n in range(3):
        write_snapshot(made(f"c{n}", version=f"{n}.0.0"), tmp_path / str(n))
    expected = read_snapshot(tmp_path)
    monkeypatch.setattr(stored, "FOLDERS_OPEN", 2)
    opened = len(os.listdir("/dev/fd"))
    found = read_snapshot(tmp_path)
    assert len(os.listdir("/dev/fd")) == opened
    equal(found, expected)


def test_no_snapshot_at_all_is_an_error(tmp_path: Path) -> None:
    """A list of nothing, a pattern without a match, a folder without snapshots, a file, a path that is not there."""
    (tmp_path / "file").write_text("x")
    given_paths: list[tuple[Any, str]] = [
        ([], "no snapshot was given"),
        (str(tmp_path / "x-*"), "no snapshot matches"),
        (tmp_path, "has no snapshot.json"),
        (tmp_path / "file", "is no folder"),
        (tmp_path / "nowhere", "does not exist"),
        ([tmp_path / "nowhere"], "does not exist"),
    ]
    for path, message in given_paths:
        with pytest.raises(SnapshotError, match=message):
            read_snapshot(path)


def test_the_manifest_is_plain_json(made: Made, tmp_path: Path) -> None:
    """The manifest says in plain JSON what the format's description says it does."""
    written = write_snapshot(made("a"), tmp_path / "s")
    manifest = json.loads((tmp_path / "s" / "snapshot.json").read_bytes())
    assert list(manifest) == [
        "format",
        "format_version",
        "test_sets",
        "agent_id",
        "origin",
        "fetched_at",
        "casekit",
        "content_hash",
        "files",
        "report",
        "left_out",
    ]
    assert (manifest["format"], manifest["format_version"]) == ("casekit-snapshot", 1)
    assert manifest["test_sets"] == [{"test_set_id": "acme.a", "version": "1.0.0"}]
    assert manifest["fetched_at"] == "2025-01-02T03:04:05.678901Z"
    assert re.fullmatch("[0-9a-f]{64}", manifest["content_hash"])
    assert set(manifest["files"]) == {f"{name}.parquet" for name in TABLES}
    assert written.fetched_at == datetime(2025, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def test_a_set_without_a_time_gets_one(made: Made, tmp_path: Path) -> None:
    """A CaseSet that was never fetched is dated when it is written."""
    before = datetime.now(UTC)
    written = write_snapshot(CaseSet(made("a").tables, Source(test_sets=(("acme.a", "1.0.0"),))), tmp_path / "s")
    assert before <= written.fetched_at <= datetime.now(UTC)


def test_the_hash_in_the_manifest_is_of_the_cases(made: Made, tmp_path: Path) -> None:
    """The content hash is the hash over the cases' digests."""
    cases_ = made("a", "b")
    written = write_snapshot(cases_, tmp_path / "s")
    assert written.content_hash == content_hash(case_digests(dict(cases_.tables)))
    assert isinstance(cases_.arrow("cases"), pa.Table)
