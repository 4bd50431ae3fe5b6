"""Sums over rows that are in this process, as Arrow columns: by group, and by group and cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["Sums", "prepare", "sum_rows"]

Floats = NDArray[np.float64]
Codes = NDArray[np.signedinteger[Any]]
STEP = 1 << 19  # rows at a time: temporary columns stay in memory that is used again


@dataclass(frozen=True)
class Sums:
    """Groups' keys, the group of each cluster, and the sums; groups are in order of appearance."""

    keys: pa.Table
    group_of: NDArray[np.intp]
    group_sums: dict[str, Floats]
    cluster_sums: dict[str, Floats]


def prepare(frame: Any, steps: Sequence[Mapping[str, nw.Expr]]) -> Any:
    """Add columns, each step's built on those before: an expression that stands in many is computed once."""
    for step in steps:
        frame = frame.with_columns(*(expression.alias(name) for name, expression in step.items()))
    return frame


def sum_rows(
    rows: nw.DataFrame[Any],
    steps: Sequence[Mapping[str, nw.Expr]],
    by: Sequence[nw.Expr],
    cluster: nw.Expr,
    measures: Mapping[str, nw.Expr],
    *,
    per_cluster: Collection[str],
) -> Sums:
    """Sum measures over groups, and those named in ``per_cluster`` over groups and clusters.

    Parameters
    ----------
    rows
        Rows, backed by an Arrow table.
    steps
        Columns to prepare, as for `prepare`.
    by
        Group keys; none makes one group.
    cluster
        Text that names a row's cluster.
    measures
        Name to a float64 expression.
    per_cluster
        Names of measures.
    """
    keys, group = _groups(rows, by)
    n_groups = keys.num_rows if by else 1
    kept = {name: np.empty(len(rows)) for name in per_cluster}

    def sum_slice(start: int) -> dict[str, Floats]:
        part = prepare(rows[start : start + STEP], steps)
        part = part.select(*(expression.alias(name) for name, expression in measures.items()))
        sums: dict[str, Floats] = {}
        for name in measures:
            values = part[name].to_numpy()
            counted = np.bincount(group[start : start + STEP], weights=values, minlength=n_groups)
            sums[name] = counted.astype(np.float64, copy=False)
            if name in kept:
                kept[name][start : start + STEP] = values
        return sums

    # Telling clusters apart takes the longest and runs outside Python's lock: the rest is done meanwhile.
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(_encode, rows, cluster)
        slices = [sum_slice(start) for start in range(0, len(rows), STEP)]
        code, names = waiting.result()
    none = np.zeros(n_groups)
    with np.errstate(over="ignore"):
        totals = {name: np.sum([none, *(part[name] for part in slices)], axis=0) for name in measures}
    pair, group_of = _pairs(code, len(names), group)
    size = len(group_of)
    sums = {name: np.bincount(pair, weights=values, minlength=size).astype(np.float64) for name, values in kept.items()}
    return Sums(keys, group_of, totals, sums)


def _encode(rows: nw.DataFrame[Any], value: nw.Expr) -> tuple[Codes, pa.Array]:
    """Number the distinct values of an expression; missing is a value of its own."""
    column: pa.ChunkedArray = rows.select(value.alias("value")).to_arrow()["value"]
    encoded = column.dictionary_encode(null_encoding="encode")
    if not encoded.num_chunks:
        return np.empty(0, dtype=np.int32), pa.array([], type=column.type)
    return np.concatenate([c.indices.to_numpy() for c in encoded.chunks]), encoded.chunk(0).dictionary


def _groups(rows: nw.DataFrame[Any], by: Sequence[nw.Expr]) -> tuple[pa.Table, Codes]:
    """Number the distinct combinations of the group keys."""
    if not by:
        return pa.table({}), np.zeros(len(rows), dtype=np.intp)
    encoded = [_encode(rows, key) for key in by]
    if len(by) == 1:
        return pa.table({"__by0": encoded[0][1]}), encoded[0][0]
    mixed = np.zeros(len(rows), dtype=np.int64)
    for code, values in encoded:
        mixed = mixed * max(len(values), 1) + code
    code, distinct = pd.factorize(mixed)
    taken: dict[str, pa.Array] = {}
    for i in reversed(range(len(by))):
        values = encoded[i][1]
        distinct, place = np.divmod(distinct, max(len(values), 1))
        taken[f"__by{i}"] = values.take(pa.array(place))
    return pa.table({name: taken[name] for name in sorted(taken)}), code


def _pairs(cluster: Codes, n_clusters: int, group: Codes) -> tuple[Codes, NDArray[np.intp]]:
    """Number the combinations of group and cluster; also the group of each."""
    group_of = np.zeros(n_clusters, dtype=np.intp)
    group_of[cluster] = group
    if np.array_equal(group_of[cluster], group):  # the usual case: no cluster stands in two groups
        return cluster, group_of
    width = int(group.max()) + 1
    pair, distinct = pd.factorize(cluster.astype(np.int64) * width + group)
    return pair, (distinct % width).astype(np.intp)
