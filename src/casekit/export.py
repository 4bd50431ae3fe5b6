"""Tables for a spreadsheet, as CSV (RFC 4180) or an Excel workbook, with nothing in them that it would compute.

A spreadsheet takes a text that begins like a formula for one. Such a text gets an apostrophe in front, as does one that
has white space, quotes or unseen characters before its ``=``; a text that has the apostrophe already gets a second, so
that taking the first away gives every text back. Numbers, truth values and times are written as what they are. Parquet
is exact; these files are for looking at.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from casekit.errors import ConfigError, MissingExtraError, counted, one_line
from casekit.files import file_error, locked, staging_for, sweep, sync
from casekit.schema import JSON, STRING

__all__ = ["ExportReport", "write_csv", "write_excel"]

BATCH_ROWS: Final = 10_000  # rows that are made ready at once, fewer where they are large
BATCH_BYTES: Final = 64 * 2**20  # of Arrow memory
SHEET_ROWS: Final = 1_048_576  # of a sheet of Excel, the header among them
CELL_UNITS: Final = 32_767  # UTF-16 code units of a cell
CUT: Final = " … [cut]"
_TEXT: Final = pa.large_string()  # a batch of texts may be more than 2 GiB
_LARGEST: Final = {int: 2**53, float: 9.99999999999999e307}  # that Excel holds; of a larger number it gets the digits

# What XlsxWriter takes for markup of its own, and what would look like such a text behind its apostrophe.
_MARKUP: Final = "^'*<r>"
# What a spreadsheet may take for the start of a formula, full-width forms and the minus sign among them, behind what it
# may pass over.
_FORMULA: Final = f"^(?:[^\\pL\\pM\\pN\\pP\\pS]|['\"‘’“”＇＂])*[\t\r\n=+\\-@＝＋－＠﹦﹢﹣﹫−]|{_MARKUP}"
_CONTROL: Final = "\r\n?|[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]"  # what a cell of Excel cannot hold


@dataclass
class ExportReport:
    """What was written, and what was changed so that a spreadsheet shows it and computes nothing.

    Attributes
    ----------
    path : Path
        The file.
    rows : dict of str to int
        Rows of each table, without the header.
    formulas : int
        Texts that got an apostrophe in front.
    replaced_characters : int
        Control characters that no cell of Excel holds: a carriage return became a line feed, any other U+FFFD.
    cut_texts : int
        Texts of more than 32,767 characters, cut and marked ``[cut]``.

    Examples
    --------
    >>> ExportReport(Path("items.csv"), {"items": 12}, formulas=1).changes()
    '1 text that a spreadsheet could compute got an apostrophe in front'
    """

    path: Path
    rows: dict[str, int] = field(default_factory=dict)
    formulas: int = 0
    replaced_characters: int = 0
    cut_texts: int = 0

    def changes(self) -> str:
        """What was changed, in words.

        Returns
        -------
        str
            Each kind of change with its count; empty where nothing was changed.
        """
        parts = [
            (self.formulas, "text", "that a spreadsheet could compute got an apostrophe in front"),
            (self.replaced_characters, "control character", "replaced"),
            (self.cut_texts, "text", f"of more than {CELL_UNITS:,} characters cut"),
        ]
        return "; ".join(f"{counted(count, noun)} {what}" for count, noun, what in parts if count)


def write_csv(name: str, table: pa.Table, path: str | os.PathLike[str], *, safe: bool = True) -> ExportReport:
    """Write a table as CSV: text in double quotes, a missing value as nothing, lines ended by CR LF, UTF-8.

    Parameters
    ----------
    name, table
        The table, and what it is called.
    path
        File to make. A file that stands there is replaced whole.
    safe
        Put an apostrophe in front of what a spreadsheet could compute.

    Raises
    ------
    ConfigError
        The path is no file's, or a number is not finite.
    SnapshotBusyError
        Somebody else is writing there.
    SnapshotError
        The file cannot be written. What stood there stands.
    """
    _check_finite({name: table})
    export = ExportReport(Path(path), {name: table.num_rows})

    pattern = _FORMULA if safe else None

    def write(file: Path) -> None:
        header = [pa.array([column], _TEXT) for column in table.column_names]
        with file.open("wb") as out:
            for columns in chain([header], _batches(table)):
                out.write(_lines([_csv_cells(column, pattern, export) for column in columns]))

    _whole(export.path, write)
    return _told(export)


def write_excel(
    tables: Mapping[str, pa.Table], path: str | os.PathLike[str], about: str, *, safe: bool = True
) -> ExportReport:
    """Write tables as a workbook, one sheet each: text as text, never a formula or a link; a missing value as no cell.

    Parameters
    ----------
    tables
        The tables, by the names of their sheets.
    path
        File to make. A file that stands there is replaced whole.
    about
        What the workbook says of itself among its properties.
    safe
        Put an apostrophe in front of what a spreadsheet could compute, should the cells be copied or saved as CSV: in
        the workbook a text is a text either way.

    Raises
    ------
    ConfigError
        The path is no file's, a table has more rows than a sheet, or a number is not finite.
    MissingExtraError
        XlsxWriter is not installed.
    SnapshotBusyError
        Somebody else is writing there.
    SnapshotError
        The file cannot be written. What stood there stands.
    """
    try:
        import xlsxwriter
    except ImportError as error:
        raise MissingExtraError("to_excel needs XlsxWriter: pip install 'casekit[excel]', or use to_csv") from error
    for name, table in tables.items():
        if table.num_rows >= SHEET_ROWS:
            raise ConfigError(
                f"{name} has {table.num_rows:,} rows, and a sheet of Excel takes {SHEET_ROWS - 1:,}: "
                "keep fewer cases with cases.where, or use to_csv"
            )
    _check_finite(tables)
    export = ExportReport(Path(path), {name: table.num_rows for name, table in tables.items()})

    def write(file: Path) -> None:
        # Rows wait in files beside the workbook: they hold what people said, and go when the folder goes.
        book = xlsxwriter.Workbook(str(file), {"constant_memory": True, "tmpdir": str(file.parent), "use_zip64": True})
        book.set_properties({"comments": about})
        try:
            for name, table in tables.items():
                sheet = book.add_worksheet(name)
                sheet.freeze_panes(1, 0)
                _fill(sheet, table, _FORMULA if safe else _MARKUP, export)
            book.close()
        except BaseException as error:
            for sheet in book.worksheets():
                sheet.row_data_fh.close()  # a system may not let the folder go before
            if isinstance(error, xlsxwriter.exceptions.FileCreateError):  # what the system said, in other words
                raise error.args[0] from None
            raise

    _whole(export.path, write)
    return _told(export)


# ---------------------------------------------------------------- cells


def _batches(table: pa.Table) -> Iterator[list[pa.Array]]:
    """The columns of some rows at a time, as text, numbers or truth values."""
    rows = max(1, min(BATCH_ROWS, BATCH_BYTES * table.num_rows // max(1, table.nbytes)))
    for first in range(0, table.num_rows, rows):
        yield [_plain(column.chunk(0)) for column in table.slice(first, rows).combine_chunks().columns]


def _plain(column: pa.Array) -> pa.Array:
    """A column as text, numbers or truth values: lists as JSON, times as ISO 8601 in UTC."""
    if column.type == JSON:
        column = column.storage
    if pa.types.is_list(column.type):
        cells = column.to_pylist()
        return pa.array([None if cell is None else json.dumps(cell, ensure_ascii=False) for cell in cells], _TEXT)
    if pa.types.is_timestamp(column.type):
        local = column.cast(pa.timestamp(column.type.unit)).cast(_TEXT)
        return _joined(pc.replace_substring(local, " ", "T"), "Z")
    return column.cast(_TEXT) if column.type == STRING else column


def _joined(*parts: pa.Array | str, between: str = "") -> pa.Array:
    """Texts one behind the other; null where one is."""
    texts = (pa.scalar(part, _TEXT) if isinstance(part, str) else part for part in parts)
    return pc.binary_join_element_wise(*texts, pa.scalar(between, _TEXT))


def _harmless(text: pa.Array, pattern: str | None, export: ExportReport) -> pa.Array:
    """Texts with an apostrophe in front where they are like the pattern."""
    if pattern is None:
        return text
    formulas = pc.match_substring_regex(text, pattern)
    export.formulas += pc.sum(formulas, min_count=0).as_py()
    return pc.if_else(formulas, _joined("'", text), text)


def _csv_cells(column: pa.Array, pattern: str | None, export: ExportReport) -> pa.Array:
    if column.type != _TEXT:
        return pc.fill_null(column.cast(_TEXT), "")
    doubled = pc.replace_substring(_harmless(column, pattern, export), '"', '""')
    return pc.fill_null(_joined('"', doubled, '"'), "")


def _lines(columns: list[pa.Array]) -> bytes:
    lines = _joined(*columns, between=",").to_pylist()
    return "".join(f"{line}\r\n" for line in lines).encode()


def _fill(sheet: Any, table: pa.Table, pattern: str, export: ExportReport) -> None:
    """The cells of a sheet, row by row: the library keeps one row at a time."""
    header = [pa.array([name], _TEXT) for name in table.column_names]
    row = 0
    for batch in chain([header], _batches(table)):
        columns = [_excel_cells(column, pattern, export) for column in batch]
        for cells in zip(*columns, strict=True):
            for place, cell in enumerate(cells):
                if isinstance(cell, str):
                    sheet.write_string(row, place, cell)
                elif isinstance(cell, bool):
                    sheet.write_boolean(row, place, cell)
                elif cell is not None:
                    sheet.write_number(row, place, cell)
            row += 1


def _excel_cells(column: pa.Array, pattern: str, export: ExportReport) -> list[Any]:
    if column.type != _TEXT:
        return [str(v) if type(v) in (int, float) and abs(v) > _LARGEST[type(v)] else v for v in column.to_pylist()]
    control = pc.count_substring_regex(column, _CONTROL)
    export.replaced_characters += pc.sum(control, min_count=0).as_py()
    held = pc.replace_substring_regex(column, "\r\n?", "\n")
    held = pc.replace_substring_regex(held, _CONTROL, "\ufffd")
    texts = _harmless(held, pattern, export).to_pylist()
    return [_cut(text, export) if text and len(text) > CELL_UNITS // 2 else text for text in texts]


def _cut(text: str, export: ExportReport) -> str:
    """A text that fits in a cell, cut and marked where it did not."""
    units = text.encode("utf-16-le")
    if len(units) <= 2 * CELL_UNITS:
        return text
    export.cut_texts += 1
    return units[: 2 * (CELL_UNITS - len(CUT))].decode("utf-16-le", errors="ignore") + CUT


def _check_finite(tables: Mapping[str, pa.Table]) -> None:
    for name, table in tables.items():
        for field_ in table.schema:
            if pa.types.is_floating(field_.type) and not pc.all(pc.is_finite(table[field_.name]), min_count=0).as_py():
                raise ConfigError(
                    f"{name}.{field_.name} holds a number that is not finite, as no server sends: "
                    "load the cases again, or leave the case out with cases.where"
                )


# ---------------------------------------------------------------- the file


def _whole(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file beside its place, and put it there when it is whole and lasts."""
    target, name = Path(os.path.realpath(path)), one_line(str(path), 500)
    if target.exists() and not target.is_file():
        raise ConfigError(f"{name} is no file: give the name of a file to make")
    lock = locked(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        sweep(target)
        staging = staging_for(target)
        try:
            write(staging / target.name)
            with (staging / target.name).open("rb+") as file:
                os.fsync(file.fileno())
            os.replace(staging / target.name, target)
            sync(target.parent)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise file_error(path, error) from error
    finally:
        lock.release()


def _told(export: ExportReport) -> ExportReport:
    changes = export.changes()
    if changes:
        warnings.warn(f"{one_line(str(export.path), 500)}: {changes}", stacklevel=4)  # where to_csv was called
    return export
