"""The tables of some cases by name: as Arrow, as pandas frames, and as the documents they were made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from casekit.errors import did_you_mean, one_line
from casekit.frames import to_pandas
from casekit.schema import TABLES, check_table
from casekit.wire import Tables, documents

__all__ = ["CaseTables"]

_KEYS = ("test_set_id", "version", "subject_id", "case_id")
_PANDAS_SHARES = int(pd.__version__.split(".")[0]) >= 3  # copy on write: a shallow copy is safe to hand out


@dataclass(frozen=True, repr=False, eq=False)
class CaseTables:
    """Tables of cases, one per level, always with all columns; a pandas frame is made when it is first asked for.

    Attributes
    ----------
    tables : Mapping of str to pa.Table
        The Arrow tables, by the names in ``casekit.schema.TABLES``.
    """

    tables: Mapping[str, pa.Table]
    _frames: dict[str, pd.DataFrame] = field(default_factory=dict, init=False)

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

        Examples
        --------
        >>> from casekit.schema import empty_tables
        >>> CaseTables(empty_tables()).arrow("items").schema.field("rank").type
        DataType(int64)
        """
        check_table(table)
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
        LimitError
            A number in it has more digits than Python reads.

        Examples
        --------
        >>> import casekit as ck
        >>> case = {"caseId": "case-1", "subject": {"kind": "agent", "id": "acme.a", "version": "1.0.0"},
        ...         "input": "hello", "output": {"text": "hi"}, "items": []}
        >>> with ck.LocalServer() as server, ck.Client(server.url, token=server.token) as client:
        ...     _ = server.add_test_set("acme.demo", "1.0.0", [case])
        ...     cases = ck.load_test_set("acme.demo", "1.0.0", client=client)
        >>> cases.case("case-1") == case
        True
        """
        if not isinstance(case_id, str):
            raise KeyError(f"a case is asked for by its id, a text, not by {one_line(repr(case_id), 100)}")
        wanted: dict[str, str | None] = {"case_id": case_id, "test_set_id": test_set_id, "version": version}
        wanted = {name: _mended(value) for name, value in wanted.items() if value is not None}
        keys = self.tables["cases"].select(_KEYS)
        found = keys.filter(_equal(keys, wanted)).to_pylist()
        if len(found) != 1:
            name = one_line(case_id, 200)
            if not found:
                hint = did_you_mean(case_id, keys["case_id"].slice(0, 10_000).to_pylist())
                raise KeyError(f"no case {name!r} here" + (f"; {hint}" if hint else ""))
            sets = [(row["test_set_id"], row["version"]) for row in found]
            if len(set(sets)) < len(sets):
                raise KeyError(f"case {name!r} stands in several live test sets: read them one by one")
            names = ", ".join(one_line(f"{one} {version}", 200) for one, version in sets)
            raise KeyError(f"case {name!r} stands in {names}: give test_set_id and version")
        only = {name: table.filter(_equal(table, found[0])) for name, table in self._all_tables().items()}
        return next(iter(documents(only)))

    def documents(self) -> Iterator[dict[str, Any]]:
        """The document of each case; `case` for all of them.

        Yields
        ------
        dict
            In the order of ``cases``, equal as JSON to what was served.

        Raises
        ------
        LimitError
            A number in a case has more digits than Python reads; the message names the case.

        Examples
        --------
        >>> import casekit as ck
        >>> case = {"caseId": "case-1", "subject": {"kind": "agent", "id": "acme.a", "version": "1.0.0"},
        ...         "input": "hello", "output": {"text": "hi"}, "items": []}
        >>> with ck.LocalServer() as server, ck.Client(server.url, token=server.token) as client:
        ...     _ = server.add_test_set("acme.demo", "1.0.0", [case, {**case, "caseId": "case-2"}])
        ...     cases = ck.load_test_set("acme.demo", "1.0.0", client=client)
        >>> [document["caseId"] for document in cases.documents()]
        ['case-1', 'case-2']
        """
        return documents(self._all_tables())

    def _all_tables(self) -> Tables:
        return {name: self.tables[name] for name in TABLES}


def _mended(text: str) -> str:
    """Lone surrogates as the tables hold them: U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _equal(table: pa.Table, wanted: Mapping[str, str | None]) -> Any:
    masks = [
        pc.is_null(table[name]) if value is None else pc.fill_null(pc.equal(table[name], value), False)
        for name, value in wanted.items()
    ]
    mask = masks[0]
    for other in masks[1:]:
        mask = pc.and_(mask, other)
    return mask
