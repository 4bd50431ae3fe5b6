"""Lists to Arrow tables: the columns of `casekit.schema`, a whole group of cases at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from casekit.schema import FORMAT_COLUMNS, JSON, STRING, STRINGS, TABLES
from casekit.wire.lists import CALLS_OF_CORRECTIONS, Lists, Texts

__all__ = ["Tables", "agent_tables", "corrections_tables"]

Tables = dict[str, pa.Table]

_IDS = [f.name for f in FORMAT_COLUMNS]


def json_column(texts: Sequence[Any]) -> pa.Array:
    """JSON texts, as bytes, as a column: one copy of them; no bytes are null."""
    sizes = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    offsets = np.zeros(len(texts) + 1, dtype=np.int32)
    np.cumsum(sizes, out=offsets[1:])  # a group of cases is far below 2 GiB: the reader sees to it
    absent = sizes == 0
    valid = pa.py_buffer(np.packbits(~absent, bitorder="little")) if absent.any() else None
    text = pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(b"".join(texts)), valid)
    return pa.ExtensionArray.from_storage(JSON, text)


def texts_column(texts: Texts) -> pa.Array:
    """Lists of texts as a column."""
    lengths = np.array(texts.lengths, dtype=np.int64)
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(np.maximum(lengths, 0), out=offsets[1:])
    absent = lengths < 0
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(texts.values, STRING), type=STRINGS, mask=pa.array(absent) if absent.any() else None
    )


def _column(values: Any, kind: pa.DataType) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    if isinstance(values, Texts):
        return texts_column(values)
    return json_column(values) if kind == JSON else pa.array(values, kind)


def _nulls(size: int, kind: pa.DataType) -> pa.Array:
    if kind == JSON:
        return pa.ExtensionArray.from_storage(JSON, pa.nulls(size, STRING))
    return pa.nulls(size, kind)


class _Rows:
    """Rows of one table under construction."""

    def __init__(self, table: str, lists: dict[str, Any], size: int) -> None:
        self.name, self.schema, self.size = table, TABLES[table], size
        self.columns = {name: _column(values, self.schema.field(name).type) for name, values in lists.items()}

    def put(self, **columns: pa.Array) -> None:
        """Add finished columns."""
        self.columns.update(columns)

    def table(self) -> pa.Table:
        """The finished table; a column nobody gave is null."""
        arrays = [
            self.columns[field.name] if field.name in self.columns else _nulls(self.size, field.type)
            for field in self.schema
        ]
        return pa.Table.from_arrays(arrays, schema=self.schema)


class _Below(_Rows):
    """Rows that belong to rows of a table above.

    Parameters
    ----------
    table
        Name of the table.
    lists
        Their columns, and how many there are for each row above.
    above
        The rows above.
    repeated
        Columns of theirs that each row repeats, by the name it gives them; the ids always.
    number
        Column that gets the place of a row among those of the same row above.
    """

    def __init__(
        self, table: str, lists: Lists, above: _Rows, number: str, repeated: dict[str, str] | None = None, key: str = ""
    ) -> None:
        counts = np.array(lists.counts.get(key or table, []), dtype=np.int64)
        self.owner: npt.NDArray[np.int64] = np.repeat(np.arange(len(counts)), counts)
        super().__init__(table, lists.columns.get(key or table, {}), len(self.owner))
        names = {name: name for name in _IDS} | (repeated or {})
        of = pa.RecordBatch.from_arrays([above.columns[name] for name in names.values()], list(names))
        taken = of.take(pa.array(self.owner))
        self.columns.update(zip(names, taken.columns, strict=True))
        starts = np.cumsum(counts) - counts
        self.columns[number] = pa.array(np.arange(self.size) - starts[self.owner])


def corrections_tables(lists: Lists, test_set_id: str | None, version: str | None) -> Tables:
    """The tables of some cases of a corrections test set."""
    size = len(lists)
    cases = _Rows("cases", lists.columns.get("cases", {}), size)
    cases.put(
        test_set_id=pa.repeat(pa.scalar(test_set_id, STRING), size),
        version=pa.repeat(pa.scalar(version, STRING), size),
    )
    items = _Below("items", lists, cases, "item_no", {"run_id": "run_id"})
    reasons = _Below("reasons", lists, items, "reason_no", {"item_no": "item_no", "item_key": "key"})
    corrections = _Below("corrections", lists, cases, "correction_no")
    below = [
        items,
        reasons,
        _Below("segments", lists, cases, "segment_no"),
        corrections,
        _Below("expected_items", lists, cases, "item_no"),
        _Below("recorded_calls", lists, cases, "call_no"),
        _Below("recorded_steps", lists, cases, "step_no"),
        _Below("messages", lists, cases, "message_no"),
    ]
    return _ordered([cases, *below], _expected_calls(lists, cases, corrections))


def agent_tables(lists: Lists, agent_id: str) -> Tables:
    """The tables of some cases of an agent's live test set.

    The subject is the agent at the version the run ran, so that live and frozen cases group alike.
    """
    size = len(lists)
    cases = _Rows("cases", lists.columns.get("cases", {}), size)
    cases.put(
        test_set_id=pa.nulls(size, STRING),
        version=pa.nulls(size, STRING),
        subject_kind=pa.repeat("agent", size),
        subject_id=pa.repeat(agent_id, size),
    )
    expected_items = _Below("expected_items", lists, cases, "item_no")
    return _ordered([cases, expected_items], _expected_calls(lists, cases, None))


def _ordered(rows: list[_Rows], expected_calls: pa.Table) -> Tables:
    """All tables, in the order of the schema; those without rows are empty."""
    made = {one.name: one.table() for one in rows} | {"expected_calls": expected_calls}
    return {name: made[name] if name in made else schema.empty_table() for name, schema in TABLES.items()}


def _expected_calls(lists: Lists, cases: _Rows, corrections: _Below | None) -> pa.Table:
    """A case's calls stand together: those of its corrections first, then those of its ``expect``."""
    asked = _Below("expected_calls", lists, cases, "call_no")
    asked.put(source=pa.repeat("expect", asked.size))
    if corrections is None:
        return asked.table()
    calls = _Below(
        "expected_calls", lists, corrections, "call_no", {"correction_no": "correction_no"}, key=CALLS_OF_CORRECTIONS
    )
    calls.put(source=pa.repeat("corrections", calls.size))
    case_no = np.concatenate([corrections.owner[calls.owner], asked.owner])
    both = pa.concat_tables([calls.table(), asked.table()]).combine_chunks()
    return both.take(pa.array(np.argsort(case_no, kind="stable")))
