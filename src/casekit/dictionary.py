"""The data dictionary as a frame: what each column of each table is."""

from __future__ import annotations

from typing import Any

import pandas as pd

from casekit.frames import TEXT, to_pandas
from casekit.schema import check_table, dictionary, empty_tables

__all__ = ["data_dictionary"]


def data_dictionary(table: str | None = None) -> pd.DataFrame:
    """What each column of the tables is: its type, unit and meaning, and what a missing value stands for.

    Parameters
    ----------
    table
        One of the tables of a CaseSet, such as ``"items"``; None is all of them.

    Returns
    -------
    pd.DataFrame
        One row per table and column, in the tables' order:

        - ``table``, ``column``.
        - ``type`` in Arrow and in a snapshot's Parquet files (``json`` is text there); ``pandas_type`` the dtype in
          the CaseSet's frames, where ``object`` is a list of texts.
        - ``nullable`` whether values may be missing; ``missing_means`` what a missing one stands for, missing itself
          for a column that has none.
        - ``unit``, missing for a column without one; ``description``.

    Raises
    ------
    ConfigError
        No table has that name; the message has the nearest one.

    Examples
    --------
    >>> items = data_dictionary("items").set_index("column")
    >>> items.loc[["key", "yes_weight"], ["type", "nullable", "unit"]]
                  type  nullable    unit
    column
    key         string     False     NaN
    yes_weight  double     False  weight
    """
    if table is not None:
        check_table(table)
    kinds = {name: to_pandas(empty).dtypes for name, empty in empty_tables().items() if table in (None, name)}
    rows: list[dict[str, Any]] = [
        {
            "table": row["table"],
            "column": row["column"],
            "type": row["type"],
            "pandas_type": str(kinds[str(row["table"])][row["column"]]),
            "nullable": row["nullable"],
            "unit": row["unit"] or None,
            "description": row["doc"],
            "missing_means": row["null"] or None,
        }
        for row in dictionary()
        if row["table"] in kinds
    ]
    frame = pd.DataFrame(rows)
    return frame.astype({name: TEXT for name in frame.columns if name != "nullable"})
