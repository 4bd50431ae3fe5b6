"""Frames of any engine: which columns are there, which are needed, and how they are read.

pandas and Arrow frames are read as Arrow columns; polars, DuckDB and Spark stay in their own engine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Sized
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from narwhals.exceptions import DuplicateError
from narwhals.typing import IntoFrame
from numpy.typing import NDArray

from casekit.errors import nearest, one_line

__all__ = [
    "EDGE",
    "TEXT",
    "TOO_LARGE",
    "WEIGHTS",
    "By",
    "Frame",
    "Weights",
    "case_keys",
    "check_choice",
    "check_column",
    "check_level",
    "check_names",
    "check_seed",
    "check_single",
    "check_whole",
    "columns_of",
    "from_arrow",
    "group_names",
    "left_join",
    "number",
    "quoted",
    "scan",
    "stack",
    "sum_by",
    "to_arrow",
    "to_pandas",
    "together",
    "whole_numbers",
]

By: TypeAlias = str | Sequence[str] | None
Weights: TypeAlias = Literal["recorded", "expert", "count"]
Frame: TypeAlias = nw.LazyFrame[Any] | nw.DataFrame[Any]

WEIGHTS = ("recorded", "expert", "count")
TEXT = pd.StringDtype(na_value=np.nan)
QUOTED_MAX = 200  # characters of a name or value in a message
EDGE = 1e-12  # a rate this near to 0 or 1 is 0 or 1
MOST = 2**31 - 1  # of anything that an argument counts: places, resamples
TOO_LARGE = "weights too large to add up"  # reason: their sum is more than a float holds


def check_choice(what: str, value: object, choices: Collection[str]) -> None:
    """Refuse a value that is none of the choices, naming the nearest, and all of them."""
    if not isinstance(value, str) or value not in choices:
        hint = nearest(value, choices)
        near = f"; {hint}" if hint.endswith("?") else "."
        raise ValueError(f"{what}={quoted(value)} is not known; choose one of {', '.join(map(repr, choices))}{near}")


def check_column(what: str, value: object) -> None:
    """Refuse what is no column's name."""
    if not isinstance(value, str):
        raise ValueError(f"{what}={quoted(value)} must be the name of one column, a text.")


def check_level(level: float) -> None:
    """Refuse a confidence level outside (0, 1)."""
    if not isinstance(level, Real) or not 0 < level < 1:
        raise ValueError(f"level={quoted(level)} must lie between 0 and 1, both excluded, such as 0.95.")


def check_whole(what: str, value: int) -> None:
    """Refuse what is no whole number from 1 up, or too large to count with."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not 1 <= value <= MOST:
        raise ValueError(f"{what}={quoted(value)} must be a whole number from 1 to {MOST:,}.")


def check_seed(seed: int | None) -> None:
    """Refuse a seed that is neither ``None`` nor a whole number from 0 up."""
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0):
        raise ValueError(f"seed={quoted(seed)} must be a whole number, 0 or more, or None.")


def check_names(have: Collection[str], wanted: Iterable[str], *, frame: str = "items") -> None:
    """Refuse a frame that lacks a column, naming the nearest one it has."""
    for name in wanted:
        if name not in have:
            raise KeyError(f"{frame} has no column {quoted(name)}; {nearest(name, have)}")


def check_single(dtypes: Mapping[str, Any], names: Iterable[str], *, frame: str = "items") -> None:
    """Refuse columns whose cells are lists or structures: nothing can be grouped or joined by them."""
    for name in names:
        if dtypes[name].is_nested():
            raise ValueError(f"Column {quoted(name)} of {frame} holds {dtypes[name]}; take one of single values.")


def quoted(value: object) -> str:
    """A name or value in a message: on one line, and not too long; of a table or an array, its kind and no cell."""
    table = isinstance(value, Sized) and type(value).__module__ != "builtins"
    return one_line(f"a {type(value).__name__}" if table else repr(value), QUOTED_MAX)


def group_names(by: By, *, taken: Collection[str]) -> list[str]:
    """List the columns to group by; ``taken`` are the result's own columns."""
    wrong = f"by={quoted(by)} must be a column name, a list of names, or None."
    try:
        names = [] if by is None else [by] if isinstance(by, str) else list(by)
    except TypeError:
        raise ValueError(wrong) from None
    for name in names:
        if not isinstance(name, str):
            raise ValueError(wrong)
        if names.count(name) > 1:
            raise ValueError(f"by={quoted(by)} names {quoted(name)} twice.")
        if name in taken:
            raise ValueError(f"The result has a column {name!r} of its own; rename the items' column to group by it.")
    return names


def columns_of(frame: IntoFrame, *, called: str = "items") -> dict[str, Any]:
    """Column names and narwhals dtypes of a frame of any engine; refuse what is no frame, by the name it has."""
    try:
        wrapped: Any = nw.from_native(frame, pass_through=True)
        if isinstance(wrapped, nw.DataFrame | nw.LazyFrame):
            return dict(wrapped.collect_schema())
    except DuplicateError:
        raise ValueError(f"{called} has two columns of one name; rename or drop one.") from None
    raise ValueError(
        f"{called} must be a table, such as a pandas, polars or Arrow frame, not a {type(frame).__name__}."
    )


def scan(frame: IntoFrame, columns: Iterable[str]) -> Frame:
    """Open the named columns of a frame for expressions: lazy in its own engine, or an Arrow table.

    Parameters
    ----------
    frame
        pandas, Arrow, polars, DuckDB or PySpark frame; not changed.
    columns
        Names that the frame has.
    """
    names = list(dict.fromkeys(columns))
    wrapped: Any = nw.from_native(frame)
    chosen: Frame = wrapped.select(*names)
    if isinstance(chosen, nw.LazyFrame):
        return chosen
    if chosen.implementation.is_polars():
        return chosen.lazy()
    if chosen.implementation.is_pyarrow():
        return from_arrow(to_arrow(chosen))
    data = chosen.to_pandas()
    return from_arrow(pa.table({name: _plain(_from_pandas(data[name], name)) for name in names}))


def from_arrow(table: pa.Table) -> nw.DataFrame[Any]:
    """Wrap an Arrow table."""
    frame: nw.DataFrame[Any] = nw.from_native(table)
    return frame


def _from_pandas(values: pd.Series[Any], name: str) -> pa.ChunkedArray:
    try:
        array = pa.Array.from_pandas(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise ValueError(f"Column {quoted(name)} mixes values of several types; give it one type.") from error
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    # Arrow's grouping takes neither dictionaries that differ between chunks nor string views.
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.large_string())
    return values


def together(first: Frame, second: Frame) -> tuple[Frame, Frame]:
    """Bring two frames into one engine: their own when they share it, else Arrow."""
    if (
        isinstance(first, nw.LazyFrame)
        and isinstance(second, nw.LazyFrame)
        and first.implementation == second.implementation
    ):
        return first, second
    return _same_text(to_arrow(first)), _same_text(to_arrow(second))


def stack(first: Frame, second: Frame) -> Frame:
    """Put the rows of two frames with the same columns under each other."""
    first, second = together(first, second)
    if isinstance(first, nw.LazyFrame) and isinstance(second, nw.LazyFrame):
        return nw.concat([first, second])
    tables = [to_arrow(first), to_arrow(second)]
    return from_arrow(pa.concat_tables(tables, promote_options="permissive"))


def sum_by(frame: Frame, keys: Sequence[str], values: Sequence[str]) -> Frame:
    """Sum columns over the distinct combinations of the keys.

    Arrow does it in one thread: with more, the sums' order, and by it their last digit, changes from call to call.
    """
    if isinstance(frame, nw.LazyFrame):
        return frame.group_by(*keys).agg(*(nw.col(name).sum() for name in values))
    grouped = pa.TableGroupBy(to_arrow(frame), list(keys), use_threads=False)
    sums = grouped.aggregate([(name, "sum", pc.ScalarAggregateOptions(min_count=0)) for name in values])
    return from_arrow(sums.rename_columns({f"{name}_sum": name for name in values}))


def left_join(first: Frame, second: Frame, on: Sequence[str]) -> Frame:
    """Add the columns of the second frame where its keys match; Arrow in one thread, as for `sum_by`."""
    if isinstance(first, nw.LazyFrame) and isinstance(second, nw.LazyFrame):
        return first.join(second, how="left", on=list(on))
    joined = to_arrow(first).join(to_arrow(second), list(on), join_type="left outer", use_threads=False)
    return from_arrow(joined)


def _same_text(table: pa.Table) -> nw.DataFrame[Any]:
    # Arrow joins text of the very same type alone, and takes no column that is nothing but missing.
    for i, field in enumerate(table.schema):
        if pa.types.is_large_string(field.type) or pa.types.is_null(field.type):
            table = table.set_column(i, field.name, table.column(i).cast(pa.string()))
    return from_arrow(table)


def to_arrow(frame: Frame) -> pa.Table:
    """Run what is still to run and bring the rows here."""
    table = frame.collect("pyarrow") if isinstance(frame, nw.LazyFrame) else frame
    return pa.table({name: _plain(column) for name, column in _columns(table.to_arrow())})


def _columns(table: pa.Table) -> Iterable[tuple[str, pa.ChunkedArray]]:
    return zip(table.column_names, table.columns, strict=True)


def case_keys(names: Iterable[str]) -> list[nw.Expr]:
    """Columns ``__k0``, ``__k1``, … to join cases on: SQL joins drop missing keys, and an id may be missing."""
    parts = [part for name in names for part in (nw.col(name).cast(nw.String).fill_null(""), nw.col(name).is_null())]
    return [part.alias(f"__k{i}") for i, part in enumerate(parts)]


def number(name: str, dtype: Any) -> nw.Expr:
    """Read a numeric column as float64; refuse text and times."""
    if not (dtype.is_numeric() or dtype == nw.Unknown or dtype == nw.Object):
        raise ValueError(f"Column {quoted(name)} holds {dtype}; it must hold numbers.")
    if dtype.is_integer():  # Arrow refuses to cast those above 2**53, and takes the nearest float when dividing
        return nw.col(name) / 1
    return nw.col(name).cast(nw.Float64)


def whole_numbers(values: NDArray[np.float64]) -> Any:
    """Counts as int64; where one is more than that holds, it is missing, and all are nullable."""
    large = values >= 2.0**63
    if not large.any():
        return values.astype(np.int64)
    return pd.arrays.IntegerArray(np.where(large, 0, values).astype(np.int64), large)


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Turn an Arrow table of keys into pandas, each column's dtype set by its Arrow type alone."""

    def dtype(kind: pa.DataType) -> Any:
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return TEXT
        if pa.types.is_boolean(kind):
            return pd.BooleanDtype()
        return pd.Int64Dtype() if pa.types.is_integer(kind) else None

    # A column of nothing but missing has no type of its own: text.
    fields = [field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in table.schema]
    frame: pd.DataFrame = table.cast(pa.schema(fields)).to_pandas(types_mapper=dtype)
    return frame
