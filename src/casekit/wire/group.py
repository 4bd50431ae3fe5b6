"""Some pages on their way to tables: taken apart as they come, and read at once where nothing about them is odd."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import Final

import pyarrow as pa
from msgspec import Raw

from casekit.wire.items import put_items, read_items, text_of
from casekit.wire.lists import Deep, Lists, outline_lists
from casekit.wire.roads import outlines

__all__ = ["Group"]

GROUP_CASES: Final = 1000  # cases turned into tables at once: enough that Python's share is small
GROUP_BYTES: Final = 64 * 2**20  # bytes of pages at which a group ends early
GROUP_PAGES: Final = 10  # the same for pages


class Group:
    """Some pages that become tables together.

    As long as nothing about them is odd, they are taken apart as they come, but for their items: those of all pages are
    read at once, in a thread beside. Else the pages are read one by one.

    Parameters
    ----------
    at_once
        Whether to begin so.

    Attributes
    ----------
    bodies : list of bytes
        The pages.
    sizes : list of int
        How many cases each has, as long as nothing is odd.
    """

    def __init__(self, *, at_once: bool) -> None:
        self.bodies: list[bytes] = []
        self.sizes: list[int] = []
        self._lists: Lists | None = Lists() if at_once else None  # None: read page by page
        self._items: list[Raw] = []
        self._read: Future[pa.ListArray | None] | None = None

    def add(self, body: bytes) -> None:
        """Add a page."""
        self.bodies.append(body)
        if self._lists is None:
            return
        cases = outlines(body)
        if cases:
            try:
                self._lists.extend(outline_lists(cases, [b""] * len(cases)))
            except Deep:
                cases = None
        if cases is None:
            self._lists, self._items = None, []
        else:
            self.sizes.append(len(cases))
            self._items += [case.items for case in cases]

    @property
    def full(self) -> bool:
        """Whether no more should be added."""
        return (
            len(self.bodies) >= GROUP_PAGES
            or sum(self.sizes) >= GROUP_CASES
            or sum(map(len, self.bodies)) >= GROUP_BYTES
        )

    def read_items(self, beside: Executor) -> None:
        """Begin to read the items."""
        if self._lists is not None:
            self._read = beside.submit(read_items, text_of(self._items))
            self._items = []

    def whole(self) -> Lists | None:
        """The columns of all pages, with their items; None where they have to be read one by one."""
        items = None if self._read is None else self._read.result()
        if self._lists is not None and items is not None:
            put_items(self._lists, items)
            return self._lists
        return None
