"""A workbook: one sheet per table, text as text, numbers as numbers, and not one formula or link."""

from __future__ import annotations

import errno
import re
import sys
import warnings
import zipfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import openpyxl
import pandas as pd
import pyarrow as pa
import pytest
from documents_strategy import cases, page
from export.texts import TEXTS, computed, undone
from hypothesis import given, settings
from hypothesis import strategies as st

from casekit import export
from casekit.caseset import CaseSet
from casekit.errors import ConfigError, MissingExtraError, SnapshotError
from casekit.export import ExportReport, write_excel
from casekit.report import PullReport
from casekit.schema import TABLES, empty_tables
from casekit.wire import Reader, joined

Made = Callable[..., CaseSet]
MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
ESCAPED = re.compile("_x([0-9A-Fa-f]{4})_")


def cells(path: Path, sheet: int = 1) -> list[list[Any]]:
    """The rows of a sheet as its XML has them: texts as Excel reads them, numbers as they are written."""
    with zipfile.ZipFile(path) as book:
        root = ET.fromstring(book.read(f"xl/worksheets/sheet{sheet}.xml"))
    found: list[list[Any]] = []
    for row in root.iter(f"{MAIN}row"):
        assert int(row.attrib["r"]) == len(found) + 1
        found.append([_value(cell) for cell in row])
    return found


def _value(cell: ET.Element) -> Any:
    kind = cell.get("t", "n")
    assert kind in ("inlineStr", "n", "b"), "no formula, no error, no shared text"
    if kind == "inlineStr":
        [inner] = cell
        [text] = inner
        assert (inner.tag, text.tag) == (f"{MAIN}is", f"{MAIN}t")
        return ESCAPED.sub(lambda match: chr(int(match[1], 16)), text.text or "")
    [value] = cell
    assert value.tag == f"{MAIN}v"
    return bool(int(value.text or "")) if kind == "b" else float(value.text or "")


def quiet(write: Callable[[], ExportReport]) -> ExportReport:
    """Write without the warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return write()


def test_unsafe_texts_are_texts(tmp_path: Path) -> None:
    """With safe=False a text gets no apostrophe, and is a text all the same; markup of the library's own gets one."""
    table = pa.table({"t": ["=1+1", "-1", "<r>x</r>", "a"]})
    report = quiet(lambda: write_excel({"t": table}, tmp_path / "x.xlsx", "about", safe=False))
    assert cells(tmp_path / "x.xlsx") == [["t"], ["=1+1"], ["-1"], ["'<r>x</r>"], ["a"]]
    assert report.formulas == 1


def test_no_cases_are_ten_headers(made: Made, tmp_path: Path) -> None:
    """Every table has its sheet, with its header frozen on top, though it has no row."""
    report = made().to_excel(tmp_path / "x.xlsx")
    book = openpyxl.load_workbook(tmp_path / "x.xlsx")
    assert book.sheetnames == list(TABLES)
    for name, schema in TABLES.items():
        assert [cell.value for cell in book[name][1]] == schema.names
        assert book[name].max_row == 1
        assert book[name].freeze_panes == "A2"
    assert (report.rows, report.changes()) == (dict.fromkeys(TABLES, 0), "")


def test_cells_keep_their_kind(made: Made, tmp_path: Path) -> None:
    """Text stays text though it looks like a number, an error or a link; numbers, truth values and gaps stay too."""
    item = {"key": "007", "pointer": "#N/A", "yes": 2, "no": -5, "yesWeight": -0.5, "totalWeight": 3, "reasons": []}
    subject = {"kind": "TRUE", "id": "https://example.invalid/", "version": "1.10"}
    some = made(
        {"caseId": "1e5", "subject": subject, "input": None, "output": {"a": [1]}, "items": [item], "expert": True}
    )
    assert some.to_excel(tmp_path / "x.xlsx").changes() == ""
    book = openpyxl.load_workbook(tmp_path / "x.xlsx")
    row = {head.value: cell for head, cell in zip(book["items"][1], book["items"][2], strict=True)}
    texts = ("case_id", "subject_kind", "subject_id", "subject_version", "key", "pointer")
    assert [row[name].value for name in texts] == ["1e5", "TRUE", "https://example.invalid/", "1.10", "007", "#N/A"]
    assert {row[name].data_type for name in texts} == {"s"}
    assert [row[n].value for n in ("yes", "no", "yes_weight", "rank", "expert_yes_weight")] == [2, -5, -0.5, None, None]
    assert all(cell.hyperlink is None for cell in row.values())
    case = {head.value: cell.value for head, cell in zip(book["cases"][1], book["cases"][2], strict=True)}
    assert (case["expert"], case["erased"], case["output_json"], case["input_json"]) == (
        True,
        None,
        '{"a":[1]}',
        "null",
    )
    frame = pd.read_excel(tmp_path / "x.xlsx", sheet_name="items", dtype={"key": str})
    assert (frame["key"][0], frame["total_weight"][0]) == ("007", 3)


def test_integers_that_no_double_holds_are_text(tmp_path: Path) -> None:
    """The last digit of a large integer is kept, as text; up to 2^53 it is a number."""
    values = [2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, None, 0]
    write_excel({"t": pa.table({"n": pa.array(values, pa.int64()), "i": range(6)})}, tmp_path / "x.xlsx", "")
    found = [row[0] if len(row) > 1 else None for row in cells(tmp_path / "x.xlsx")[1:]]
    assert found == [float(2**53), str(2**53 + 1), str(-(2**53) - 1), str(2**63 - 1), None, 0.0]


def test_weights_have_sixteen_digits(tmp_path: Path) -> None:
    """A weight is what it was to sixteen digits, which a workbook keeps; beyond Excel's range it is text."""
    values = [0.1 + 0.2, 1 / 3, 1e22, 5e-324, -9.99999999999999e307]
    write_excel({"t": pa.table({"w": values})}, tmp_path / "x.xlsx", "")
    found = [row[0] for row in cells(tmp_path / "x.xlsx")[1:]]
    assert found == pytest.approx(values, rel=1e-15, abs=0)
    write_excel({"t": pa.table({"w": [-1.7976931348623157e308]})}, tmp_path / "x.xlsx", "")
    assert cells(tmp_path / "x.xlsx")[1:] == [["-1.7976931348623157e+308"]]


def test_formulas_control_characters_and_long_texts_are_reported(said: Made, tmp_path: Path) -> None:
    """What no cell holds is replaced or cut with a mark, and each thing is counted and told."""
    long = "x" * 32_768
    some = said("=1+1", "a\x00b\x1b[31m\x0b\ufffe", "one\r\ntwo\rthree\tfour\n", long, "y" * 32_767, "🙂" * 20_000)
    with pytest.warns(UserWarning, match="1 text that .*; 6 control characters replaced; 2 texts of more than 32,767"):
        report = some.to_excel(tmp_path / "x.xlsx")
    assert (report.formulas, report.replaced_characters, report.cut_texts) == (1, 6, 2)
    book = openpyxl.load_workbook(tmp_path / "x.xlsx")
    place = TABLES["reasons"].names.index("reason")
    found = [row[place].value for row in book["reasons"].iter_rows(min_row=2)]
    assert found[:3] == ["'=1+1", "a\ufffdb\ufffd[31m\ufffd\ufffd", "one\ntwo\nthree\tfour\n"]
    assert found[3] == "x" * 32_759 + " … [cut]"
    assert found[4] == "y" * 32_767
    assert found[5] == "🙂" * 16_379 + " … [cut]"
    assert len(found[5].encode("utf-16-le")) <= 2 * 32_767


@pytest.mark.parametrize(
    "text",
    [
        '<r></t></is></c><c r="A9"><f>1+1</f></c><c t="inlineStr"><is><t></r>',
        "<r>x</r>",
        " <r><t>x</t></r>",
        "' <r>x</r>",
        "'<r>x</r>",
        "''<r>",
        "_x003D_1+1",
        "</t><f>1</f>",
        "&lt;&#61;1",
        "  a  ",
        "]]>",
    ],
)
def test_markup_is_text(said: Made, tmp_path: Path, text: str) -> None:
    """No wording gets out of its cell, or becomes another text in Excel's own escapes."""
    quiet(lambda: said(text).to_excel(tmp_path / "x.xlsx"))
    number = list(TABLES).index("reasons") + 1
    [row] = cells(tmp_path / "x.xlsx", number)[1:]
    found = [cell for cell in row if isinstance(cell, str)][-1]
    assert undone(found) == text


@settings(max_examples=40, deadline=None)
@given(texts=st.lists(TEXTS, min_size=1, max_size=20))
def test_no_text_is_computed_and_none_is_lost(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    """Whatever people write stands in its own cell as text, less what no cell holds, and none starts like a formula."""
    path = tmp_path_factory.getbasetemp() / "texts.xlsx"
    table = pa.table({"text": texts, "n": range(len(texts))})
    report = quiet(lambda: write_excel({"t": table}, path, "about"))
    found = cells(path)[1:]
    assert [number for _, number in found] == list(range(len(texts)))
    held = [re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "\ufffd", re.sub("\r\n?", "\n", text)) for text in texts]
    assert [undone(text) for text, _ in found] == held
    assert all(text[:1] == "'" or not computed(text) for text, _ in found)
    assert report.formulas == sum(text != plain for (text, _), plain in zip(found, held, strict=True))


@settings(max_examples=8, deadline=None)
@given(documents=cases(plain=False, most=2))
def test_every_table_of_any_cases_is_whole(tmp_path_factory: pytest.TempPathFactory, documents: list[Any]) -> None:
    """Every sheet has all rows and columns of whatever a server sends, and openpyxl finds no formula in it."""
    path = tmp_path_factory.getbasetemp() / "any.xlsx"
    some = CaseSet(joined(Reader.corrections("a", "1", PullReport()).groups([page(documents)])))
    quiet(lambda: some.to_excel(path))
    book = openpyxl.load_workbook(path)
    for number, (name, schema) in enumerate(TABLES.items(), start=1):
        assert len(cells(path, number)) == 1 + some.arrow(name).num_rows
        assert [cell.value for cell in book[name][1]] == schema.names
        assert all(cell.data_type != "f" for row in book[name].iter_rows() for cell in row)


def test_the_workbook_says_what_it_is(made: Made, tmp_path: Path) -> None:
    """Its properties hold the line of `cite`, and no name of a person or a machine."""
    some = made("a", "b", test_set_id="x<&>")
    some.to_excel(tmp_path / "x.xlsx")
    about = openpyxl.load_workbook(tmp_path / "x.xlsx").properties
    assert about.description == some.cite()
    assert about.creator in (None, "")
    assert isinstance(about.created, datetime)
    with zipfile.ZipFile(tmp_path / "x.xlsx") as book:
        assert all(str(tmp_path).encode() not in book.read(name) for name in book.namelist())


# ---------------------------------------------------------------- refused, and failed


def test_more_rows_than_a_sheet_takes(tmp_path: Path) -> None:
    """A table with as many rows as a sheet, header and all, is refused before any file is made."""
    tables = {**empty_tables(), "t": pa.table({"n": pa.nulls(export.SHEET_ROWS)})}
    with pytest.raises(ConfigError, match=r"^t has 1,048,576 rows, and a sheet of Excel takes 1,048,575: .* to_csv$"):
        write_excel(tables, tmp_path / "x.xlsx", "")
    assert list(tmp_path.iterdir()) == []


def test_the_last_row_of_a_sheet_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The header counts as a row of the sheet, and nothing else does."""
    monkeypatch.setattr(export, "SHEET_ROWS", 4)
    write_excel({"t": pa.table({"n": [1, 2, 3]})}, tmp_path / "x.xlsx", "")
    assert cells(tmp_path / "x.xlsx") == [["n"], [1.0], [2.0], [3.0]]
    with pytest.raises(ConfigError, match="t has 4 rows"):
        write_excel({"t": pa.table({"n": [1, 2, 3, 4]})}, tmp_path / "x.xlsx", "")


def test_without_the_library(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names what is missing, how to get it, and what does without."""
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    message = r"^to_excel needs XlsxWriter: pip install 'casekit\[excel\]', or use to_csv$"
    with pytest.raises(MissingExtraError, match=message):
        made("a").to_excel(tmp_path / "x.xlsx")
    assert list(tmp_path.iterdir()) == []


def test_batches_are_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the rows are cut into batches and chunks, the cells are the same."""
    table = pa.table({"n": range(25), "text": [f"<{n}" for n in range(25)]})
    write_excel({"t": table}, tmp_path / "one.xlsx", "")
    monkeypatch.setattr(export, "BATCH_ROWS", 4)
    chunks = pa.concat_tables([table.slice(0, 7), table.slice(7, 0), table.slice(7)])
    write_excel({"t": chunks}, tmp_path / "two.xlsx", "")
    assert cells(tmp_path / "one.xlsx") == cells(tmp_path / "two.xlsx")
    assert len(cells(tmp_path / "one.xlsx")) == 26


@pytest.mark.parametrize("step", ["casekit.export._fill", "casekit.export.os.replace", "xlsxwriter.workbook.ZipFile"])
def test_a_failure_leaves_the_old_file(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """When the disk is full at any step, the old workbook stands to the byte and nothing lies beside it."""
    made("a").to_excel(tmp_path / "x.xlsx")
    before = (tmp_path / "x.xlsx").read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "x")

    monkeypatch.setattr(step, full)
    with pytest.raises(SnapshotError, match=r"x\.xlsx: No space left on device\. What stood there before stands$"):
        made("b").to_excel(tmp_path / "x.xlsx")
    monkeypatch.undo()
    assert (tmp_path / "x.xlsx").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["x.xlsx"]


def test_rows_wait_beside_the_workbook_and_nowhere_else(
    said: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What people said goes through no folder for temporary files, where a crash would leave it."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    (tmp_path / "out").mkdir()
    said("WORDS").to_excel(tmp_path / "out" / "x.xlsx")
    left = [path for path in elsewhere.rglob("*") if path.is_file()]
    assert all(path.suffix == ".lock" for path in left)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["x.xlsx"]
