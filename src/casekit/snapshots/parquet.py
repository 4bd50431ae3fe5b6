"""The Parquet file of one table: rows gather to row groups, and are written so that they last."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from casekit.schema import FORMAT_COLUMNS, STRING, TABLES
from casekit.snapshots.manifest import MARK, FileInfo, mark

__all__ = ["TableFile"]

ROW_GROUP_ROWS: Final = 25_000  # at least; twice as many at most
ROW_GROUP_BYTES: Final = 4 * 2**20  # of Arrow memory

# Text columns whose values seldom repeat: a dictionary of them would be built and thrown away.
_PLAIN: Final = frozenset(
    {"case_id", "run_id", "correction_id", "item_key", "reason", "should_say", "why", "retired_reason"}
    | {"session_rationale", "replay_of"}
)
# Columns whose least and greatest value stand in a footer, for readers that skip row groups by them: never words.
_STATISTICS: Final = [f.name for f in FORMAT_COLUMNS]


def _dictionary_columns(schema: pa.Schema) -> list[str]:
    return [f.name for f in schema if f.type == STRING and f.name not in _PLAIN]


class TableFile:
    """The file of one table, and the rows that wait to make a row group."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.schema = path, TABLES[name]
        self.rows = self.waiting_rows = self.waiting_bytes = 0
        self._waiting: list[pa.Table] = []
        self._writer: pq.ParquetWriter | None = None
        self._sha256 = ""

    def take(self, table: pa.Table) -> list[pa.Table]:
        """Add some rows; the rows of a row group once they are enough, else none."""
        self._waiting.append(table)
        self.rows += table.num_rows
        self.waiting_rows += table.num_rows
        self.waiting_bytes += table.nbytes
        if self.waiting_rows < ROW_GROUP_ROWS and self.waiting_bytes < ROW_GROUP_BYTES:
            return []
        return self._taken()

    def _taken(self) -> list[pa.Table]:
        taken, self._waiting = self._waiting, []
        self.waiting_rows = self.waiting_bytes = 0
        return taken

    def write(self, group: list[pa.Table]) -> None:
        """Write a row group."""
        table = pa.concat_tables([self.schema.empty_table(), *group])
        if table.num_rows:
            self._open().write_table(table, row_group_size=2 * ROW_GROUP_ROWS)

    def _open(self) -> pq.ParquetWriter:
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                str(self.path),
                self.schema,
                compression="zstd",
                compression_level=1,
                use_dictionary=_dictionary_columns(self.schema),
                write_statistics=_STATISTICS,
            )
        return self._writer

    def close(self, content: str) -> None:
        """Write the rest and the footer, so that it lasts, and take the file's hash."""
        self.write(self._taken())
        writer = self._open()
        writer.add_key_value_metadata({MARK: json.dumps(mark(content, self.rows))})
        writer.close()
        self._writer = None
        with self.path.open("rb+") as file:
            self._sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())

    def info(self) -> FileInfo:
        """Hash, size and rows, once closed."""
        return FileInfo(self._sha256, self.path.stat().st_size, self.rows)

    def abandon(self) -> None:
        """Let go of a file that was not finished."""
        if self._writer is not None:
            with suppress(OSError, pa.ArrowException):  # a full disk does not matter to a file nobody will read
                self._writer.close()
