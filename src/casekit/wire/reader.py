"""A walk over the pages of a list: tables come out, and the counts that prove that nothing was lost in silence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from casekit import collector
from casekit.errors import IncompletePull, LimitError, one_line
from casekit.report import OnError, PullReport, check_on_error
from casekit.wire.arrow import Tables, agent_tables, corrections_tables
from casekit.wire.digest import case_digests
from casekit.wire.group import Group
from casekit.wire.lists import Deep, Lists, agent_lists, corrections_lists, deep_path
from casekit.wire.roads import Batch, Unreadable, read_page
from casekit.wire.structs import AgentCase, Case
from casekit.wire.times import bad_times

__all__ = ["Reader"]

IDLE_PAGES: Final = 100  # pages in a row without a new case, after which a list is taken for endless

_LEFT_OUT: Final = -1


@dataclass(frozen=True)
class _Kind:
    """What a list holds, and how it becomes tables."""

    case: type[Struct]
    lists: Callable[[list[Any], list[bytes]], Lists]
    tables: Callable[[Lists], Tables]
    unfit: Callable[[Batch], dict[int, Unreadable]]
    at_once: bool  # whether its cases have items, so that those of many pages can be read at once


class Reader:
    """One walk over the pages of a list: the same case twice is kept once and held for comparison.

    Made by `corrections` or `agent`.

    Parameters
    ----------
    kind
        What the pages hold.
    report
        Gets the counts.
    on_error
        ``"raise"``: a case that cannot be read is an error. ``"report"``: it is left out and reported.

    Raises
    ------
    ConfigError
        ``on_error`` is neither.
    """

    def __init__(self, kind: _Kind, report: PullReport, on_error: OnError) -> None:
        check_on_error(on_error)
        self._kind, self._report, self._on_error = kind, report, on_error
        self._id_of: Callable[[Any], str] = attrgetter(kind.case.__struct_fields__[0])
        self._places: dict[str, int] = {}  # of each case given out; _LEFT_OUT for one that was not, or not yet
        self._again: list[tuple[str, bytes]] = []  # cases that came again: id and digest
        self._given = 0
        self._idle = 0  # pages in a row without a new case
        self._at_once = kind.at_once  # until a group is odd: others would be too, and be read twice

    @classmethod
    def corrections(cls, test_set_id: str, version: str, report: PullReport, on_error: OnError = "raise") -> Reader:
        """A reader of a version of a corrections test set."""
        kind = _Kind(
            Case, corrections_lists, lambda lists: corrections_tables(lists, test_set_id, version), lambda _: {}, True
        )
        return cls(kind, report, on_error)

    @classmethod
    def agent(cls, agent_id: str, report: PullReport, on_error: OnError = "raise") -> Reader:
        """A reader of an agent's live test set."""
        kind = _Kind(AgentCase, agent_lists, lambda lists: agent_tables(lists, agent_id), bad_times, False)
        return cls(kind, report, on_error)

    def groups(self, pages: Iterable[bytes]) -> Generator[Tables, None, None]:
        """Tables of the pages' cases, a group at a time, in the server's order.

        Raises
        ------
        ProtocolError, SchemaError, LimitError
            A page or a case cannot be read.
        IncompletePull
            The pages go on and on and bring nothing new.
        """
        with ThreadPoolExecutor(1, thread_name_prefix="casekit-items") as beside:
            before: Group | None = None
            for group in self._gathered(pages):
                group.read_items(beside)
                if before is not None:  # while this one's items are read
                    yield from self._tables_of(before)
                before = group
            if before is not None:
                yield from self._tables_of(before)

    def _gathered(self, pages: Iterable[bytes]) -> Iterator[Group]:
        group = Group(at_once=self._at_once)
        for body in pages:
            with collector.paused():  # a page has thousands of small lists, which go as soon as it is taken apart
                group.add(body)
            if group.full or self._idle:  # a list that may be endless is read page by page
                yield group
                group = Group(at_once=self._at_once)
        if group.bodies:
            yield group

    def _tables_of(self, group: Group) -> Iterator[Tables]:
        lists = group.whole()
        if lists is not None and self._new(lists.columns["cases"]["case_id"]):
            for body, size in zip(group.bodies, group.sizes, strict=True):
                self._refuse_endless()
                self._note_page(body, size > 0)
        else:
            lists = Lists()
            for body in group.bodies:
                self._refuse_endless()
                with collector.paused():
                    new = self._take(body, lists)
                self._note_page(body, new)
            self._at_once = self._at_once and not len(lists)
        yield from self._finished(lists)

    def _new(self, ids: list[str]) -> bool:
        """Note that the cases have come; where one of them came before, note nothing."""
        if not self._places.keys().isdisjoint(ids) or len(set(ids)) < len(ids):
            return False
        self._places.update(dict.fromkeys(ids, _LEFT_OUT))  # until they are given out
        return True

    def _note_page(self, body: bytes, new: bool) -> None:
        self._report.pages += 1
        self._report.bytes += len(body)
        self._idle = 0 if new else self._idle + 1

    def _refuse_endless(self) -> None:
        """Called when a page more has come."""
        if self._idle == IDLE_PAGES:
            raise IncompletePull(
                f"{IDLE_PAGES} pages in a row brought no new case, and still more follow: "
                "the list does not end; report it to its operator"
            )

    def _take(self, body: bytes, group: Lists) -> bool:
        """Read a page into a group; whether it brought a case that none before it had."""
        bad = len(self._report.bad_cases)
        page = Batch()
        read_page(body, self._kind.case, page, self._report, on_error=self._on_error)
        fresh, *repeated = self._parted(page)
        new = bool(fresh.cases)
        self._add(fresh, group)
        for part in repeated:
            self._keep_digests(part)
        return self._new_bad(bad) or new

    def _parted(self, page: Batch) -> list[Batch]:
        """The page's cases that are new, and those that came before, in parts that have each id once."""
        places = self._places
        ids = list(map(self._id_of, page.cases))
        if self._new(ids):
            return [page]
        parts, times = [Batch()], Counter({case_id: 1 for case_id in ids if case_id in places})
        for n, (case_id, case) in enumerate(zip(ids, page.cases, strict=True)):
            part = times[case_id]
            places.setdefault(case_id, _LEFT_OUT)
            times[case_id] += 1
            parts += [Batch() for _ in range(part + 1 - len(parts))]
            if n in page.extras:
                parts[part].extras[len(parts[part].cases)] = page.extras[n]
            parts[part].cases.append(case)
        return parts

    def _add(self, page: Batch, group: Lists) -> None:
        """Add the page's cases to a group; one that cannot be kept is an error, or leaves the page."""
        self._drop(page, self._kind.unfit(page))
        try:
            lists = self._kind.lists(page.cases, _extra_texts(page))
        except Deep:
            paths = {n: deep_path(case) for n, case in enumerate(page.cases)}
            self._drop(page, {n: Unreadable(path, deep=True) for n, path in paths.items() if path is not None})
            lists = self._kind.lists(page.cases, _extra_texts(page))
        if page.cases:
            group.extend(lists)

    def _drop(self, page: Batch, unfit: dict[int, Unreadable]) -> None:
        if not unfit:
            return
        for n, problem in sorted(unfit.items()):
            case_id = self._id_of(page.cases[n])
            if self._on_error == "raise":
                raise problem.error(case_id)
            self._report.bad_cases.append(problem.bad_case(case_id))
        kept = [n for n in range(len(page.cases)) if n not in unfit]
        page.cases[:] = [page.cases[n] for n in kept]
        page.extras = {at: page.extras[n] for at, n in enumerate(kept) if n in page.extras}

    def _new_bad(self, start: int) -> bool:
        """Whether a page brought an unreadable case that no page before it had."""
        ids = {bad.case_id for bad in self._report.bad_cases[start:]}
        new = {case_id for case_id in ids if case_id is not None and case_id not in self._places}
        self._places.update(dict.fromkeys(new, _LEFT_OUT))
        return bool(new)

    def _keep_digests(self, page: Batch) -> None:
        """Keep what is needed to compare cases that came again."""
        lists = Lists()
        self._add(page, lists)
        if len(lists):
            ids = lists.columns["cases"]["case_id"]
            self._again += zip(ids, case_digests(self._tables(lists)), strict=True)

    def _tables(self, lists: Lists) -> Tables:
        try:
            return self._kind.tables(lists)
        except pa.ArrowException as error:
            raise LimitError(
                f"{len(lists):,} cases make a column of more than 2 GiB ({type(error).__name__}): "
                "their ids are too long to stand in every row"
            ) from error

    def _finished(self, group: Lists) -> Iterator[Tables]:
        if len(group):
            for case_id in group.columns["cases"]["case_id"]:
                self._places[case_id] = self._given
                self._given += 1
            tables = self._tables(group)
            self._count(tables)
            yield tables

    def _count(self, tables: Tables) -> None:
        report, cases, items = self._report, tables["cases"], tables["items"]
        report.cases += cases.num_rows
        report.erased += int(pc.sum(cases["erased"], min_count=0).as_py())
        report.absent_fields["/runId"] += cases["run_id"].null_count
        report.absent_fields["/items/*/expert"] += items["expert_total_weight"].null_count
        report.absent_fields["/items/*/correctionIds"] += items["correction_ids"].null_count

    def check_repeats(self, digest_at: Callable[[int], bytes]) -> None:
        """Compare cases that came twice with how they came first, and count them.

        Parameters
        ----------
        digest_at
            The digest of the n-th case given out.

        Raises
        ------
        IncompletePull
            A case came twice with different content.
        """
        for case_id, digest in self._again:
            place = self._places[case_id]
            if place == _LEFT_OUT or digest_at(place) != digest:
                raise IncompletePull(
                    f"case {one_line(case_id, 200)!r} came twice with different content: "
                    "the list changed while it was read; pull it again"
                )
        self._report.duplicates += len(self._again)


def _extra_texts(page: Batch) -> list[bytes]:
    """The column of unknown members: a JSON object of JSON values by pointer, no bytes where there is nothing."""
    texts = [b""] * len(page.cases)
    for n, members in page.extras.items():
        pairs = (json.dumps(pointer, ensure_ascii=False).encode() + b":" + text for pointer, text in members.items())
        texts[n] = b"{" + b",".join(pairs) + b"}"
    return texts
