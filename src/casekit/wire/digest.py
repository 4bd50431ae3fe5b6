"""A digest of each case's content, the same whatever page, order or version of casekit it came by.

A case's bytes are its non-null cells, each as ``column:length:text``, row after row and table after table; columns that
are null say nothing, so a later version may add some. A digest is the SHA-256 of these bytes.
"""

from __future__ import annotations

import hashlib
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from casekit.schema import FORMAT_COLUMNS, JSON, STRINGS, TABLES
from casekit.wire.arrow import Tables

SIZE: Final = 32  # bytes of a digest
_BYTES: Final = pa.large_binary()
_REPEATED: Final = frozenset(f.name for f in FORMAT_COLUMNS)


def case_digests(tables: Tables) -> list[bytes]:
    """The digest of each case, in the order of the ``cases`` table.

    Examples
    --------
    >>> from casekit.schema import empty_tables
    >>> case_digests(empty_tables())
    []
    """
    cases = tables["cases"]
    sets = cases.select(["test_set_id", "version"]).group_by(["test_set_id", "version"]).aggregate([]).to_pylist()
    if len(sets) <= 1:
        return _digests(tables)
    # The same case id may stand in several sets: one set at a time, then back into place.
    found: list[bytes] = [b""] * cases.num_rows
    for one in sets:
        parts = {name: table.filter(_is_of(table, one)) for name, table in tables.items()}
        places = np.flatnonzero(_is_of(cases, one).to_numpy())
        for place, digest in zip(places, _digests(parts), strict=True):
            found[place] = digest
    return found


def content_hash(digests: list[bytes]) -> str:
    """One hash of a set of cases, whatever their order: SHA-256 over the sorted digests."""
    return hashlib.sha256(b"".join(sorted(digests))).hexdigest()


def _is_of(table: pa.Table, one: dict[str, str | None]) -> pa.ChunkedArray:
    masks = [
        pc.is_null(table[name]) if value is None else pc.fill_null(pc.equal(table[name], value), False)
        for name, value in one.items()
    ]
    return pc.and_(*masks)


def _digests(tables: Tables) -> list[bytes]:
    cases = tables["cases"]
    per_table = [_rows(cases, "cases")]
    per_table += [_by_case(tables[name], name, cases["case_id"]) for name in TABLES if name != "cases"]
    found: list[bytes] = []
    for text in pc.binary_join_element_wise(*per_table, _scalar(""), null_handling="skip").chunks:
        _, offsets, data = text.buffers()
        ends = np.frombuffer(offsets, dtype=np.int64)[text.offset : text.offset + len(text) + 1]
        view = memoryview(data) if data is not None else memoryview(b"")
        found += [hashlib.sha256(view[a:b]).digest() for a, b in zip(ends[:-1], ends[1:], strict=True)]
    return found


def _scalar(text: str) -> pa.Scalar:
    return pa.scalar(text.encode(), _BYTES)


def _rows(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Each row's bytes."""
    own = [f for f in TABLES[name] if name == "cases" or f.name not in _REPEATED]
    cells = [_cells(table[f.name], f.name) for f in own if table[f.name].null_count < table.num_rows]
    first = pa.chunked_array([pa.repeat(_scalar(name + "\n"), table.num_rows)])
    return pc.binary_join_element_wise(first, *cells, _scalar(""), null_handling="skip")


def _cells(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Each cell's bytes: null stays null."""
    kind = column.type
    if kind == JSON:
        column = pa.chunked_array([c.storage for c in column.chunks], pa.string())
    elif kind == STRINGS:
        column = _lists(column)
    elif pa.types.is_floating(kind):
        # The bits, so that no library's way of writing a float matters; adding 0 makes -0 and 0 the same.
        column = pa.chunked_array([pc.add(c, 0.0).view(pa.int64()) for c in column.chunks], pa.int64())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    text = column if column.type == _BYTES else column.cast(pa.large_string()).cast(_BYTES)
    size = pc.binary_length(text).cast(pa.large_string()).cast(_BYTES)
    return pc.binary_join_element_wise(_scalar(name), size, text, _scalar(":"))


def _lists(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Each list's bytes: its elements with their lengths, so that [] and [""] differ."""
    chunks = []
    for chunk in column.chunks:
        elements = chunk.flatten().cast(pa.large_string()).cast(_BYTES)
        size = pc.binary_length(elements).cast(pa.large_string()).cast(_BYTES)
        marked = pc.binary_join_element_wise(size, elements, _scalar(":"))
        counts = pc.fill_null(pc.list_value_length(chunk), 0).to_numpy(zero_copy_only=False)
        joined = pc.binary_join(pa.LargeListArray.from_arrays(_offsets(counts), marked), _scalar(","))
        chunks.append(pc.if_else(pc.is_valid(chunk), joined, pa.scalar(None, _BYTES)))
    return pa.chunked_array(chunks, _BYTES)


def _offsets(counts: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]))


def _by_case(table: pa.Table, name: str, case_ids: pa.ChunkedArray) -> pa.ChunkedArray:
    """Each case's rows of a child table as one text; of no row, null."""
    if table.num_rows == 0:
        return pa.chunked_array([pa.nulls(len(case_ids), _BYTES)])
    rows = _rows(table, name)
    owner = pc.index_in(table["case_id"], value_set=case_ids.combine_chunks())
    counts = np.bincount(owner.to_numpy(), minlength=len(case_ids))
    rows = rows.combine_chunks() if rows.num_chunks != 1 else rows.chunk(0)
    return pa.chunked_array([pc.binary_join(pa.LargeListArray.from_arrays(_offsets(counts), rows), _scalar(""))])
