"""One line that says what some cases are, for a paper: whoever holds the same cases gets the same hash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from casekit import __version__
from casekit.errors import ConfigError, counted
from casekit.report import PullReport
from casekit.wire import case_digests, content_hash

if TYPE_CHECKING:
    from casekit.source import LeftOut, Source

__all__ = ["citation"]

HASH_DIGITS: Final = 16  # of 64; two sets of cases share them once in 2^64 pairs


def citation(
    title: str, tables: Mapping[str, pa.Table], source: Source, report: PullReport, left_out: Sequence[LeftOut]
) -> str:
    """One line about some cases.

    Parameters
    ----------
    title
        The test sets with their versions, or the agents.
    tables, source, report, left_out
        Of the CaseSet.

    Raises
    ------
    ConfigError
        The tables do not belong together, so that they have no hash.
    """
    try:
        digest = content_hash(case_digests(dict(tables)))
    except ValueError as error:
        raise ConfigError(f"these cases cannot be cited: {error}; load them again") from None
    parts = [title, ", ".join(_counts(tables)), _fetched(source)]
    parts += [f"filtered by {part}" for part in left_out]
    parts += [f"{counted(len(report.bad_cases), 'unreadable case')} left out"] if report.bad_cases else []
    digits = f"(SHA-256, first {HASH_DIGITS} hex digits)"
    return "; ".join([*parts, f"content hash {digest[:HASH_DIGITS]} {digits}", f"casekit {__version__}"])


def _counts(tables: Mapping[str, pa.Table]) -> list[str]:
    """How many there are of each; live cases have no items, so that nothing is known of theirs."""
    cases, items = tables["cases"], tables["items"]
    erased, retired, corrections = (
        sum(pc.sum(column, min_count=0).as_py() for column in columns)
        for columns in ([cases["erased"]], [cases["retired"]], [items["yes"], items["no"]])
    )
    marks = [f"{count:,} {what}" for count, what in ((erased, "erased"), (retired, "retired")) if count]
    live = cases.num_rows - cases["kind"].null_count
    if 0 < live < cases.num_rows:
        marks.append(f"{live:,} of live test sets")
    counts = [counted(cases.num_rows, "case") + (f" ({', '.join(marks)})" if marks else "")]
    if live < cases.num_rows or not live:
        counts += [counted(items.num_rows, "item"), counted(corrections, "correction")]
    return counts


def _fetched(source: Source) -> str:
    if source.fetched_at is None:
        return "date fetched unknown"
    several = len(source.folders) > 1
    return f"{'oldest ' if several else ''}fetched {source.fetched_at.astimezone(UTC):%Y-%m-%d} (UTC)"
