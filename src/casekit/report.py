"""What a load did and met: the counts that prove nothing was lost in silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import msgspec

__all__ = ["BadCase", "PullReport"]

PATHS_KEPT = 1000  # paths of unknown members and odd values that are counted one by one
OTHER_PATHS = "(other paths)"
REQUEST_IDS_KEPT = 1000  # ids; enough to ask a server's operator about a pull, bounded for a long one


@dataclass(frozen=True)
class BadCase:
    """A case that could not be read and was left out because the caller asked for a report.

    Attributes
    ----------
    case_id : str or None
        Its id, where it could be read.
    path : str
        JSON Pointer (RFC 6901) from the case to the field.
    problem : str
        What is wrong there, without the case's own words.
    """

    case_id: str | None
    path: str
    problem: str


def _note(counter: Counter[str], paths: Iterable[str]) -> None:
    for path in paths:
        known = path in counter or len(counter) < PATHS_KEPT
        counter[path if known else OTHER_PATHS] += 1


@dataclass
class PullReport:
    """What one load did: requests, waiting, and everything unusual it met.

    Attributes
    ----------
    pages : int
        Pages read (of the walk that was kept).
    cases : int
        Cases given out.
    erased : int
        Of those, cases that an erasure cleared.
    duplicates : int
        Cases that came twice, equal, and were kept once.
    retries : int
        Requests sent again.
    waited : float
        Seconds spent waiting before them.
    restarts : int
        Walks begun again because a cursor had expired.
    bytes : int
        Bytes of the pages' bodies, decompressed.
    request_ids : list of str
        The server's ids of the requests, the first 1,000.
    unknown_fields : Counter
        Members this version does not know, by path (``*`` for any index), with how often; kept in ``extra_json``.
    odd_values : Counter
        Values that no column holds as they came (a null where the contract has none, a number beyond a double's exact
        range), by path, with how often; kept in ``extra_json``.
    absent_fields : Counter
        Members that newer servers send and this one left out, with how often.
    replaced_characters : int
        Lone surrogates that became U+FFFD, because no text file can hold them.
    careful_pages : int
        Pages that the fast road refused and the careful road read.
    bad_cases : list of BadCase
        Cases left out (only with ``on_error="report"``).
    """

    pages: int = 0
    cases: int = 0
    erased: int = 0
    duplicates: int = 0
    retries: int = 0
    waited: float = 0.0
    restarts: int = 0
    bytes: int = 0
    request_ids: list[str] = field(default_factory=list)
    unknown_fields: Counter[str] = field(default_factory=Counter)
    odd_values: Counter[str] = field(default_factory=Counter)
    absent_fields: Counter[str] = field(default_factory=Counter)
    replaced_characters: int = 0
    careful_pages: int = 0
    bad_cases: list[BadCase] = field(default_factory=list)

    def note_unknown(self, paths: Iterable[str]) -> None:
        """Count unknown members; of a server that makes up names without end, the first 1,000 paths by name."""
        _note(self.unknown_fields, paths)

    def note_odd(self, paths: Iterable[str]) -> None:
        """Count values that no column holds as they came."""
        _note(self.odd_values, paths)

    def note_request(self, request_id: str | None) -> None:
        """Keep the server's id of a request, if it gave one and there is room."""
        if request_id and len(self.request_ids) < REQUEST_IDS_KEPT:
            self.request_ids.append(request_id)

    def add(self, other: PullReport) -> None:
        """Add another load's counts to this one's."""
        for f in fields(self):
            mine, theirs = getattr(self, f.name), getattr(other, f.name)
            setattr(self, f.name, mine + theirs)
        del self.request_ids[REQUEST_IDS_KEPT:]

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON values.

        Examples
        --------
        >>> PullReport(pages=2, cases=120).to_dict()["cases"]
        120
        """
        out = asdict(self)
        for name in ("unknown_fields", "odd_values", "absent_fields"):
            out[name] = dict(sorted(getattr(self, name).items()))
        return out

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> PullReport:
        """The report that `to_dict` wrote; members of a newer version are left aside.

        Raises
        ------
        msgspec.ValidationError
            A member is not what `to_dict` writes.
        """

        def counter(_: type, value: Any) -> Any:
            return Counter(msgspec.convert(value, dict[str, int]))

        return msgspec.convert(values, cls, dec_hook=counter)

    def __str__(self) -> str:
        """The counts in words; what did not happen is not listed."""
        parts = [f"{self.cases:,} cases on {self.pages:,} pages ({self.bytes / 1e6:.1f} MB)"]
        parts += [f"{self.erased:,} erased"] if self.erased else []
        parts += [f"{self.duplicates:,} came twice"] if self.duplicates else []
        parts += [f"{self.retries:,} retries, {self.waited:.1f} s waited"] if self.retries else []
        parts += [f"begun again {self.restarts} x"] if self.restarts else []
        parts += [f"{len(self.unknown_fields)} unknown fields kept"] if self.unknown_fields else []
        parts += [f"{len(self.odd_values)} odd values kept"] if self.odd_values else []
        parts += [f"{self.replaced_characters:,} lone surrogates replaced"] if self.replaced_characters else []
        parts += [f"{len(self.bad_cases):,} unreadable cases left out"] if self.bad_cases else []
        return "; ".join(parts)
