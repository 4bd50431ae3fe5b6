"""What a CaseSet says of itself, line by line: counts in words, the same for the same cases in any process."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from casekit.card import Facts
from casekit.errors import counted, one_line
from casekit.report import PullReport

__all__ = ["facts", "live_title", "weight_in_all"]

AGENTS_NAMED = 3  # in a title; of more, only how many


def facts(tables: Mapping[str, pa.Table], report: PullReport, left_out: Sequence[object]) -> Facts:
    """Name and text of each line.

    Parameters
    ----------
    tables
        Of the CaseSet.
    report, left_out
        What the load met, and what the filters left out.
    """
    cases = tables["cases"]
    erased, retired = (_count(cases[name]) for name in ("erased", "retired"))
    lines = [("cases", f"{cases.num_rows:,}" + (f", {erased:,} erased" if erased else ""))]
    live = cases.num_rows - cases["kind"].null_count
    if live < cases.num_rows or not live:
        lines += _evidence(tables["items"])
    if live:
        lines += [("retired", f"{retired:,}")]
    lines += [("left out", "; ".join(map(str, left_out)))] if left_out else []
    met = [
        (len(report.unknown_fields), "unknown field", "kept"),
        (len(report.odd_values), "odd value", "kept"),
        (len(report.bad_cases), "unreadable case", "left out"),
        (report.replaced_characters, "lone surrogate", "replaced"),
    ]
    notes = [f"{counted(count, noun)} {what}" for count, noun, what in met if count]
    lines += [("notes", "; ".join(notes))] if notes else []
    return lines


def _evidence(items: pa.Table) -> Facts:
    yes, no = (_count(items[name]) for name in ("yes", "no"))
    experts = items["expert_total_weight"]
    unknown = experts.null_count
    weight = f"{weight_in_all(items['total_weight'].to_numpy())}, experts "
    known = experts.drop_null().to_numpy()
    weight += "unknown" if unknown and unknown == items.num_rows else weight_in_all(known)
    weight += f" (unknown for {counted(unknown, 'item')})" if 0 < unknown < items.num_rows else ""
    return [
        ("items", f"{items.num_rows:,}"),
        ("corrections", f"{yes + no:,}: {yes:,} yes, {no:,} no"),
        ("weight", weight),
    ]


def _count(column: pa.ChunkedArray) -> int:
    """The sum, also where it is more than 64 bits hold."""
    return int(pc.sum(column.cast(pa.int64()).cast(pa.decimal128(38)), min_count=0).as_py())


def weight_in_all(weights: Iterable[float]) -> str:
    """What weights add up to, to the last bit the same in whatever order they come.

    Examples
    --------
    >>> weight_in_all([0.1] * 10), weight_in_all([1e308, 1e308])
    ('1', 'too large to add up')
    """
    try:
        weight = math.fsum(weights)
    except OverflowError:
        return "too large to add up"
    return f"{weight:,.0f}" if 1e5 <= weight < 1e15 else f"{weight:,.6g}"


def live_title(cases: pa.Table) -> str:
    """A title for live test sets of several agents."""
    agents = [one_line(agent, 80) for agent in sorted(pc.unique(cases["subject_id"]).to_pylist())]
    named = ", ".join(agents) if len(agents) <= AGENTS_NAMED else f"{len(agents)} agents"
    return f"live test sets of {named}"
