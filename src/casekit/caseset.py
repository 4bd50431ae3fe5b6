"""A CaseSet: the tables of some cases, where they came from, and the filters that choose among them."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from casekit.card import html_card, text_card
from casekit.errors import ConfigError
from casekit.facts import facts, live_title
from casekit.report import PullReport
from casekit.snapshots.folder import local_path
from casekit.source import LeftOut, Source
from casekit.tables import CaseTables
from casekit.wire import case_keys

if TYPE_CHECKING:
    from casekit.export import ExportReport

__all__ = ["CaseSet"]

_JUDGED = ("corrections", "reasons")  # tables whose rows may be marked as an expert's


@dataclass(frozen=True, repr=False, eq=False)
class CaseSet(CaseTables):
    """Cases as tables: one per level, always with all columns.

    Each table is an attribute that gives a pandas frame: a fresh one, so change it as you like, but copy a list in a
    cell before you change it in place. `arrow` gives the Arrow table. Filters give a new CaseSet, and a child row never
    outlives its case.

    Attributes
    ----------
    tables : Mapping of str to pa.Table
        The Arrow tables, by the names in ``casekit.schema.TABLES``.
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

    source: Source = field(default_factory=Source)
    report: PullReport = field(default_factory=PullReport)
    left_out: tuple[LeftOut, ...] = ()

    # ------------------------------------------------------------ filters

    def without_erased(self) -> CaseSet:
        """Leave out cases that an erasure cleared.

        Returns
        -------
        CaseSet
            The other cases; ``left_out`` says how many went.

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

        Returns
        -------
        CaseSet
            The other cases; ``left_out`` says how many went.

        Raises
        ------
        ConfigError
            The cases are of a frozen test set and ``live`` was not given, or ``live`` is no live test set.

        Examples
        --------
        >>> import casekit as ck
        >>> with ck.LocalServer() as server, ck.Client(server.url, token=server.token) as client:
        ...     server.add_run("acme.drafting", "run-1")
        ...     case = client.add_case("acme.drafting", "run-1", answer="right")
        ...     _ = client.retire_case("acme.drafting", case.id, reason="the tool was removed")
        ...     live = ck.load_agent_cases("acme.drafting", client=client)
        >>> len(live), len(live.without_retired())
        (1, 0)
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

        Returns
        -------
        CaseSet
            The other cases; ``left_out`` says how many went, filter by filter.

        Raises
        ------
        ConfigError
            As in `without_retired`.

        Examples
        --------
        >>> from casekit.schema import empty_tables
        >>> [part.filter for part in CaseSet(empty_tables()).active().left_out]
        ['without_erased', 'without_retired']
        """
        return self.without_erased().without_retired(live)

    def only_experts(self) -> CaseSet:
        """Keep the cases that an expert has judged.

        A case is kept when it is marked as an expert's, when an expert's weight is behind one of its items, or when one
        of its corrections or reasons is an expert's. A kept case keeps all its rows: statistics take
        ``weights="expert"`` to count experts alone. Where the server did not say, nobody counts as an expert.

        Returns
        -------
        CaseSet
            These cases; ``left_out`` says how many of the others there were.

        Examples
        --------
        >>> from casekit.schema import empty_tables
        >>> len(CaseSet(empty_tables()).only_experts())
        0
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

        Returns
        -------
        CaseSet
            These cases; ``left_out`` says how many of the others there were.

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

    # ------------------------------------------------------------ overviews

    def summary(self) -> pd.DataFrame:
        """One row per test set, version and version of what ran: how many cases, whose weight, how often yes.

        Returns
        -------
        pd.DataFrame
            Sorted by ``test_set_id``, ``version``, ``subject_kind``, ``subject_id``, ``subject_version``; then:

            - ``n_cases``, of which ``n_erased``; ``n_retired``, missing where a frozen set does not know.
            - ``n_items`` items with weight, ``n_corrections`` theirs; ``n_zero_weight`` items without weight, left
              out; ``n_unknown_expert`` items whose expert weights are missing.
            - ``yes_weight``, ``total_weight``; ``expert_yes_weight`` and ``expert_total_weight`` over the items whose
              expert weights are known, missing where none are. A sum beyond a float is missing.
            - ``yes_rate`` in [0, 1], with its 95 % interval ``yes_low`` and ``yes_high``, and ``expert_yes_rate``: as
              `casekit.yes_rates` gives them for ``by`` those columns. NaN without weight.
            - ``first_added_at``, ``last_updated_at`` of live cases, missing for a frozen set, which has no times.

            A live test set has no items: what concerns them is missing.

        Raises
        ------
        ValueError
            An item's weights contradict each other; the message names it.

        Examples
        --------
        >>> from casekit.schema import empty_tables
        >>> len(CaseSet(empty_tables()).summary())
        0
        """
        from casekit.summary import summarised

        return summarised(self.tables)

    def contested(self, n: int = 10) -> pd.DataFrame:
        """The items that people disagree on most, each with its reasons, newest first.

        An item is contested when somebody said yes and somebody no. First come those whose yes share by weight is
        nearest to one half, of these the ones with more corrections, then in the order of ``items``. Items whose
        corrections weigh 0 have no share and come last. Erased cases are left out.

        Parameters
        ----------
        n
            How many items at most, from 0.

        Returns
        -------
        pd.DataFrame
            One row per item: the columns of ``items`` without the lists of ids; ``yes_rate`` in [0, 1], its yes share
            by weight, NaN where nobody's weight is on it; ``reasons`` a list of dicts with ``verdict``, ``reason``,
            ``corrector_group_id`` and ``expert`` (None where the server did not say), empty where nobody gave one.

        Raises
        ------
        ConfigError
            ``n`` is no whole number from 0.
        ValueError
            A contested item's weights contradict each other; the message names it.

        Examples
        --------
        >>> from casekit.schema import empty_tables
        >>> len(CaseSet(empty_tables()).contested())
        0
        """
        from casekit.contested import most_contested

        return most_contested(self.tables, n)

    # ------------------------------------------------------------ to others

    def cite(self) -> str:
        """One line that says what these cases are, for a paper.

        Returns
        -------
        str
            Test set and version, how many cases, erased cases, items and corrections, the day they were fetched (UTC),
            what filters left out, and the first 16 digits of the content hash: that of a snapshot of these cases. The
            hash is the same for whoever has the same cases, in whatever order they came, with whatever casekit.

        Raises
        ------
        ConfigError
            The tables do not belong together, so that they have no hash.

        Examples
        --------
        >>> from casekit.schema import empty_tables
        >>> CaseSet(empty_tables(), Source(test_sets=(("acme.a", "1.0.0"),))).cite().split("; ")[:2]
        ['acme.a 1.0.0', '0 cases, 0 items, 0 corrections']
        """
        from casekit.citation import citation

        return citation(self._title(limit=500), self.tables, self.source, self.report, self.left_out)

    def to_csv(self, path: str | os.PathLike[str], table: str = "items", *, safe: bool = True) -> ExportReport:
        """Write one table as CSV (RFC 4180, UTF-8) for a spreadsheet; `write_snapshot` keeps all of it exactly.

        Text stands in double quotes: ``""`` is an empty text, nothing between two commas a missing value. Lists and
        free JSON are JSON text, times ISO 8601 in UTC. A text that a spreadsheet could take for a formula gets an
        apostrophe in front; a warning says how many did.

        Parameters
        ----------
        path
            File to make. A file that stands there is replaced whole.
        table
            Name of the table, such as ``"cases"``.
        safe
            False leaves out the apostrophes: for a program that reads the file, and no spreadsheet.

        Returns
        -------
        ExportReport
            How many rows were written, and what was changed.

        Raises
        ------
        ConfigError
            No table has that name, the path is no file's, or a number is not finite.
        SnapshotError
            The file cannot be written, or somebody else is writing it. What stood there stands.

        Examples
        --------
        >>> import tempfile
        >>> from casekit.schema import empty_tables
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     print(CaseSet(empty_tables()).to_csv(f"{folder}/items.csv").rows)
        {'items': 0}
        """
        from casekit.export import write_csv

        return write_csv(table, self.arrow(table), _file(path), safe=safe)

    def to_excel(self, path: str | os.PathLike[str], *, safe: bool = True) -> ExportReport:
        """Write all tables as an Excel workbook, one sheet each; needs ``pip install 'casekit[excel]'``.

        Cells are as in `to_csv`: text is text, never a formula or a link. Excel's numbers have 16 digits, so that a
        larger integer is written as text. A control character that no cell holds is replaced, a text of more than
        32,767 characters cut and marked; a warning says how many. The workbook's properties have the line of `cite`.

        Parameters
        ----------
        path
            File to make. A file that stands there is replaced whole.
        safe
            False leaves out the apostrophes. In the workbook a text is a text either way; they are for cells that are
            copied, or saved as CSV.

        Returns
        -------
        ExportReport
            How many rows were written, and what was changed.

        Raises
        ------
        ConfigError
            The path is no file's, a table has more rows than a sheet takes, or a number is not finite.
        MissingExtraError
            XlsxWriter is not installed.
        SnapshotError
            The file cannot be written, or somebody else is writing it. What stood there stands.

        Examples
        --------
        >>> import tempfile
        >>> from casekit.schema import empty_tables
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     export = CaseSet(empty_tables()).to_excel(f"{folder}/cases.xlsx")
        >>> export.rows["items"], export.changes()
        (0, '')
        """
        from casekit.export import write_excel

        return write_excel(self._all_tables(), _file(path), self.cite(), safe=safe)

    # ------------------------------------------------------------ display

    def _title(self, limit: int = 80) -> str:
        cases = self.tables["cases"]
        if self.source.test_sets or self.source.agent_id is not None or not len(self) or cases["kind"].null_count:
            return self.source.title(limit)
        return live_title(cases)

    def __repr__(self) -> str:
        """The counts in words, the same for the same cases in any process."""
        return text_card(self._title(), facts(self.tables, self.report, self.left_out))

    def _repr_html_(self) -> str:
        """The card that a notebook shows."""
        return html_card(self._title(), facts(self.tables, self.report, self.left_out))


def _file(path: str | os.PathLike[str]) -> Path:
    """Where an export goes: a URL would otherwise become the name of a folder here."""
    file = local_path(path)
    if file is None:
        raise ConfigError("an export is written on this machine: give a path, and copy the file from there")
    return file
