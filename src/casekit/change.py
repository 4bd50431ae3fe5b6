"""What a refresh changed in a snapshot."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from casekit.card import Facts, html_card, text_card
from casekit.errors import counted, one_line
from casekit.report import PullReport

__all__ = ["SnapshotChange"]

IDS_SHOWN: Final = 5  # of each sort, on the card; of more, how many
HASH_SHOWN: Final = 16  # characters


@dataclass(frozen=True, repr=False)
class SnapshotChange:
    """What a refresh changed in a snapshot, case by case.

    Each case that the snapshot had or has is counted once: as added, changed, erased, gone or unchanged. Cases that the
    refresh could not read, which ``on_error="report"`` leaves out, stand in ``report.bad_cases`` instead.

    Attributes
    ----------
    title : str
        Which test set it is, in a few words.
    added : tuple of str
        Ids of cases that came new, in the server's order; one may be erased already.
    changed : tuple of str
        Ids of cases whose content differs, other than by an erasure; a retired case is one.
    erased : tuple of str
        Ids of cases that an erasure cleared since; those that were erased before are not listed again.
    gone : tuple of str
        Ids of cases that the server lists no more, in the order they had.
    unchanged : int
        How many cases are as they were.
    content_hash_before, content_hash_after : str
        Content hashes of the two states; equal where nothing changed.
    fetched_at_before, fetched_at_after : datetime
        When the two states came, in UTC.
    report : PullReport
        What the refresh did and met.

    Examples
    --------
    >>> from datetime import UTC
    >>> days = [datetime(2026, 3, day, tzinfo=UTC) for day in (1, 2)]
    >>> ids = {"added": ("case-3",), "changed": (), "erased": ("case-1",), "gone": ()}
    >>> SnapshotChange("acme.demo 1.0.0", **ids, unchanged=1, content_hash_before="0" * 64,
    ...                content_hash_after="f" * 64, fetched_at_before=days[0], fetched_at_after=days[1],
    ...                report=PullReport())
    SnapshotChange: acme.demo 1.0.0
      added        1: case-3
      changed      0
      erased       1: case-1
      gone         0
      unchanged    1
      content      0000000000000000 → ffffffffffffffff
    """

    title: str
    added: tuple[str, ...]
    changed: tuple[str, ...]
    erased: tuple[str, ...]
    gone: tuple[str, ...]
    unchanged: int
    content_hash_before: str
    content_hash_after: str
    fetched_at_before: datetime
    fetched_at_after: datetime
    report: PullReport = field(compare=False)

    def _facts(self) -> Facts:
        """Name and text of each line: the same for the same change, whenever it was made."""
        lines = [(name, _named(getattr(self, name))) for name in ("added", "changed", "erased", "gone")]
        lines += [("unchanged", f"{self.unchanged:,}")]
        bad = len(self.report.bad_cases)
        lines += [("unreadable", f"{counted(bad, 'case')} left out")] if bad else []
        before, after = (one[:HASH_SHOWN] for one in (self.content_hash_before, self.content_hash_after))
        return [*lines, ("content", f"{after}, as before" if after == before else f"{before} → {after}")]

    def __repr__(self) -> str:
        """The change in words."""
        return text_card(self.title, self._facts(), kind="SnapshotChange")

    def _repr_html_(self) -> str:
        """The card that a notebook shows."""
        return html_card(self.title, self._facts(), kind="SnapshotChange")


def _named(ids: tuple[str, ...]) -> str:
    shown = ", ".join(one_line(one, 60) for one in ids[:IDS_SHOWN])
    more = f" and {len(ids) - IDS_SHOWN:,} more" if len(ids) > IDS_SHOWN else ""
    return f"{len(ids):,}" + (f": {shown}{more}" if ids else "")
