"""A digest of each case's content, the same whatever page, order, grouping or version of casekit it came by.

The bytes of a case, of which its digest is the SHA-256::

    rows      one int64 per table: how many rows of it are the case's
    table by table, where the case has rows:
        cells     per row, int64 each: which cells are not null (bit n is column n), then one number per column:
                  the value of a number, boolean or time, the bits of a weight, the length of a text or list; 0 for null
        column by column, texts alone:  the bytes of all rows, one after another
        column by column, lists alone:  int64 lengths of all elements, then their bytes, one after another

Integers are little-endian. The counts and lengths say where each part ends, so that no two cases have the same bytes.
The columns that every child row repeats from its case are read once, in ``cases``. The layout is that of the columns
below: a column that a later version adds must say nothing where it is null.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from casekit.schema import FORMAT_COLUMNS, JSON, STRING, STRINGS, TABLES
from casekit.wire.arrow import Tables

__all__ = ["SIZE", "case_digests", "case_keys", "content_hash"]

SIZE: Final = 32  # bytes of a digest
BLOCK_CASES: Final = 2000  # cases whose bytes are laid out at once

_BYTES: Final = pa.large_binary()
_REPEATED: Final = frozenset(f.name for f in FORMAT_COLUMNS)
_COLUMNS: Final = {
    name: [field for field in schema if name == "cases" or field.name not in _REPEATED]
    for name, schema in TABLES.items()
}

Ints = npt.NDArray[np.int64]


def content_hash(digests: list[bytes]) -> str:
    """One hash of a set of cases, whatever their order: SHA-256 over the sorted digests."""
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()


def case_digests(tables: Tables) -> list[bytes]:
    """The digest of each case, in the order of the ``cases`` table.

    Parameters
    ----------
    tables
        Children stand in the order of their cases, as in every CaseSet.

    Raises
    ------
    ValueError
        A case stands there twice, or a child row is of no case, or not in the order of the cases.

    Examples
    --------
    >>> from casekit.schema import empty_tables
    >>> case_digests(empty_tables())
    []
    """
    size = tables["cases"].num_rows
    ends = _all_ends(tables)
    found: list[bytes] = []
    for first in range(0, size, BLOCK_CASES):
        last = min(size, first + BLOCK_CASES)
        parts = {}
        for name, end in ends.items():
            start = int(end[first])
            rows = tables[name].slice(start, int(end[last]) - start).combine_chunks()
            parts[name] = rows, end[first : last + 1] - start
        found += _block(parts)
    return found


def case_keys(table: pa.Table) -> Any:
    """One text per row that tells its case apart from any other."""
    names = ("test_set_id", "version", "subject_id", "case_id")
    # An absent id is no empty one; the length of an id keeps its end from being taken for the next one's start.
    parts: list[Any] = []
    for name in names:
        text = table[name]
        parts += [pc.binary_length(text).cast(STRING), text]
    return pc.binary_join_element_wise(*parts, ":", null_handling="replace", null_replacement="-")


def _all_ends(tables: Tables) -> dict[str, Ints]:
    """Where the rows of each case end, by table: the first entry is 0, then one per case."""
    cases = tables["cases"]
    alone = len(pc.unique(cases["case_id"])) == cases.num_rows  # whether a case id alone tells the cases apart
    keys = (cases["case_id"] if alone else case_keys(cases)).combine_chunks()
    if not alone and len(keys.unique()) < cases.num_rows:
        raise ValueError("a case stands in cases twice")
    ends = {name: np.arange(cases.num_rows + 1) for name in TABLES}
    for name, table in tables.items():
        if name == "cases":
            continue
        owner = np.empty(0, dtype=np.int64)
        if table.num_rows:
            found = pc.index_in(table["case_id"] if alone else case_keys(table), value_set=keys)
            owner = pc.fill_null(found, -1).to_numpy()
            if owner.min() < 0 or (owner[1:] < owner[:-1]).any():
                raise ValueError(f"rows of {name} are of no case, or not in the order of the cases")
        np.cumsum(np.bincount(owner, minlength=cases.num_rows), out=ends[name][1:])
    return ends


# ---------------------------------------------------------------- bytes


def _block(parts: dict[str, tuple[pa.Table, Ints]]) -> list[bytes]:
    """Digests of some cases, from their rows and where each case's rows end."""
    rows = np.column_stack([np.diff(ends) for _, ends in parts.values()])
    size = len(rows)
    views = [_view(rows, np.arange(size + 1) * rows.shape[1] * 8)]
    for name, (table, ends) in parts.items():
        if table.num_rows:
            views += _views(table, _COLUMNS[name], ends)
    joined = pc.binary_join_element_wise(*views, pa.scalar(b"", _BYTES))
    _, offsets, data = joined.buffers()
    whole = memoryview(data)
    places = np.frombuffer(offsets, dtype=np.int64, count=size + 1, offset=joined.offset * 8).tolist()
    return [hashlib.sha256(whole[a:b]).digest() for a, b in pairwise(places)]


def _view(data: Any, offsets: Ints) -> pa.Array:
    """Stretches of a buffer, not copied."""
    return pa.LargeBinaryArray.from_buffers(
        _BYTES, len(offsets) - 1, [None, pa.py_buffer(offsets.astype(np.int64, copy=False)), pa.py_buffer(data)]
    )


def _views(table: pa.Table, columns: list[pa.Field], ends: Ints) -> Iterator[pa.Array]:
    """The bytes of each case in a table, part by part."""
    cells = np.zeros((table.num_rows, 1 + len(columns)), dtype="<i8")
    everywhere = 0  # the bits of columns without a null
    texts: list[pa.Array] = []
    lists: list[pa.Array] = []
    for n, field in enumerate(columns):
        column = table[field.name].chunk(0)
        if column.null_count == len(column):
            continue
        valid = _valid(column)
        if valid is None:
            everywhere |= 1 << n
        else:
            cells[:, 0] |= valid.astype(np.int64) << n
        if field.type in (STRING, JSON):
            text, offsets, cells[:, 1 + n] = _tight(column.storage if field.type == JSON else column, valid)
            texts.append(_view(text.buffers()[2] or b"", offsets[ends]))
        elif field.type == STRINGS:
            column, starts, cells[:, 1 + n] = _tight(column, valid)
            elements = column.values
            offsets, lengths = _offsets(elements)
            lists.append(_view(lengths, starts[ends] * 8))
            lists.append(_view(elements.buffers()[2] or b"", offsets[starts[ends]]))
        else:
            values = _numbers(column)
            cells[:, 1 + n] = values if valid is None else np.where(valid, values, 0)
    cells[:, 0] |= everywhere
    yield _view(cells, ends * cells.shape[1] * 8)
    yield from texts
    yield from lists


def _valid(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Which cells are not null; None where all are."""
    if column.null_count == 0:
        return None
    return _bits(column.buffers()[0], column)


def _bits(buffer: pa.Buffer, column: pa.Array) -> npt.NDArray[np.bool_]:
    bits = np.unpackbits(np.frombuffer(buffer, dtype=np.uint8), bitorder="little")
    return bits[column.offset : column.offset + len(column)].astype(bool)


def _offsets(column: pa.Array) -> tuple[Ints, Ints]:
    """Where each text or list starts and ends, and how long it is."""
    size = len(column) + 1
    buffer = column.buffers()[1]
    if buffer is None or buffer.size == 0:  # an array of no element may have none
        offsets = np.zeros(size, dtype=np.int64)
    else:
        offsets = np.frombuffer(buffer, dtype=np.int32, count=size, offset=column.offset * 4).astype(np.int64)
    return offsets, offsets[1:] - offsets[:-1]


def _tight(column: pa.Array, valid: npt.NDArray[np.bool_] | None) -> tuple[pa.Array, Ints, Ints]:
    """The column with nothing under its nulls, where Arrow lets any bytes stand; its offsets, and its lengths."""
    offsets, lengths = _offsets(column)
    if valid is None or not lengths[~valid].any():
        return column, offsets, lengths
    column = column.take(pa.array(np.where(valid, np.arange(len(column)), -1), mask=~valid))
    return column, *_offsets(column)


def _numbers(column: pa.Array) -> Ints:
    if pa.types.is_boolean(column.type):
        return _bits(column.buffers()[1], column).astype(np.int64)
    if pa.types.is_floating(column.type):
        # The bits, so that no library's way of writing a float matters; adding 0 makes -0 and 0 the same.
        weights = np.frombuffer(column.buffers()[1], dtype=np.float64, count=len(column), offset=column.offset * 8)
        return (weights + 0.0).view(np.int64)
    return np.frombuffer(column.buffers()[1], dtype=np.int64, count=len(column), offset=column.offset * 8)
