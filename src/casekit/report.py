"""What a load did and met: the counts that prove nothing was lost in silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from casekit.card import Facts, html_card, sized, text_card
from casekit.errors import ConfigError, counted, one_line

__all__ = ["BadCase", "OnError", "PullReport", "check_on_error"]

OnError: TypeAlias = Literal["raise", "report"]  # what to do about a case that cannot be read

PATHS_KEPT = 1000  # paths of unknown members and odd values that are counted one by one
OTHER_PATHS = "(other paths)"
REQUEST_IDS_KEPT = 1000  # ids; enough to ask a server's operator about a pull, bounded for a long one
SHOWN = 3  # of ids, paths and unreadable cases, on the card; of more, how many


def check_on_error(on_error: object) -> None:
    """Refuse another word than the two.

    Raises
    ------
    ConfigError
        It is another.
    """
    if on_error not in get_args(OnError):
        raise ConfigError(f"on_error is 'raise' or 'report', not {one_line(repr(on_error), 100)}")


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


@dataclass(repr=False)
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

    Examples
    --------
    >>> print(PullReport(pages=2, cases=120, erased=3, bytes=400_000))
    120 cases on 2 pages (0.4 MB); 3 erased
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
        """Count unknown members; of a server that makes up names without end, the first 1,000 paths by name.

        Parameters
        ----------
        paths
            Path of each, as often as it was met.
        """
        _note(self.unknown_fields, paths)

    def note_odd(self, paths: Iterable[str]) -> None:
        """Count values that no column holds as they came; of many paths, the first 1,000 by name.

        Parameters
        ----------
        paths
            Path of each, as often as it was met.
        """
        _note(self.odd_values, paths)

    def note_request(self, request_id: str | None) -> None:
        """Keep the server's id of a request, if it gave one and there is room.

        Parameters
        ----------
        request_id
            The id; None where the server gave none.
        """
        if request_id and len(self.request_ids) < REQUEST_IDS_KEPT:
            self.request_ids.append(request_id)

    def add(self, other: PullReport) -> None:
        """Add another load's counts to this one's.

        Parameters
        ----------
        other
            The other report. Not changed.
        """
        for f in fields(self):
            mine, theirs = getattr(self, f.name), getattr(other, f.name)
            setattr(self, f.name, mine + theirs)
        del self.request_ids[REQUEST_IDS_KEPT:]

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON values.

        Returns
        -------
        dict
            One member per attribute, paths in order.

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
        """The report that `to_dict` wrote.

        Parameters
        ----------
        values
            What it wrote; members of a newer version are left aside, and one that is missing is as in a new report.

        Returns
        -------
        PullReport
            Equal to the one that was written.

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

    def _facts(self) -> Facts:
        """Name and text of each line of the card; what did not happen has no line, but for unreadable cases."""
        cases = f"{self.cases:,}" + (f", {self.erased:,} erased" if self.erased else "")
        road = f", {self.careful_pages:,} of them by the careful road" if self.careful_pages else ""
        lines = [("cases", cases), ("pages", f"{self.pages:,}, {sized(self.bytes)}{road}")]
        lines += [("came twice", f"{counted(self.duplicates, 'case')}, kept once")] if self.duplicates else []
        if self.retries or self.waited:
            lines += [("retries", f"{counted(self.retries, 'request')} sent again, {self.waited:,.1f} s waited")]
        lines += (
            [("begun again", f"{counted(self.restarts, 'time')}, because a cursor had expired")]
            if self.restarts
            else []
        )
        paths = {"unknown fields": self.unknown_fields, "odd values": self.odd_values}
        lines += [(name, f"kept in extra_json: {_most(paths_)}") for name, paths_ in paths.items() if paths_]
        if absent := +self.absent_fields:  # without those that were never missed
            lines += [("absent fields", f"this server leaves out {_most(absent)}")]
        if self.replaced_characters:
            lines += [("replaced", f"{counted(self.replaced_characters, 'lone surrogate')}, by U+FFFD")]
        lines += [("unreadable", self._unreadable())]
        return lines + ([("request ids", _some(self.request_ids))] if self.request_ids else [])

    def _unreadable(self) -> str:
        named = [
            f"{one_line(bad.case_id or '(no id)', 60)} at {one_line(bad.path or '/', 60)}: {one_line(bad.problem, 80)}"
            for bad in self.bad_cases[:SHOWN]
        ]
        left_out = f"{counted(len(self.bad_cases), 'case')} left out: " if named else ""
        return left_out + "; ".join(named or ["none"]) + _more(len(self.bad_cases))

    def __repr__(self) -> str:
        """The card in text."""
        return text_card("", self._facts(), kind="PullReport")

    def _repr_html_(self) -> str:
        """The card that a notebook shows."""
        return html_card("", self._facts(), kind="PullReport")


def _most(paths: Counter[str]) -> str:
    """The paths that were met most, with how often; the same whatever order they were met in."""
    often = sorted(paths.items(), key=lambda entry: (-entry[1], entry[0]))
    return ", ".join(f"{one_line(path, 60)} ({count:,} ×)" for path, count in often[:SHOWN]) + _more(len(paths))


def _some(ids: list[str]) -> str:
    kept = f" (the first {REQUEST_IDS_KEPT:,} are kept)" if len(ids) == REQUEST_IDS_KEPT else ""
    return ", ".join(one_line(one, 60) for one in ids[:SHOWN]) + _more(len(ids)) + kept


def _more(count: int) -> str:
    return f" and {count - SHOWN:,} more" if count > SHOWN else ""
