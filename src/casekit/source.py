"""Where cases came from, and what filters left out since."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from casekit.errors import counted, one_line

__all__ = ["LeftOut", "Source"]


@dataclass(frozen=True)
class Source:
    """Where the cases of a CaseSet came from.

    Attributes
    ----------
    test_sets : tuple of (str, str)
        Test set and version, in order.
    agent_id : str or None
        The agent, when the cases are its live test set.
    origin : str or None
        Scheme, host and port of the server; never a token or a path.
    fetched_at : datetime or None
        When the last page came (UTC). Of several snapshots, the oldest.
    folders : tuple of str
        The snapshot folders read, when the cases came from some; a URL without what gives access to it.

    Examples
    --------
    >>> Source(test_sets=(("acme.demo", "1.0.0"), ("acme.demo", "1.1.0"))).title()
    'acme.demo 1.0.0, acme.demo 1.1.0'
    """

    test_sets: tuple[tuple[str, str], ...] = ()
    agent_id: str | None = None
    origin: str | None = None
    fetched_at: datetime | None = None
    folders: tuple[str, ...] = ()

    @property
    def age(self) -> timedelta | None:
        """How long ago the last page came, by this machine's clock; None where that is unknown.

        Less than zero where the clocks disagree.
        """
        return None if self.fetched_at is None else datetime.now(UTC) - self.fetched_at

    def title(self, limit: int = 80) -> str:
        """What was read, in a few words.

        Parameters
        ----------
        limit
            Characters of each name.

        Returns
        -------
        str
            The agent, or the first three test sets with their versions and how many more; ``"no test set"`` without.
        """
        if self.agent_id is not None:
            return f"live test set of {one_line(self.agent_id, limit)}"
        names = [one_line(f"{name} {version}", limit) for name, version in self.test_sets[:3]]
        more = len(self.test_sets) - 3
        return ", ".join(names) + (f" and {more} more" if more > 0 else "") or "no test set"


@dataclass(frozen=True)
class LeftOut:
    """What one filter left out.

    Attributes
    ----------
    filter : str
        Name of the filter.
    cases, items : int
        How many cases, and items of those cases, it left out.
    not_listed : tuple of str
        Ids of cases that the live list given to the filter does not have; they were kept.

    Examples
    --------
    >>> print(LeftOut("without_erased", cases=3, items=7))
    without_erased: 3 cases, 7 items
    """

    filter: str
    cases: int
    items: int
    not_listed: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The counts in words."""
        text = f"{self.filter}: {counted(self.cases, 'case')}, {counted(self.items, 'item')}"
        return text + (f" ({len(self.not_listed):,} not in the live list, kept)" if self.not_listed else "")
