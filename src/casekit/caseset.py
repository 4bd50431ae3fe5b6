"""A CaseSet: the tables of some cases, where they came from, and the filters that choose among them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from difflib import get_close_matches
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from casekit.card import counted, facts, html_card, live_title
from casekit.errors import ConfigError, one_line
from casekit.frames import to_pandas
from casekit.report import PullReport
from casekit.schema import TABLES
from casekit.wire import Tables, case_keys, documents

__all__ = ["CaseSet", "LeftOut", "Source"]

_KEYS = ("test_set_id", "version", "subject_id", "case_id")
_JUDGED = ("corrections", "reasons")  # tables whose rows may be marked as an expert's
_PANDAS_SHARES = int(pd.__version__.split(".")[0]) >= 3  # copy on write: a shallow copy is safe to hand out


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
        The snapshot folders read, when the cases came from some.
    """

    test_sets: tuple[tuple[str, str], ...] = ()
    agent_id: str | None = None
    origin: str | None = None
    fetched_at: datetime | None = None
    folders: tuple[str, ...] = ()

    def title(self) -> str:
        """What was read, in a few words."""
        if self.agent_id is not None:
            return f"live test set of {one_line(self.agent_id, 80)}"
        names = [one_line(f"{name} {version}", 80) for name, version in self.test_sets[:3]]
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
    """

    filter: str
    cases: int
    items: int
    not_listed: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The counts in words."""
        text = f"{self.filter}: {counted(self.cases, 'case')}, {counted(self.items, 'item')}"
        return text + (f" ({len(self.not_listed):,} not in the live list, kept)" if self.not_listed else "")


@dataclass(frozen=True, repr=False, eq=False)
class CaseSet:
    """Cases as tables: one per level, always with all columns.

    Each table is an attribute that gives a pandas frame: a fresh one, so change it as you like, but copy a list in a
    cell before you change it in place. `arrow` gives the Arrow table. Filters give a new CaseSet, and a child row never
    outlives its case.

    Attributes
    ----------
    source : Source
        Where the cases came from, and when.
    report : PullReport
        What the load did and met.
    left_out : tuple of LeftOut
        What the filters so far left out.

    Examples
    --------
    >>> from casekit.schema import empty_tables
    >>> CaseSet(empty_tables()).items["yes"].dtype
    dtype('int64')
    """

    tables: Mapping[str, pa.Table]
    source: Source = field(default_factory=Source)
    report: PullReport = field(default_factory=PullReport)
    left_out: tuple[LeftOut, ...] = ()
    _frames: dict[str, pd.DataFrame] = field(default_factory=dict, init=False)

    # ------------------------------------------------------------ tables

    def arrow(self, table: str) -> pa.Table:
        """The Arrow table of that name.

        Parameters
        ----------
        table
            One of the names in ``casekit.schema.TABLES``, such as ``"items"``.

        Returns
        -------
        pa.Table
            With the schema of that table; free JSON is Arrow's JSON type.

        Raises
        ------
        ConfigError
            No table has that name; the message has the nearest one.
        """
        if table not in TABLES:
            near = get_close_matches(table, TABLES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(TABLES)}"
            raise ConfigError(f"no table is called {table!r}; {hint}")
        return self.tables[table]

    def _frame(self, table: str) -> pd.DataFrame:
        if table not in self._frames:
            self._frames[table] = to_pandas(self.tables[table])
        return self._frames[table].copy(deep=not _PANDAS_SHARES)

    @property
    def cases(self) -> pd.DataFrame:
        """One row per case, in the server's order."""
        return self._frame("cases")

    @property
    def items(self) -> pd.DataFrame:
        """One row per corrected item."""
        return self._frame("items")

    @property
    def reasons(self) -> pd.DataFrame:
        """One row per reason given for a verdict."""
        return self._frame("reasons")

    @property
    def segments(self) -> pd.DataFrame:
        """One row per step of a case's segment path."""
        return self._frame("segments")

    @property
    def corrections(self) -> pd.DataFrame:
        """One row per correction that carries expected decisions."""
        return self._frame("corrections")

    @property
    def expected_calls(self) -> pd.DataFrame:
        """One row per call a run should have made."""
        return self._frame("expected_calls")

    @property
    def expected_items(self) -> pd.DataFrame:
        """One row per item of a ranked answer with an expected verdict."""
        return self._frame("expected_items")

    @property
    def recorded_calls(self) -> pd.DataFrame:
        """One row per tool call that a flow run made."""
        return self._frame("recorded_calls")

    @property
    def recorded_steps(self) -> pd.DataFrame:
        """One row per agent step of a flow run."""
        return self._frame("recorded_steps")

    @property
    def messages(self) -> pd.DataFrame:
        """One row per message of the conversation before a turn."""
        return self._frame("messages")

    def __len__(self) -> int:
        """How many cases there are."""
        return int(self.tables["cases"].num_rows)

    # ------------------------------------------------------------ documents

    def case(self, case_id: str, *, test_set_id: str | None = None, version: str | None = None) -> dict[str, Any]:
        """The whole document of a case, equal as JSON to what was served.

        Parameters
        ----------
        case_id
            Id of the case.
        test_set_id, version
            Needed when the id stands in several sets or versions.

        Returns
        -------
        dict
            A new document each time.

        Raises
        ------
        KeyError
            No case has the id, or several have it; the message says which sets.
        """
        if not isinstance(case_id, str):
            raise KeyError(f"a case is asked for by its id, a text, not by {one_line(repr(case_id), 100)}")
        wanted: dict[str, str | None] = {"case_id": case_id, "test_set_id": test_set_id, "version": version}
        wanted = {name: value for name, value in wanted.items() if value is not None}
        keys = self.tables["cases"].select(_KEYS)
        found = keys.filter(_equal(keys, wanted)).to_pylist()
        if len(found) != 1:
            name = one_line(case_id, 200)
            if not found:
                near = get_close_matches(case_id, keys["case_id"].slice(0, 10_000).to_pylist(), n=1)
                raise KeyError(
                    f"no case {name!r} here" + (f"; did you mean {one_line(near[0], 200)!r}?" if near else "")
                )
            sets = [(row["test_set_id"], row["version"]) for row in found]
            if len(set(sets)) < len(sets):
                raise KeyError(f"case {name!r} stands in several live test sets: read them one by one")
            names = ", ".join(one_line(f"{one} {version}", 200) for one, version in sets)
            raise KeyError(f"case {name!r} stands in {names}: give test_set_id and version")
        only = {name: table.filter(_equal(table, found[0])) for name, table in self._all_tables().items()}
        return next(iter(documents(only)))

    def documents(self) -> Iterator[dict[str, Any]]:
        """The document of each case, in order; `case` for all of them."""
        return documents(self._all_tables())

    def _all_tables(self) -> Tables:
        return {name: self.tables[name] for name in TABLES}

    # ------------------------------------------------------------ filters

    def without_erased(self) -> CaseSet:
        """Leave out cases that an erasure cleared.

        Examples
        --------
        >>> from casekit.schema import empty_tables
        >>> len(CaseSet(empty_tables()).without_erased())
        0
        """
        erased = pc.fill_null(self.tables["cases"]["erased"], False)
        return self._keep(pc.invert(erased), "without_erased")

    def without_retired(self, live: CaseSet | None = None) -> CaseSet:
        """Leave out cases that are retired.

        Parameters
        ----------
        live
            The agent's live test set (`casekit.load_agent_cases`): needed for a frozen test set, whose cases do not
            know. Cases are matched by id. An id that it does not list is kept, and reported in ``left_out``.

        Raises
        ------
        ConfigError
            The cases are of a frozen test set and ``live`` was not given, or ``live`` is no live test set.
        """
        for one in (self if live is None else live,):
            if one.tables["cases"]["retired"].null_count:
                raise ConfigError(
                    "a frozen test set does not know which cases are retired: "
                    "pass without_retired(live) with live = ck.load_agent_cases(agent_id)"
                )
        if live is None:
            return self._keep(pc.invert(self.tables["cases"]["retired"]), "without_retired")
        ids, listed = self.tables["cases"]["case_id"], live.tables["cases"]
        retired = listed.filter(listed["retired"])["case_id"].combine_chunks()
        unknown = ids.filter(pc.invert(pc.is_in(ids, value_set=listed["case_id"].combine_chunks())))
        mask = pc.invert(pc.is_in(ids, value_set=retired))
        return self._keep(mask, "without_retired", not_listed=tuple(unknown.to_pylist()))

    def active(self, live: CaseSet | None = None) -> CaseSet:
        """Leave out erased and retired cases: those a test run would leave out.

        Parameters
        ----------
        live
            As in `without_retired`.
        """
        return self.without_erased().without_retired(live)

    def only_experts(self) -> CaseSet:
        """Keep the cases that an expert has judged.

        A case is kept when it is marked as an expert's, when an expert's weight is behind one of its items, or when one
        of its corrections or reasons is an expert's. A kept case keeps all its rows: statistics take
        ``weights="expert"`` to count experts alone.
        """
        cases, items = self.tables["cases"], self.tables["items"]
        judged = [items.filter(pc.fill_null(pc.greater(items["expert_total_weight"], 0), False))]
        judged += [table.filter(pc.fill_null(table["expert"], False)) for table in map(self.arrow, _JUDGED)]
        keys = pa.chunked_array([chunk for table in judged for chunk in case_keys(table).chunks], pa.string())
        mask = pc.or_(pc.fill_null(cases["expert"], False), pc.is_in(case_keys(cases), value_set=keys.combine_chunks()))
        return self._keep(mask, "only_experts")

    def where(self, mask: Any) -> CaseSet:
        """Keep the cases for which the mask is true.

        Parameters
        ----------
        mask
            One truth value per row of ``cases``: a list or array, a Series with the index of ``cases`` in any order, or
            a function that is given the ``cases`` frame and returns one. A missing value does not keep the case.

        Raises
        ------
        ConfigError
            The mask has another length or index than ``cases``, or is not boolean.

        Examples
        --------
        >>> from casekit.schema import empty_tables
        >>> len(CaseSet(empty_tables()).where(lambda cases: cases["subject_version"] == "1.0.0"))
        0
        """
        if callable(mask):
            mask = mask(self.cases)
        if isinstance(mask, pd.Series):
            rows = pd.RangeIndex(len(self))
            if not mask.index.is_unique or len(mask) != len(rows) or not rows.isin(mask.index).all():
                raise ConfigError("the mask's index is not that of the cases frame: build it from cases.cases")
            mask = mask.loc[rows]
        try:
            values = pd.array(mask if len(mask) else [], dtype="boolean")
        except (TypeError, ValueError):
            kind = type(mask).__name__
            raise ConfigError(f"a mask has one truth value per case, which this {kind} has not") from None
        if values.ndim != 1:
            raise ConfigError(f"a mask has one truth value per case, not an array of {values.ndim} dimensions")
        if len(values) != len(self):
            raise ConfigError(f"the mask has {len(values):,} values for {len(self):,} cases")
        return self._keep(pa.array(values.fillna(False).to_numpy(dtype=bool)), "where")

    def _keep(self, mask: Any, name: str, not_listed: tuple[str, ...] = ()) -> CaseSet:
        cases = self.tables["cases"]
        kept = cases.filter(mask)
        keys = case_keys(kept).combine_chunks()
        tables = {
            child: table.filter(pc.is_in(case_keys(table), value_set=keys)) if child != "cases" else kept
            for child, table in self._all_tables().items()
        }
        out = LeftOut(
            name,
            cases.num_rows - kept.num_rows,
            self.tables["items"].num_rows - tables["items"].num_rows,
            not_listed,
        )
        return CaseSet(tables, self.source, self.report, (*self.left_out, out))

    # ------------------------------------------------------------ display

    def _title(self) -> str:
        cases = self.tables["cases"]
        if self.source.test_sets or self.source.agent_id is not None or not len(self) or cases["kind"].null_count:
            return self.source.title()
        return live_title(cases)

    def __repr__(self) -> str:
        """The counts in words, the same for the same cases in any process."""
        lines = [f"  {name:<12} {text}" for name, text in facts(self.tables, self.report, self.left_out)]
        return "\n".join([f"CaseSet: {self._title()}", *lines])

    def _repr_html_(self) -> str:
        """The card that a notebook shows."""
        return html_card(self._title(), facts(self.tables, self.report, self.left_out))


def _equal(table: pa.Table, wanted: Mapping[str, str | None]) -> Any:
    masks = [
        pc.is_null(table[name]) if value is None else pc.fill_null(pc.equal(table[name], value), False)
        for name, value in wanted.items()
    ]
    mask = masks[0]
    for other in masks[1:]:
        mask = pc.and_(mask, other)
    return mask
