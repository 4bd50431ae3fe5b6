"""Sums per group and cluster, and what follows from them per group.

A cluster is a run: ``run_id``, else ``case_id`` (on older servers a case's id is its run's). The same run in
several versions is one cluster. In polars, DuckDB and Spark the sums are taken by the engine, and only those per
group come back; pandas and Arrow frames are already here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from casekit.stats.frames import EDGE, Frame, from_arrow, to_arrow, to_pandas, whole_numbers
from casekit.stats.local import prepare, sum_rows

__all__ = [
    "SQUARED",
    "Clusters",
    "Moments",
    "Rows",
    "cluster_of",
    "collect_clusters",
    "finite",
    "group_moments",
    "moments_of",
    "scaled",
]

Floats = NDArray[np.float64]
CLUSTER = "__cluster"
ROWS = "rows"
CANCELLED = 1e-3  # a sum of squares below this share of its terms has lost digits that matter
SQUARED = (1e-140, 1e150)  # sums whose squares, and the sums of those, are far from the ends of a float's range


@dataclass(frozen=True)
class Rows:
    """A frame, its columns' dtypes, and columns still to be computed, step upon step.

    Arrow rows are prepared a slice at a time as they are summed; in other engines the steps are part of the query.
    """

    frame: Frame
    dtypes: Mapping[str, Any]
    steps: Sequence[Mapping[str, nw.Expr]] = ()

    def prepared(self) -> Frame:
        """The frame with all its columns."""
        frame: Frame = prepare(self.frame, self.steps)
        return frame


@dataclass(frozen=True)
class Clusters:
    """Sums per cluster: ``code[i]`` is the row of ``groups`` that cluster i belongs to."""

    groups: pd.DataFrame
    code: NDArray[np.intp]
    sums: dict[str, Floats]

    def total(self, values: Floats) -> Floats:
        """Sum of a per-cluster array over each group; NaN where it is more than a float holds."""
        return finite(np.bincount(self.code, weights=values, minlength=len(self.groups)).astype(np.float64))

    def each(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Each group's row number and some of its sums, over the clusters where the last of them is above 0."""
        order = np.argsort(self.code, kind="stable")
        ends = np.cumsum(np.bincount(self.code, minlength=len(self.groups)))
        parts = np.split(order, ends[:-1])
        for group, rows in zip(range(len(self.groups)), parts, strict=False):  # no group still makes one part
            kept = rows[self.sums[names[-1]][rows] > 0]
            yield group, *(self.sums[name][kept] for name in names)


@dataclass(frozen=True)
class Moments:
    """Per group: the sum of every measure, and of every ratio what `group_moments` adds."""

    groups: pd.DataFrame
    values: dict[str, Floats]

    def __getitem__(self, name: str) -> Floats:
        """One value per group."""
        return self.values[name]

    def count(self, name: str) -> Any:
        """One whole number per group."""
        return whole_numbers(self.values[name])


def finite(values: Floats) -> Floats:
    """Sums, NaN where one is more than a float holds."""
    return np.where(np.isinf(values), np.nan, values)


def scaled(values: Floats, total: Floats) -> Floats:
    """Divide by the power of two next above ``total``: exact, and afterwards squares neither overflow nor vanish."""
    with np.errstate(over="ignore"):  # of a total that is missing
        return np.ldexp(values, -np.frexp(total)[1])


def cluster_of(dtypes: Mapping[str, Any]) -> nw.Expr:
    """Name the cluster of a row: its run, else its case."""
    case = nw.col("case_id").cast(nw.String)
    return nw.coalesce(nw.col("run_id").cast(nw.String), case) if "run_id" in dtypes else case


def _group_key(name: str, dtype: Any) -> nw.Expr:
    column = nw.col(name)
    if dtype.is_float():  # NaN is missing in pandas and a value elsewhere: one missing key for all
        return nw.when(~column.is_nan()).then(column)
    if dtype in (nw.Categorical, nw.Enum):
        return column.cast(nw.String)
    return column


def _engine_sums(
    frame: nw.LazyFrame[Any], rows: Rows, by: Sequence[str], measures: Mapping[str, nw.Expr]
) -> nw.LazyFrame[Any]:
    keys = [f"__by{i}" for i in range(len(by))]
    grouped = [_group_key(name, rows.dtypes[name]).alias(key) for name, key in zip(by, keys, strict=True)]
    # Expressions come first, plain sums after: not every engine takes an expression inside an aggregation.
    named = [cluster_of(rows.dtypes).alias(CLUSTER), *(e.alias(name) for name, e in measures.items())]
    plain = prepare(frame, rows.steps).select(*grouped, *named)
    sums: nw.LazyFrame[Any] = plain.group_by(*keys, CLUSTER).agg(
        *(nw.col(name).sum() for name in measures), nw.len().alias(ROWS)
    )
    return sums


def collect_clusters(rows: Rows, by: Sequence[str], measures: Mapping[str, nw.Expr]) -> Clusters:
    """Bring the sums per cluster here, for resampling and leave-one-out.

    Parameters
    ----------
    rows
        One row per item, with ``case_id``, perhaps ``run_id``, and the ``by`` columns.
    by
        Names of the group columns.
    measures
        Name to a float64 expression over rows, to be summed. ``rows`` is added: how many there are.
    """
    if isinstance(rows.frame, nw.LazyFrame):
        sums = from_arrow(to_arrow(_engine_sums(rows.frame, rows, by, measures)))
        group_keys = [nw.col(f"__by{i}") for i in range(len(by))]
        summed = {name: nw.col(name).cast(nw.Float64) for name in (*measures, ROWS)}
        codes = sum_rows(sums, (), group_keys, nw.col(CLUSTER), summed, per_cluster=summed)
    else:
        group_keys = [_group_key(name, rows.dtypes[name]) for name in by]
        summed = {**measures, ROWS: nw.lit(1.0)}
        codes = sum_rows(rows.frame, rows.steps, group_keys, cluster_of(rows.dtypes), summed, per_cluster=summed)
    groups, order = _sorted(codes.keys, by)
    return Clusters(groups, order[codes.group_of], codes.cluster_sums)


def group_moments(
    rows: Rows,
    by: Sequence[str],
    measures: Mapping[str, nw.Expr],
    ratios: Mapping[str, tuple[str, str]],
    *,
    spread: str | None = None,
) -> Moments:
    """Add up per group, with the residual sums of some ratios.

    Parameters
    ----------
    rows, by, measures
        As for `collect_clusters`.
    ratios
        Name of a ratio to the measures (numerator y, denominator x). Adds ``<name>_m`` (clusters with x > 0),
        ``<name>_e2`` (Σ (y - R·x)², R = Σy / Σx of the group), ``<name>_x2`` (Σ x²) and ``<name>_each`` (Σ y / x).
        In the two sums of squares, y and x are `scaled` by the group's Σx.
    spread
        A measure x whose concentration over clusters with x > 0 is wanted: adds ``top`` (largest x) and
        ``ranked`` (Σ rank · x, ranks from 1, ties at their mean, x `scaled` by Σx).
    """
    if not isinstance(rows.frame, nw.LazyFrame):
        needed = {name for pair in ratios.values() for name in pair}
        group_keys = [_group_key(name, rows.dtypes[name]) for name in by]
        summed = {**measures, ROWS: nw.lit(1.0)}
        codes = sum_rows(rows.frame, rows.steps, group_keys, cluster_of(rows.dtypes), summed, per_cluster=needed)
        groups, order = _sorted(codes.keys, by)
        totals = {name: _put(finite(values), order) for name, values in codes.group_sums.items()}
        clusters = Clusters(groups, order[codes.group_of], codes.cluster_sums)
        return Moments(groups, {**moments_of(clusters, ratios, spread).values, **totals})
    got = _engine_moments(_engine_sums(rows.frame, rows, by, measures), by, ratios, spread)
    least, most = SQUARED
    wholes = [got[x] for _, x in ratios.values()]
    if all(np.all((whole == 0) | (whole > least) & (whole < most)) for whole in wholes):
        return got
    # The engine's own squares are not to be trusted at such weights: its sums per cluster are, and come here.
    return moments_of(collect_clusters(rows, by, measures), ratios, spread)


def _engine_moments(
    sums: nw.LazyFrame[Any], by: Sequence[str], ratios: Mapping[str, tuple[str, str]], spread: str | None
) -> Moments:
    names = [c for c in sums.collect_schema().names() if not c.startswith("__")]
    columns: dict[str, nw.Expr] = {name: nw.col(name) for name in names}
    for ratio, (y, x) in ratios.items():
        yes, total = nw.col(y), nw.col(x)
        no = total - yes
        positive = total > 0
        columns |= {
            f"{ratio}_m": nw.when(positive).then(nw.lit(1.0)).otherwise(nw.lit(0.0)),
            f"{ratio}_each": (yes / nw.when(positive).then(total)).fill_null(0.0),
            f"{ratio}_x2": total * total,
            f"{ratio}_yy": yes * yes,
            f"{ratio}_xy": total * yes,
            f"{ratio}_zz": no * no,
            f"{ratio}_xz": total * no,
        }
    aggregates = [nw.col(name).sum() for name in columns]
    if spread is not None:
        sums = sums.with_columns(nw.when(nw.col(spread) > 0).then(nw.col(spread)).alias("__held"))
        sums, keys = _keyed(sums, by)
        columns["top"] = nw.col("__held")
        columns["ranked"] = nw.col("__held").rank("average").over(*keys) * nw.col("__held")
        aggregates += [nw.col("top").max(), nw.col("ranked").sum()]
    got = _per_group(sums, by, columns, aggregates)
    for ratio, (y, x) in ratios.items():
        squares, sure = _squares(got, ratio, y, x)
        if not sure:
            squares = _residuals(sums, by, y, x)
        got.values[f"{ratio}_e2"] = scaled(scaled(squares, got[x]), got[x])
        got.values[f"{ratio}_x2"] = scaled(scaled(got[f"{ratio}_x2"], got[x]), got[x])
    if spread is not None:
        got.values["ranked"] = scaled(got["ranked"], got[spread])
    return got


def _squares(got: Moments, ratio: str, y: str, x: str) -> tuple[Floats, bool]:
    """Expand Σ (y - R·x)² into sums of products; also whether cancellation leaves them sure.

    Above one half it is taken of the rest, z = x - y, so that the terms are of the result's own size.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        rate = got[y] / got[x]
        low = rate <= 0.5
        share = np.where(low, rate, 1 - rate)
        own = np.where(low, got[f"{ratio}_yy"], got[f"{ratio}_zz"])
        cross = np.where(low, got[f"{ratio}_xy"], got[f"{ratio}_xz"])
        rest = share * share * got[f"{ratio}_x2"]
        squares = np.nan_to_num(np.maximum(own - 2 * share * cross + rest, 0.0))
        several = (got[f"{ratio}_m"] >= 2) & (share > EDGE)  # of one cluster, or one verdict, nothing is unsure
        return squares, not np.any(several & (squares < CANCELLED * (own + rest)))


def _residuals(sums: nw.LazyFrame[Any], by: Sequence[str], y: str, x: str) -> Floats:
    """Sum (y - R·x)² in a second pass that knows R: for groups whose clusters hardly differ."""
    sums, keys = _keyed(sums, by)
    whole = nw.col(x).sum().over(*keys)
    # The null in place of 0 keeps engines that refuse to divide by zero at work; such groups have no residual.
    rate = nw.col(y).sum().over(*keys) / nw.when(whole > 0).then(whole)
    residual = nw.when(nw.col(x) > 0).then(nw.col(y) - rate * nw.col(x)).otherwise(nw.lit(0.0))
    sums = sums.with_columns(residual.alias("__residual"))
    return _per_group(sums, by, {"e2": nw.col("__residual") * nw.col("__residual")}, [nw.col("e2").sum()])["e2"]


def _keyed(sums: nw.LazyFrame[Any], by: Sequence[str]) -> tuple[nw.LazyFrame[Any], list[str]]:
    """Name the group columns; without any, one that all rows share."""
    if by:
        return sums, [f"__by{i}" for i in range(len(by))]
    return sums.with_columns(nw.lit(0).alias("__all")), ["__all"]


def _per_group(
    sums: nw.LazyFrame[Any], by: Sequence[str], columns: Mapping[str, nw.Expr], aggregates: Sequence[nw.Expr]
) -> Moments:
    sums, keys = _keyed(sums, by)
    named = [expression.alias(name) for name, expression in columns.items()]
    table = to_arrow(sums.select(*keys, *named).group_by(*keys).agg(*aggregates))
    filled = {name: table[name].cast(pa.float64()).fill_null(0.0).to_numpy() for name in columns}
    values = {name: finite(column) for name, column in filled.items()}
    if not by and table.num_rows == 0:
        return Moments(pd.DataFrame(index=range(1)), {name: np.zeros(1) for name in values})
    groups, order = _sorted(table.select(keys if by else []), by, rows=table.num_rows)
    return Moments(groups, {name: _put(column, order) for name, column in values.items()})


# What cannot be is refused after the sums are taken, so NaN may pass through here; 0 / 0 is an empty group.
@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def moments_of(clusters: Clusters, ratios: Mapping[str, tuple[str, str]], spread: str | None = None) -> Moments:
    """Do as `group_moments` does, from sums per cluster that are already here."""
    total, sums, code = clusters.total, clusters.sums, clusters.code
    values = {name: total(column) for name, column in sums.items()}
    for ratio, (y, x) in ratios.items():
        rate = values[y] / values[x]
        each = sums[y] / sums[x]
        positive = sums[x] > 0
        yes, held = (scaled(sums[name], values[x][code]) for name in (y, x))
        residual = np.where(positive, yes - rate[code] * held, 0.0)
        values[f"{ratio}_m"] = total(positive.astype(np.float64))
        values[f"{ratio}_e2"] = total(residual * residual)
        values[f"{ratio}_x2"] = total(held * held)
        values[f"{ratio}_each"] = total(np.where(positive, each, 0.0))
    if spread is not None:
        some = sums[spread] > 0
        part = pd.DataFrame({"code": code, "x": scaled(sums[spread], values[spread][code])})[some]
        ranked = part["x"] * part.groupby("code")["x"].rank(method="average")
        values["ranked"] = np.bincount(part["code"], weights=ranked, minlength=len(clusters.groups)).astype(np.float64)
        top = np.zeros(len(clusters.groups))
        np.maximum.at(top, code, sums[spread])
        values["top"] = top
    return Moments(clusters.groups, values)


def _sorted(keys: pa.Table, by: Sequence[str], *, rows: int = 1) -> tuple[pd.DataFrame, NDArray[np.intp]]:
    """Sort groups by their keys, missing last; also the new place of each old row."""
    if not by:
        return pd.DataFrame(index=range(rows)), np.arange(rows, dtype=np.intp)
    groups = to_pandas(keys).set_axis(list(by), axis=1)
    ordered = groups.sort_values(list(by), na_position="last", kind="stable")
    place = np.empty(len(groups), dtype=np.intp)
    place[ordered.index.to_numpy()] = np.arange(len(groups))
    return ordered.reset_index(drop=True), place


def _put(values: Floats, place: NDArray[np.intp]) -> Floats:
    moved = np.empty_like(values)
    moved[place] = values
    return moved
