"""What a CaseSet shows of itself: counts in words, the same for the same cases in any process."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from casekit.errors import one_line
from casekit.report import PullReport

__all__ = ["counted", "facts", "html_card", "live_title"]

Facts = list[tuple[str, str]]

AGENTS_NAMED = 3  # in a title; of more, only how many

# A border and an opacity show on light and dark pages alike; all colours are the page's own.
_BOX = (
    "display:inline-block;box-sizing:border-box;max-width:600px;border:1px solid rgba(128,128,128,.4);"
    "border-radius:6px;padding:10px 14px;font-family:sans-serif;font-size:13px;color:inherit;background:transparent"
)
_HEAD = "text-align:left;padding:2px 16px 2px 0;font-weight:600;vertical-align:top;white-space:nowrap"
_TABLE = "border-collapse:collapse;font-size:inherit;color:inherit;background:transparent"
_CELL = "text-align:left;padding:2px 0;overflow-wrap:anywhere"
_PLAIN = "tex2jax_ignore mathjax_ignore"  # a dollar sign is no formula


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
    return lines + ([("notes", "; ".join(notes))] if notes else [])


def counted(count: int, noun: str) -> str:
    """A count and its noun.

    Examples
    --------
    >>> counted(1, "case"), counted(1200, "case")
    ('1 case', '1,200 cases')
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _evidence(items: pa.Table) -> Facts:
    yes, no = (_count(items[name]) for name in ("yes", "no"))
    experts = items["expert_total_weight"]
    unknown = experts.null_count
    weight = f"{_total(items['total_weight']):,.6g}, experts "
    weight += "unknown" if unknown and unknown == items.num_rows else f"{_total(experts):,.6g}"
    weight += f" (unknown for {counted(unknown, 'item')})" if 0 < unknown < items.num_rows else ""
    return [
        ("items", f"{items.num_rows:,}"),
        ("corrections", f"{yes + no:,}: {yes:,} yes, {no:,} no"),
        ("weight", weight),
    ]


def _count(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column, min_count=0).as_py())


def _total(column: pa.ChunkedArray) -> float:
    """The sum of what is known, to the last bit the same however the rows are chunked."""
    return math.fsum(column.drop_null().to_numpy())


def live_title(cases: pa.Table) -> str:
    """A title for live test sets of several agents."""
    agents = [one_line(agent, 80) for agent in sorted(pc.unique(cases["subject_id"]).to_pylist())]
    named = ", ".join(agents) if len(agents) <= AGENTS_NAMED else f"{len(agents)} agents"
    return f"live test sets of {named}"


def html_card(title: str, lines: Facts) -> str:
    """The lines as HTML that a notebook shows; every text in it is escaped."""
    rows = "".join(
        f'<tr><th style="{_HEAD}">{html.escape(name)}</th><td style="{_CELL}">{html.escape(text)}</td></tr>'
        for name, text in lines
    )
    return (
        f'<div class="{_PLAIN}" style="{_BOX}"><div style="font-weight:600;margin-bottom:6px;overflow-wrap:anywhere">'
        f'CaseSet <span style="font-weight:400;opacity:.75">{html.escape(title)}</span></div>'
        f'<table style="{_TABLE}">{rows}</table></div>'
    )
