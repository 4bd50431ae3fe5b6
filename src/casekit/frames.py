"""Arrow tables to pandas frames, with types that never depend on the rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa

from casekit.schema import JSON

__all__ = ["TEXT", "to_pandas"]

TEXT = pd.StringDtype(na_value=np.nan)  # pandas' own ``str``, in pandas 2.3 too


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """A table of `casekit.schema` as a frame.

    Text is ``str``, counts ``int64``, ints and bools with gaps ``Int64`` and ``boolean``, weights ``float64`` with NaN for
    unknown, times UTC, list cells Python lists (None where the list was absent).

    Parameters
    ----------
    table
        Not changed.

    Returns
    -------
    pd.DataFrame
        The same columns and rows.
    """
    columns = {field.name: _column(table[field.name], field) for field in table.schema}
    return pd.DataFrame(columns, index=pd.RangeIndex(table.num_rows), copy=False)


def _column(column: pa.ChunkedArray, field: pa.Field) -> object:
    kind = field.type
    if kind == JSON:
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], pa.string())
        kind = pa.string()
    if kind == pa.string():
        return TEXT.__from_arrow__(column)
    if pa.types.is_list(kind):
        cells = np.empty(len(column), dtype=object)
        cells[:] = column.to_pylist()
        return cells
    if pa.types.is_integer(kind):
        return pd.Int64Dtype().__from_arrow__(column) if field.nullable else column.to_numpy()
    if pa.types.is_boolean(kind):
        return pd.BooleanDtype().__from_arrow__(column) if field.nullable else column.to_numpy()
    if pa.types.is_timestamp(kind):
        return column.to_pandas()
    return column.to_numpy()
