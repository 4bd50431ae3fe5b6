"""A page's bytes to Arrow tables, and back to the documents that were served.

- `roads` reads a page into structs, fast or carefully;
- `arrow` turns a group of structs into the tables of `casekit.schema`;
- `digest` gives each case's content a hash;
- `document` turns the rows of one case back into its document.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from casekit.errors import ConfigError, IncompletePull, one_line
from casekit.report import PullReport
from casekit.schema import TABLES, empty_tables
from casekit.wire.arrow import Tables, agent_tables, corrections_tables
from casekit.wire.digest import case_digests, content_hash
from casekit.wire.document import documents
from casekit.wire.roads import Batch, read_page
from casekit.wire.structs import AgentCase, Case

__all__ = ["Reader", "Tables", "case_digests", "content_hash", "documents", "joined"]

GROUP_CASES = 2000  # cases turned into tables at once: enough that Python's share is small
GROUP_BYTES = 64 * 2**20  # bytes of pages at which a group ends early


def joined(groups: Iterable[Tables]) -> Tables:
    """All groups as one set of tables; of no group, empty tables.

    Examples
    --------
    >>> joined([])["items"].num_rows
    0
    """
    parts = list(groups)
    if not parts:
        return empty_tables()
    return {name: pa.concat_tables([part[name] for part in parts]) for name in TABLES}


class Reader:
    """One walk over the pages of a list: the same case twice is kept once and held for comparison.

    Parameters
    ----------
    kind
        `Case` or `AgentCase`: what the pages hold.
    convert
        Turns a batch of them into tables.
    report
        Gets the counts.
    on_error
        ``"raise"``: a case that cannot be read is an error. ``"report"``: it is left out and reported.
    """

    def __init__(
        self, kind: type[Struct], convert: Callable[[Batch], Tables], report: PullReport, on_error: str
    ) -> None:
        if on_error not in ("raise", "report"):
            raise ConfigError(f"on_error is 'raise' or 'report', not {on_error!r}")
        self._kind, self._convert, self._report, self._on_error = kind, convert, report, on_error
        self._seen: dict[str, int] = {}
        self._repeats = Batch()

    @classmethod
    def corrections(cls, test_set_id: str, version: str, report: PullReport, on_error: str = "raise") -> Reader:
        """A reader of a version of a corrections test set."""
        return cls(Case, lambda batch: corrections_tables(batch, test_set_id, version, report), report, on_error)

    @classmethod
    def agent(cls, agent_id: str, report: PullReport, on_error: str = "raise") -> Reader:
        """A reader of an agent's live test set."""
        return cls(AgentCase, lambda batch: agent_tables(batch, agent_id, report), report, on_error)

    def groups(self, pages: Iterable[bytes]) -> Iterator[Tables]:
        """Tables of the pages' cases, a group at a time, in the server's order.

        Raises
        ------
        ProtocolError, SchemaError, LimitError
            A page or a case cannot be read.
        """
        batch, size = Batch(), 0
        for body in pages:
            start = len(batch.cases)
            read_page(body, self._kind, batch, self._report, on_error=self._on_error)
            self._hold_repeats(batch, start)
            self._report.pages += 1
            self._report.bytes += len(body)
            size += len(body)
            if len(batch.cases) >= GROUP_CASES or size >= GROUP_BYTES:
                yield self._finished(batch)
                batch, size = Batch(), 0
        if batch.cases:
            yield self._finished(batch)

    def _finished(self, batch: Batch) -> Tables:
        tables = self._convert(batch)
        self._report.cases += len(batch.cases)
        self._report.erased += int(pc.sum(tables["cases"]["erased"], min_count=0).as_py())
        return tables

    def _hold_repeats(self, batch: Batch, start: int) -> None:
        """Move cases that came before out of the batch."""
        seen, id_of = self._seen, self._kind.__struct_fields__[0]
        fresh = []
        for n, case in enumerate(batch.cases[start:], start):
            extra = batch.extras.pop(n, None)
            place = len(seen)
            if seen.setdefault(getattr(case, id_of), place) == place:
                to = batch
                at = start + len(fresh)
                fresh.append(case)
            else:
                to = self._repeats
                at = len(to.cases)
                to.cases.append(case)
            if extra is not None:
                to.extras[at] = extra
        batch.cases[start:] = fresh

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
        if not self._repeats.cases:
            return
        for case, digest in zip(self._repeats.cases, case_digests(self._convert(self._repeats)), strict=True):
            case_id = getattr(case, self._kind.__struct_fields__[0])
            if digest_at(self._seen[case_id]) != digest:
                raise IncompletePull(
                    f"case {one_line(case_id, 200)!r} came twice with different content: "
                    "the list changed while it was read; pull it again"
                )
        self._report.duplicates += len(self._repeats.cases)
