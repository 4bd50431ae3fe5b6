"""The items that people disagree on most, with their reasons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from casekit.errors import ConfigError, one_line
from casekit.frames import to_pandas
from casekit.stats.frames import to_arrow
from casekit.stats.weights import open_items, refuse_contradictions
from casekit.wire import case_keys

__all__ = ["most_contested"]

COLUMNS: Final = [
    "test_set_id",
    "version",
    "case_id",
    "subject_kind",
    "subject_id",
    "subject_version",
    "run_id",
    "item_no",
    "key",
    "pointer",
    "rank",
    "yes",
    "no",
    "yes_weight",
    "total_weight",
    "expert_yes_weight",
    "expert_total_weight",
]
OF_ITEM: Final = ("test_set_id", "version", "subject_id", "case_id", "item_no")
OF_REASON: Final = ("verdict", "reason", "corrector_group_id", "expert")


def most_contested(tables: Mapping[str, pa.Table], n: int) -> pd.DataFrame:
    """The frame of ``CaseSet.contested``.

    Parameters
    ----------
    tables
        Of the CaseSet.
    n
        How many items at most.
    """
    given: object = n
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 0:
        raise ConfigError(f"n is how many items to show, a whole number from 0, not {one_line(repr(n), 100)}")
    items = _open_to_dispute(tables)
    yes, no = (items[name].to_numpy().astype(np.float64) for name in ("yes", "no"))
    weight = items["total_weight"].to_numpy()
    opened = open_items(items, weights="recorded")
    refuse_contradictions(items, opened, float(to_arrow(opened.prepared().select("__bad"))["__bad"].to_numpy().sum()))
    rate = np.divide(items["yes_weight"].to_numpy(), weight, out=np.full(len(weight), np.nan), where=weight > 0)
    # numpy sorts by the last key first, missing last, and rows that are equal stay in the table's order.
    order = np.lexsort((-(yes + no), np.round(np.abs(rate - 0.5), 12)))[:n]
    chosen = items.take(pa.array(order, pa.int64()))
    frame = to_pandas(chosen.select(COLUMNS)).assign(yes_rate=rate[order])
    frame["reasons"] = pd.Series(_reasons(tables["reasons"], chosen), index=frame.index, dtype=object)
    return frame


def _open_to_dispute(tables: Mapping[str, pa.Table]) -> pa.Table:
    """The items with both verdicts, of cases that no erasure cleared."""
    cases, items = tables["cases"], tables["items"]
    erased = cases.filter(pc.fill_null(cases["erased"], False))
    gone = pc.is_in(case_keys(items), value_set=case_keys(erased).combine_chunks())
    both = pc.and_(pc.greater(items["yes"], 0), pc.greater(items["no"], 0))
    return items.filter(pc.and_(both, pc.invert(gone)))


def _reasons(table: pa.Table, items: pa.Table) -> list[list[dict[str, Any]]]:
    """The reasons of each item, in the table's order: newest first."""
    mine = table.filter(pc.is_in(table["case_id"], value_set=pc.unique(items["case_id"])))
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in mine.sort_by("reason_no").to_pylist():
        found.setdefault(tuple(row[name] for name in OF_ITEM), []).append({name: row[name] for name in OF_REASON})
    return [found.get(tuple(row[name] for name in OF_ITEM), []) for row in items.select(OF_ITEM).to_pylist()]
