"""CSV for a spreadsheet: exact for who reads it, and nothing in it that is computed."""

from __future__ import annotations

import csv
import errno
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from documents_strategy import cases, page
from export.texts import BEFORE, SAFE, STARTS, TEXTS, computed, undone
from hypothesis import given, settings
from hypothesis import strategies as st

from casekit import export, files
from casekit.caseset import CaseSet
from casekit.errors import ConfigError, SnapshotBusyError, SnapshotError
from casekit.export import ExportReport, write_csv
from casekit.report import PullReport
from casekit.schema import TABLES
from casekit.wire import Reader, joined

Made = Callable[..., CaseSet]


def rows(path: Path) -> list[dict[str, str]]:
    """The rows of a file, as Python's own reader sees them."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))


def quiet(write: Callable[[], ExportReport]) -> ExportReport:
    """Write without the warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return write()


# ---------------------------------------------------------------- cells


def test_no_rows_are_a_header(made: Made, tmp_path: Path) -> None:
    """An empty table has its header alone, and nothing to report."""
    for table, schema in TABLES.items():
        report = made().to_csv(tmp_path / f"{table}.csv", table=table)
        header = ",".join(f'"{name}"' for name in schema.names) + "\r\n"
        assert (tmp_path / f"{table}.csv").read_bytes() == header.encode()
        assert (report.rows, report.changes()) == ({table: 0}, "")


def test_missing_and_empty_stay_apart(made: Made, tmp_path: Path) -> None:
    """A missing value is nothing between two commas, an empty text is two quotes, an empty list is a list."""
    item = {"key": "", "yes": 0, "no": 0, "yesWeight": 0, "totalWeight": 0, "reasons": [], "correctionIds": []}
    some = made({"caseId": "c", "subject": {"kind": "agent", "id": "a", "version": "1"}, "input": None, "output": None,
                 "items": [item]})  # fmt: skip
    some.to_csv(tmp_path / "items.csv")
    line = (tmp_path / "items.csv").read_bytes().split(b"\r\n")[1].decode()
    assert line == '"acme.a","1.0.0","c","agent","a","1",,0,"",,,0,0,0,0,,,"[]",'
    read = f"select key, pointer from read_csv('{tmp_path}/items.csv', allow_quoted_nulls=false, nullstr='')"
    assert duckdb.execute(read).fetchall() == [("", None)]


@given(st.lists(TEXTS, min_size=1, max_size=5))
@settings(deadline=None, max_examples=30)
def test_unsafe_is_exact(texts: list[str]) -> None:
    """With safe=False every text stands in the file as it is, and nothing is reported."""
    table = pa.table({"t": pa.array(texts)})
    with tempfile.TemporaryDirectory() as folder:
        report = write_csv("t", table, Path(folder) / "t.csv", safe=False)
        assert [row["t"] for row in rows(Path(folder) / "t.csv")] == texts
    assert report.changes() == ""


def test_numbers_stay_numbers(made: Made, tmp_path: Path) -> None:
    """Negative, large and long numbers are written to the last digit, without quotes or apostrophes."""
    item = {"key": "k", "yes": 2**63 - 1, "no": -5, "yesWeight": 0.1 + 0.2, "totalWeight": 1e22, "reasons": []}
    document = {"caseId": "c", "subject": {"kind": "agent", "id": "a", "version": "1"}, "input": None, "output": None,
                "items": [{**item, "rank": -1}], "expert": False}  # fmt: skip
    some = made(document)
    assert some.to_csv(tmp_path / "items.csv").changes() == ""
    line = (tmp_path / "items.csv").read_bytes().split(b"\r\n")[1].decode()
    assert f",-1,{2**63 - 1},-5,0.30000000000000004,1e+22," in line
    assert pd.read_csv(tmp_path / "items.csv")[["yes", "no", "rank"]].to_numpy().tolist() == [[2**63 - 1, -5, -1]]
    some.to_csv(tmp_path / "cases.csv", table="cases")
    assert rows(tmp_path / "cases.csv")[0]["expert"] == "false"


def test_times_lists_and_json_are_text(made: Made, tmp_path: Path) -> None:
    """Times are ISO 8601 in UTC; lists and free JSON are JSON that reads back."""
    by = {"kind": "user", "id": "reviewer-1"}
    expect = {"decisions": {"verdict": "wrong", "mustNotCall": ['a"b', "é,\n"]}}
    document = {"id": "x", "kind": "hand", "projectId": "p", "runId": "r", "madeOn": "1", "expect": expect,
                "addedBy": by, "addedAt": "2025-01-02T03:04:05.678+02:00", "updatedAt": "2025-01-02T03:04:05Z",
                "new": {"a": [1, None]}}  # fmt: skip
    CaseSet(joined(Reader.agent("a", PullReport()).groups([page([document])]))).to_csv(tmp_path / "c.csv", "cases")
    [row] = rows(tmp_path / "c.csv")
    assert row["added_at"] == "2025-01-02T01:04:05.678000Z"
    assert pd.Timestamp(row["updated_at"]) == pd.Timestamp("2025-01-02T03:04:05Z")
    assert json.loads(row["must_not_call"]) == ['a"b', "é,\n"]
    assert json.loads(row["extra_json"])["/new"] == {"a": [1, None]}
    assert row["retired"] == "false"


ATTACKS = [
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "=cmd|' /C calc'!A0",
    '=HYPERLINK("http://example.invalid","x")',
    "＝1",
    "－1",
    " =1",
    "'=1",
    '"=1',
    "\u00a0\u200b\ufeff=1",
    "''''@x",
    "“−1”",
    "- a list\n- of points",
    "\ttext",
    "<r><t>x</t></r>",
]


@pytest.mark.parametrize("text", ATTACKS)
def test_what_looks_like_a_formula_gets_an_apostrophe(said: Made, tmp_path: Path, text: str) -> None:
    """The text stands behind one apostrophe, the report counts it, and a warning says so where it was written."""
    message = "1 text that a spreadsheet could compute got an apostrophe in front"
    with pytest.warns(UserWarning, match=f"{message}$") as caught:
        report = said(text, "plain").to_csv(tmp_path / "r.csv", table="reasons")
    assert caught[0].filename == __file__
    assert [row["reason"] for row in rows(tmp_path / "r.csv")] == ["'" + text, "plain"]
    assert (report.formulas, report.replaced_characters, report.cut_texts) == (1, 0, 0)
    assert text not in str(caught[0].message)


@pytest.mark.parametrize(
    "text", ["a=1", "1-1", "(=1)", "", "'", "''", " ", "a\n=1", "[-1]", "#N/A", "%x", "\\=1", "r>", "é-"]
)
def test_other_texts_are_left_alone(said: Made, tmp_path: Path, text: str) -> None:
    """What no spreadsheet computes is written as it is, and no warning is given."""
    report = said(text).to_csv(tmp_path / "r.csv", table="reasons")
    assert rows(tmp_path / "r.csv")[0]["reason"] == text
    assert report.formulas == 0


def test_a_url_is_no_file(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL must be refused, and not become a folder of that name here."""
    monkeypatch.chdir(tmp_path)
    for export_to in (made("c1").to_csv, made("c1").to_excel):
        with pytest.raises(ConfigError, match="an export is written on this machine: give a path"):
            export_to("s3://bucket/items.csv")
    assert list(tmp_path.iterdir()) == []


def test_names_of_columns_are_made_safe_too(tmp_path: Path) -> None:
    """A header is a cell like any other."""
    with pytest.warns(UserWarning, match="2 texts"):
        write_csv("t", pa.table({"=a": ["@x"], 'b"': ["y"]}), tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_bytes() == b'"\'=a","b"""\r\n"\'@x","y"\r\n'


@settings(max_examples=60, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=20))
def test_no_text_is_computed_and_none_is_lost(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    """Whatever people write, no cell starts like a formula, and each text comes back without its apostrophe."""
    path = tmp_path_factory.getbasetemp() / "texts.csv"
    report = quiet(lambda: write_csv("t", pa.table({"text": texts}), path))
    with path.open(encoding="utf-8", newline="") as file:
        cells = [row[0] for row in csv.reader(file, strict=True)][1:]
    assert [undone(cell) for cell in cells] == texts
    for cell, text in zip(cells, texts, strict=True):
        assert cell[:1] == "'" or not computed(cell)
        assert cell == text or cell == "'" + text
    assert report.formulas == sum(cell != text for cell, text in zip(cells, texts, strict=True))
    assert report.formulas >= sum(map(computed, texts))


def test_every_start_behind_every_character_that_is_passed_over(tmp_path: Path) -> None:
    """Each sign that starts a formula is found, alone and behind each character a spreadsheet may pass over."""
    texts = [before + start + "1" for start in STARTS for before in ["", *BEFORE]]
    report = quiet(lambda: write_csv("t", pa.table({"text": texts}), tmp_path / "t.csv"))
    assert report.formulas == len(texts)


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(st.none() | SAFE, min_size=1, max_size=20))
def test_pandas_and_duckdb_read_safe_text_exactly(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str | None]
) -> None:
    """Text that is no formula, and no text at all, come back as they were in both."""
    path = tmp_path_factory.getbasetemp() / "safe.csv"
    write_csv("t", pa.table({"n": range(len(texts)), "text": pa.array(texts, pa.string())}), path)
    frame = pd.read_csv(path, keep_default_na=False, na_values=[""], dtype={"text": object})
    assert [None if value is np.nan else value for value in frame["text"]] == texts
    columns = "{'n': 'BIGINT', 'text': 'VARCHAR'}"
    read = f"from read_csv('{path}', header=true, delim=',', quote='\"', escape='\"', columns={columns}) order by n"
    assert [row[1] for row in duckdb.execute(read).fetchall()] == texts


@settings(max_examples=10, deadline=None)
@given(documents=cases(plain=False, most=2))
def test_every_table_of_any_cases_is_whole(tmp_path_factory: pytest.TempPathFactory, documents: list[Any]) -> None:
    """Each table of whatever a server sends has all rows and columns, and no cell of text is computed."""
    path = tmp_path_factory.getbasetemp() / "any.csv"
    some = CaseSet(joined(Reader.corrections("a", "1", PullReport()).groups([page(documents)])))
    for table, schema in TABLES.items():
        quiet(lambda table=table: some.to_csv(path, table=table))  # type: ignore[misc]
        found = rows(path)
        assert len(found) == some.arrow(table).num_rows
        for row in found:
            assert list(row) == schema.names
            for name, cell in row.items():
                number = pa.types.is_integer(schema.field(name).type) or pa.types.is_floating(schema.field(name).type)
                assert not computed(cell) or cell[0] == "'" or (number and float(cell) < 0)


def test_batches_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the rows are cut into batches and chunks, the file is the same."""
    table = pa.table({"n": range(25), "text": [f'"{n}' for n in range(25)]})
    write_csv("t", table, tmp_path / "one.csv")
    monkeypatch.setattr(export, "BATCH_ROWS", 4)
    write_csv("t", pa.concat_tables([table.slice(0, 7), table.slice(7, 0), table.slice(7)]), tmp_path / "two.csv")
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "two.csv").read_bytes()


# ---------------------------------------------------------------- refused, and failed


def test_a_table_that_is_not_there(made: Made, tmp_path: Path) -> None:
    """A misspelt table is named with the nearest one, and nothing is made."""
    with pytest.raises(ConfigError, match="did you mean 'items'"):
        made("a").to_csv(tmp_path / "x.csv", table="item")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none_are_refused(tmp_path: Path, value: float) -> None:
    """A weight that is not finite, which no server sends and no spreadsheet holds, is named; missing is fine."""
    table = pa.table({"weight": pa.array([None, value], pa.float64(), from_pandas=False)})
    with pytest.raises(ConfigError, match=r"^t\.weight holds a number that is not finite"):
        write_csv("t", table, tmp_path / "x.csv")
    assert list(tmp_path.iterdir()) == []
    write_csv("t", table.slice(0, 1), tmp_path / "x.csv")


def test_a_place_that_is_no_file(made: Made, tmp_path: Path) -> None:
    """A folder or a device is refused and left as it is; folders on the way are made."""
    with pytest.raises(ConfigError, match="is no file: give the name of a file to make"):
        made("a").to_csv(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="is no file"):
        made("a").to_csv(tmp_path / "pipe")
    made("a").to_csv(tmp_path / "new" / "folder" / "x.csv")
    assert len(rows(tmp_path / "new" / "folder" / "x.csv")) == 1
    with pytest.raises(SnapshotError, match="What stood there before stands"):
        made("a").to_csv(tmp_path / "new" / "folder" / "x.csv" / "y.csv")


def test_a_link_stays_a_link(made: Made, tmp_path: Path) -> None:
    """Where a link stands, the file that it leads to is replaced."""
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    made("a").to_csv(tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert len(rows(tmp_path / "real.csv")) == 1


@pytest.mark.parametrize("step", ["os.fsync", "os.replace", "_lines"])
def test_a_failure_leaves_the_old_file(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """When the disk is full at any step, the old file stands to the byte and nothing lies beside it."""
    made("a").to_csv(tmp_path / "x.csv")
    before = (tmp_path / "x.csv").read_bytes()

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "x")

    monkeypatch.setattr(f"casekit.export.{step}", full)
    with pytest.raises(SnapshotError, match=r"x\.csv: No space left on device\. What stood there before stands$"):
        made("b").to_csv(tmp_path / "x.csv")
    monkeypatch.undo()
    assert (tmp_path / "x.csv").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]
    made("b").to_csv(tmp_path / "x.csv")
    assert [row["case_id"] for row in rows(tmp_path / "x.csv")] == ["b"]


def test_two_writers_do_not_mix(made: Made, tmp_path: Path) -> None:
    """While somebody writes the file, another is told to wait."""
    lock = files.locked(tmp_path / "x.csv")
    try:
        with pytest.raises(SnapshotBusyError, match="is being written by someone else"):
            made("a").to_csv(tmp_path / "x.csv")
    finally:
        lock.release()
    made("a").to_csv(tmp_path / "x.csv")


def test_a_killed_writer_leaves_the_old_file_and_the_next_cleans_up(made: Made, tmp_path: Path) -> None:
    """Killed while it writes, a process leaves the old file; what people said in its half file goes with the next."""
    made("a").to_csv(tmp_path / "x.csv")
    before = (tmp_path / "x.csv").read_bytes()
    script = textwrap.dedent(
        """
        import os, signal, sys
        import pyarrow as pa
        from casekit import export
        export.os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        export.write_csv("t", pa.table({"text": ["WORDS"]}), sys.argv[1])
        """
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "x.csv")], check=False)
    assert done.returncode == -9
    assert (tmp_path / "x.csv").read_bytes() == before
    assert any(b"WORDS" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    made("b").to_csv(tmp_path / "x.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]
