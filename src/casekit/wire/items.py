"""The items of many cases at once: their JSON to columns by Arrow, which does not need Python's lock for it.

Items and their reasons are most of what a case says. Arrow reads them no looser than `casekit.wire.structs` says: what
it takes in another way, or what the structs would refuse, is refused here, and the pages are read case by case.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, get_args, get_origin

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw, Struct
from pyarrow import json

from casekit.schema import BOOL, FLOAT, INT, STRING, STRINGS
from casekit.wire.lists import Lists
from casekit.wire.structs import Item, members_of

__all__ = ["put_items", "read_items", "text_of"]

_PLAIN: Final[dict[Any, pa.DataType]] = {str: STRING, int: INT, float: FLOAT, bool: BOOL}
_NULL: Final = re.compile(rb'(?<!\\)"\s*:\s*null')  # after a name: a quote inside a text has a backslash before it
_EXACT: Final = 2.0**53


def _kind(of: Any) -> Any:
    """A struct's member's type, without its bounds."""
    return get_args(of)[0] if get_origin(of) is Annotated else of


def _type(of: Any) -> pa.DataType:
    """The Arrow type of what the structs say."""
    kind = _kind(of)
    if get_origin(kind) is list:
        return pa.list_(_type(get_args(kind)[0]))
    if issubclass(kind, Struct):
        return pa.struct([(name, _type(inner)) for name, inner, _ in members_of(kind)])
    return _PLAIN[kind]


_SCHEMA: Final = pa.schema([("items", pa.list_(_type(Item)))])
_STRICT: Final = json.ParseOptions(explicit_schema=_SCHEMA, unexpected_field_behavior="error")


def text_of(items: Sequence[Raw]) -> bytes:
    """The items of some cases as a text for `read_items`: a JSON object per case."""
    return b'{"items":' + b'}\n{"items":'.join(items) + b"}\n" if items else b""


def read_items(text: bytes) -> pa.ListArray | None:
    """The items of each case; None where a case has any that have to be looked at one by one."""
    if not text or (b"null" in text and _NULL.search(text)):  # Arrow takes a null for an absent member
        return None
    whole = json.ReadOptions(use_threads=False, block_size=len(text))
    try:
        items = json.read_json(pa.BufferReader(text), read_options=whole, parse_options=_STRICT)["items"]
    except pa.ArrowException:
        return None
    column = items.combine_chunks()
    return column if column.null_count == 0 and _fits(column, list[Item]) else None


def _fits(column: pa.Array, of: Any) -> bool:
    """Whether the structs would take the values of a column as they are."""
    kind = _kind(of)
    if get_origin(kind) is list:
        return column.values.null_count == 0 and _fits(column.values, get_args(kind)[0])
    if kind is float:
        values = np.nan_to_num(column.to_numpy(zero_copy_only=False))
        return not (np.abs(values) >= _EXACT).any() and not np.signbit(values[values == 0]).any()
    if not issubclass(kind, Struct):
        return True
    for name, inner, required in members_of(kind):
        member = pc.struct_field(column, name) if column.null_count else column.field(name)
        if (required and member.null_count > column.null_count) or not _fits(member, inner):
            return False
    return True


def put_items(lists: Lists, items: pa.ListArray) -> None:
    """Add the columns of items and reasons to the lists of their cases."""
    every = items.values
    expert, reasons = every.field("expert"), every.field("reasons")
    reason = reasons.values
    lists.counts["items"], lists.counts["reasons"] = _lengths(items), _lengths(reasons)
    lists.columns["cases"]["n_items"] = lists.counts["items"]
    lists.columns["items"] = {
        "key": every.field("key"),
        "pointer": every.field("pointer"),
        "rank": every.field("rank"),
        "yes": every.field("yes"),
        "no": every.field("no"),
        "yes_weight": every.field("yesWeight"),
        "total_weight": every.field("totalWeight"),
        "expert_yes_weight": pc.struct_field(expert, "yesWeight"),
        "expert_total_weight": pc.struct_field(expert, "totalWeight"),
        "correction_ids": _strings(every.field("correctionIds")),
        "expert_correction_ids": _strings(pc.struct_field(expert, "correctionIds")),
    }
    lists.columns["reasons"] = {
        "verdict": reason.field("verdict"),
        "reason": reason.field("reason"),
        "corrector_group_id": reason.field("correctorGroupId"),
        "expert": reason.field("expert"),
    }


def _lengths(column: pa.ListArray) -> list[int]:
    lengths: list[int] = np.diff(column.offsets.to_numpy()).tolist()
    return lengths


def _strings(column: pa.ListArray) -> pa.ListArray:
    """The same lists, of texts that are never null."""
    return pa.ListArray.from_buffers(
        STRINGS, len(column), column.buffers()[:2], column.null_count, column.offset, [column.values]
    )
