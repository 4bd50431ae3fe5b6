"""Which corrected item is which item of its case's output, as the server matches them.

An item keyed by its own id is the same item when the key is. Any other (an answer, a whole output, an element keyed by
its place) is so only when it also stands where the correction's pointer points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
from narwhals.typing import IntoFrame

from casekit.stats.clusters import Moments, Rows, group_moments
from casekit.stats.frames import (
    Frame,
    Weights,
    case_keys,
    check_names,
    check_single,
    columns_of,
    left_join,
    quoted,
    scan,
    stack,
    to_arrow,
    together,
)
from casekit.stats.weights import open_items, refuse_contradictions, when

__all__ = ["Matched", "match"]

CASE = ("test_set_id", "version", "case_id")


@dataclass(frozen=True)
class Matched:
    """Outputs' items with their corrections, and corrected items with what became of them.

    ``outputs`` has a row per item of an output: ``__y``, ``__x``, ``__n`` (weights and corrections, 0 without),
    ``__judged`` (1 when corrected) and ``__unknown`` (1 when its expert weights are missing). ``items`` has a row per
    corrected item: the same, and ``__bad``, ``__unmatched``, ``__hit`` (missing where no output has it); ``__listed``
    and ``__ranked`` are missing where its case's output has no items, or no lists. Both have the columns asked for.
    """

    source: IntoFrame
    opened: Rows
    outputs: Frame
    items: Frame
    by: list[str]

    def moments(
        self, outputs: Mapping[str, nw.Expr], items: Mapping[str, nw.Expr], ratios: Mapping[str, tuple[str, str]]
    ) -> Moments:
        """Sum measures of outputs' rows and of items' rows together, per group; see `group_moments`."""
        items = {
            **items,
            **{name: nw.col(f"__{name}") for name in ("unknown", "bad", "unmatched")},
            "corrected": nw.lit(1.0),
        }
        names = list(dict.fromkeys((*outputs, *items)))
        rows = stack(*(_measured(*part, self.by, names) for part in ((self.outputs, outputs), (self.items, items))))
        groups = [f"__g{i}" for i in range(len(self.by))]
        measures = {name: nw.col(f"__m{name}") for name in names}
        got = group_moments(Rows(rows, dict(rows.collect_schema())), groups, measures, ratios)
        refuse_contradictions(self.source, self.opened, float(got["bad"].sum()))
        return Moments(got.groups.set_axis(self.by, axis=1) if self.by else got.groups, got.values)


def match(
    ranked: IntoFrame,
    items: IntoFrame,
    by: Sequence[str],
    weights: Weights,
    *,
    of_outputs: Sequence[str] = (),
    of_items: Sequence[str] = (),
) -> Matched:
    """Join corrected items to the items of outputs.

    Parameters
    ----------
    ranked
        Items of outputs, as ``output_items`` lists them.
    items
        Corrected items.
    by
        Group columns, which both frames must have.
    weights
        Whose weight counts.
    of_outputs, of_items
        Further columns needed of each frame.
    """
    have, stored = columns_of(ranked, called="ranked"), columns_of(items)
    check_names(have, ("case_id", "key", "pointer", "own_key", *of_outputs, *by), frame="ranked")
    case = [name for name in CASE if name in have and name in stored]
    keys = [*(f"__k{i}" for i in range(2 * len(case))), "__key"]
    identity = [*case_keys(case), nw.col("key").cast(nw.String).alias("__key")]
    run = [name for name in ("run_id",) if name in have]
    outputs: Any = scan(ranked, [*case, "key", "pointer", "own_key", *of_outputs, *by, *run])
    check_single(outputs.collect_schema(), ("case_id", "key", "pointer", *by), frame="ranked")
    outputs = outputs.with_columns(*identity)
    opened = open_items(items, weights=weights, columns=("key", "pointer", *of_items, *by, *case))
    judged = nw.col("__items") if weights == "expert" else nw.lit(1.0)
    corrected: Any = opened.prepared().with_columns(
        *identity, nw.col("pointer").cast(nw.String).alias("__pointer"), judged.alias("__judged")
    )
    outputs, corrected = together(outputs, corrected)
    _refuse_twice(corrected, keys)
    values = ("__y", "__x", "__n", "__judged", "__unknown")
    outputs = left_join(outputs, corrected.select(*keys, "__pointer", *values), keys)
    same = nw.col("own_key") | (nw.col("pointer").cast(nw.String) == nw.col("__pointer")).fill_null(False)
    outputs = outputs.with_columns(when(same & ~nw.col("__judged").is_null()).alias("__same"))
    outputs = outputs.with_columns(*(when(nw.col("__same") > 0, nw.col(name)).alias(name) for name in values))
    hits = outputs.filter(nw.col("__same") > 0).select(*keys).unique().with_columns(nw.lit(1.0).alias("__hit"))
    place = when(~nw.col("place").is_null()) if "place" in of_outputs else nw.lit(1.0)
    cases = outputs.select(*keys[:-1], place.alias("__ranked"), nw.lit(1.0).alias("__listed"))
    cases = cases.group_by(*keys[:-1]).agg(nw.col("__ranked").max(), nw.col("__listed").max())
    cases = cases.with_columns(nw.when(nw.col("__ranked") > 0).then(nw.col("__ranked")).alias("__ranked"))
    corrected = left_join(left_join(corrected, hits, keys), cases, keys[:-1])
    missed = nw.col("__hit").is_null() & ~nw.col("__listed").is_null()
    return Matched(items, opened, outputs, corrected.with_columns(when(missed).alias("__unmatched")), list(by))


def _refuse_twice(items: Any, keys: Sequence[str]) -> None:
    counted = items.select(*keys, "case_id", nw.lit(1).alias("__n"))
    counted = counted.group_by(*keys, "case_id").agg(nw.col("__n").sum()).filter(nw.col("__n") > 1)
    twice = to_arrow(counted.sort("case_id", "__key").head(1)).to_pylist()
    if twice:
        case, key, n = (twice[0][name] for name in ("case_id", "__key", "__n"))
        raise ValueError(
            f"Case {quoted(case)} has {n} corrected items with the key {quoted(key)}: keep the one that is meant."
        )


def _measured(frame: Frame, measures: Mapping[str, nw.Expr], by: Sequence[str], names: Sequence[str]) -> Frame:
    run = nw.col("run_id") if "run_id" in frame.collect_schema().names() else nw.lit(None)
    return frame.select(
        *(nw.col(name).alias(f"__g{i}") for i, name in enumerate(by)),
        nw.col("case_id").cast(nw.String),
        run.cast(nw.String).alias("run_id"),
        *(measures.get(name, nw.lit(0.0)).cast(nw.Float64).alias(f"__m{name}") for name in names),
    )
