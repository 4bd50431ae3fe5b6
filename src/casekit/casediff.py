"""What became of each case and item between two versions: added, removed, changed, or erased.

A case of a test set is the same in both when test set and case id are; its version is not looked at. A case of an
agent's live test set is the same when agent and case id are. An item is the same when case, key and pointer are, as in
`casekit.stats.compare`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from casekit.card import Facts, html_card, text_card
from casekit.caseset import CaseSet
from casekit.errors import ConfigError, one_line
from casekit.facts import weight_in_all
from casekit.frames import to_pandas
from casekit.schema import FORMAT_COLUMNS, STRING, TABLES, empty_tables
from casekit.wire import Tables, case_digests, case_keys

__all__ = ["CaseDiff", "diff"]

FIGURES: Final = ("rank", "yes", "no", "yes_weight", "total_weight", "expert_yes_weight", "expert_total_weight")
COMPARED: Final = (*FIGURES, "correction_ids", "expert_correction_ids")
IDS: Final = ("test_set_id", "subject_id", "case_id")
ITEM: Final = ("key", "pointer")
_REPEATED: Final = frozenset(f.name for f in FORMAT_COLUMNS)

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Texts = npt.NDArray[Any]


@dataclass(frozen=True, repr=False, eq=False)
class CaseDiff:
    """What changed between two versions of the same cases.

    Rows stand in the order of the new cases; what was removed comes last, in the order of the old. A missing value is
    one that the contract leaves out, or of a side without the case or item: it is never a zero.

    Attributes
    ----------
    cases : pd.DataFrame
        One row per case that differs: ``test_set_id``, ``subject_id``, ``case_id``; ``change`` "added", "removed",
        "changed", or "erased" for one that an erasure has cleared since; ``changed_in`` the tables that differ, as in
        "cases, items", missing for added and removed cases; ``version``, ``n_items`` and ``total_weight`` (of its
        items, missing for a live case), each with ``_before`` and ``_after``.
    items : pd.DataFrame
        One row per item that differs: the ids of its case, and as ``case_change`` what became of that; ``key`` and
        ``pointer``; ``change`` "added", "removed" or "changed"; ``changed_in`` the columns that differ, missing for
        added and removed items; ``rank``, ``yes``, ``no``, ``yes_weight``, ``total_weight``, ``expert_yes_weight`` and
        ``expert_total_weight``, each with ``_before`` and ``_after``.
    unchanged_cases, unchanged_items : int
        How many are on both sides, and the same.
    title : str
        What was compared.
    left_out : str
        What filters had left out before: a case left out on one side alone counts as added or removed.

    Examples
    --------
    >>> same = CaseSet(empty_tables())
    >>> change = diff(same, same)
    >>> len(change.cases), change.unchanged_cases
    (0, 0)
    """

    cases: pd.DataFrame
    items: pd.DataFrame
    unchanged_cases: int
    unchanged_items: int
    title: str
    left_out: str = ""

    def _facts(self) -> Facts:
        lines = []
        for name, frame, changes, unchanged in (
            ("cases", self.cases, ("added", "removed", "changed", "erased"), self.unchanged_cases),
            ("items", self.items, ("added", "removed", "changed"), self.unchanged_items),
        ):
            counts = [f"{int((frame['change'] == change).sum()):,} {change}" for change in changes]
            lines.append((name, ", ".join([*counts, f"{unchanged:,} unchanged"])))
        added, removed = self._weight("added", "after"), self._weight("removed", "before")
        before, after = (self._weight("changed", side) for side in ("before", "after"))
        lines += [("weight", f"{added} added, {removed} removed, {before} to {after} where changed")]
        return lines + ([("left out", self.left_out)] if self.left_out else [])

    def _weight(self, change: str, side: str) -> str:
        rows = self.items[self.items["change"] == change]
        return weight_in_all(rows[f"total_weight_{side}"])

    def __repr__(self) -> str:
        """The counts in words, the same for the same cases in any process."""
        return text_card(self.title, self._facts(), kind="CaseDiff")

    def _repr_html_(self) -> str:
        """The card that a notebook shows."""
        return html_card(self.title, self._facts(), kind="CaseDiff")


def diff(old: CaseSet, new: CaseSet) -> CaseDiff:
    """Say which cases and items were added, removed, changed or erased between two versions.

    Cases of a test set are matched by ``test_set_id`` and ``case_id``, whatever their version; cases of live test sets
    by agent (``subject_id``) and ``case_id``; items within a case by ``key`` and ``pointer``. A case is unchanged when
    all its rows of all tables are the same, but for the version: a field that only one side's server sends is a change,
    and ``changed_in`` tells it apart.

    Parameters
    ----------
    old, new
        Loaded cases or read snapshots, of one test set or several; each case once. Not changed.

    Returns
    -------
    CaseDiff
        Frames of the cases and items that differ, and how many do not.

    Raises
    ------
    ConfigError
        A case stands on one side in two versions, an item of a changed case stands there twice, or the rows of a side
        do not belong together.

    Examples
    --------
    >>> import casekit as ck
    >>> item = {"key": "a", "yes": 1, "no": 0, "yesWeight": 1, "totalWeight": 1, "reasons": []}
    >>> case = {"subject": {"kind": "agent", "id": "acme.a", "version": "1.0.0"}, "input": None, "output": None}
    >>> more = {**item, "yes": 3, "yesWeight": 3, "totalWeight": 3}
    >>> with ck.LocalServer() as server, ck.Client(server.url, token=server.token) as client:
    ...     _ = server.add_test_set("acme.demo", "1.0.0", [{**case, "caseId": "c1", "items": [item]}])
    ...     cases = [{**case, "caseId": case_id, "items": [more]} for case_id in ("c1", "c2")]
    ...     _ = server.add_test_set("acme.demo", "1.1.0", cases)
    ...     old, new = (ck.load_test_set("acme.demo", v, client=client, progress=False) for v in ("1.0.0", "1.1.0"))
    >>> change = diff(old, new)
    >>> change
    CaseDiff: acme.demo 1.0.0 → acme.demo 1.1.0
      cases        1 added, 0 removed, 1 changed, 0 erased, 0 unchanged
      items        1 added, 0 removed, 1 changed, 0 unchanged
      weight       3 added, 0 removed, 1 to 3 where changed
    >>> change.items[["case_id", "change", "yes_before", "yes_after"]]
      case_id   change  yes_before  yes_after
    0      c1  changed           1          3
    1      c2    added        <NA>          3
    """
    before, after = _Side(old, "old"), _Side(new, "new")
    before.at, after.at = _matched(before.keys, after.keys)
    same = _equal(*(side.take(pa.array(side.digests, pa.binary())) for side in (before, after)))
    change = _changes(before.at, after.at, same)
    was, now = (np.asarray(pc.fill_null(side.take(side.column("erased")), False)) for side in (before, after))
    change[(change == "changed") & now & ~was] = "erased"
    items = _items(before, after, change)
    left_out = [f"{side.name}: {part}" for side in (before, after) for part in side.cases.left_out]
    return CaseDiff(
        cases=_cases(before, after, change),
        items=items,
        unchanged_cases=int((change == "").sum()),
        unchanged_items=new.arrow("items").num_rows - int(items["change"].isin(["added", "changed"]).sum()),
        title=f"{old._title()} → {new._title()}",
        left_out="; ".join(left_out),
    )


class _Side:
    """The cases of one side: what tells each from the others, and what is in it.

    ``at`` has, for each case of both sides, its row on this one; -1 where it has none.
    """

    def __init__(self, cases: CaseSet, name: str) -> None:
        self.cases, self.name = cases, name
        self.at: Ints = np.arange(len(cases))
        self.keys = case_keys(_unvarying("cases", cases.arrow("cases"))).combine_chunks()
        twice = _second(self.keys)
        if twice is not None:
            test_set_id, agent_id, case_id = (self.column(name)[twice].as_py() for name in IDS)
            whose = agent_id if test_set_id is None else test_set_id
            raise ConfigError(
                f"case {one_line(case_id, 200)!r} of {one_line(whose, 200)} stands twice in the {name} cases: "
                "give each test set once, in one version"
            )
        try:
            self.digests = case_digests({t: _lacking(t, cases.arrow(t), ["version"]) for t in TABLES})
        except ValueError as error:
            raise ConfigError(f"the {name} cases cannot be compared: {error}; load them again") from None

    def column(self, name: str) -> Any:
        """A column of ``cases``."""
        return self.cases.arrow("cases")[name]

    def take(self, column: Any) -> Any:
        """A column's values for each case of both sides; null where this side has no such case."""
        return _take(column, self.at)

    def item_cases(self) -> Ints:
        """For each row of ``items``, the number of its case among those of both sides."""
        numbers = np.empty(len(self.keys), dtype=np.int64)
        numbers[self.at[self.at >= 0]] = np.flatnonzero(self.at >= 0)
        owners = pc.index_in(case_keys(_unvarying("items", self.cases.arrow("items"))), value_set=self.keys)
        rows: Ints = numbers[np.asarray(owners, dtype=np.int64)]
        return rows


# ---------------------------------------------------------------- cases


def _cases(before: _Side, after: _Side, change: Texts) -> pd.DataFrame:
    columns = {name: pc.coalesce(after.take(after.column(name)), before.take(before.column(name))) for name in IDS}
    columns["change"] = pa.array(change, STRING)
    columns["changed_in"] = _changed_in(before, after, change)
    for name in ("version", "n_items"):
        columns |= _beside(name, *(side.take(side.column(name)) for side in (before, after)))
    columns |= _beside("total_weight", *(_weights(side, len(change)) for side in (before, after)))
    return to_pandas(pa.table(columns).filter(pa.array(change != "")))


def _weights(side: _Side, size: int) -> pa.Array:
    """The weight of each case's items; null without a list of items."""
    weights = np.asarray(side.cases.arrow("items")["total_weight"], dtype=np.float64)
    sums = np.bincount(side.item_cases(), weights=weights, minlength=size)
    return pa.array(sums, pa.float64(), mask=np.asarray(side.take(side.column("n_items")).is_null()))


def _changed_in(before: _Side, after: _Side, change: Texts) -> pa.Array:
    """The tables in which each case that is on both sides differs."""
    rows = np.flatnonzero((change == "changed") | (change == "erased"))
    old, new = (_by_table(side, side.at[rows]) for side in (before, after))
    texts: list[str | None] = [None] * len(change)
    for place, row in enumerate(rows):
        # A list that is absent on one side and empty on the other differs in its length alone, which cases holds.
        texts[row] = ", ".join(name for name in TABLES if old[name][place] != new[name][place]) or "cases"
    return pa.array(texts, STRING)


def _by_table(side: _Side, at: Ints) -> dict[str, list[bytes]]:
    """For some cases, a digest of the rows of each table; lengths of lists are left to the lists' own tables."""
    wanted = np.zeros(len(side.keys), dtype=np.bool_)
    wanted[at] = True
    part = side.cases.where(wanted)
    cases = part.arrow("cases")
    ids = _lacking("cases", _unvarying("cases", cases), set(cases.column_names) - set(_REPEATED))
    digests = {}
    for name in TABLES:
        if name == "cases":
            lengths = [column for column in cases.column_names if column.startswith("n_")]
            rows: Tables = {"cases": _lacking("cases", cases, ["version", *lengths])}
        else:
            rows = {"cases": ids, name: _unvarying(name, part.arrow(name))}
        found = case_digests(empty_tables() | rows)
        digests[name] = [found[row] for row in (np.cumsum(wanted) - 1)[at]]
    return digests


# ---------------------------------------------------------------- items


def _items(before: _Side, after: _Side, change: Texts) -> pd.DataFrame:
    (old, old_cases), (new, new_cases) = (_touched(side, change) for side in (before, after))
    at_old, at_new = _matched(_item_keys(old, old_cases, before.name), _item_keys(new, new_cases, after.name))
    texts = np.full(len(at_old), "", dtype=object)
    figures: dict[str, Any] = {}
    for name in COMPARED:
        pair = _take(old[name], at_old), _take(new[name], at_new)
        texts[~_equal(*pair) & (at_old >= 0) & (at_new >= 0)] += f", {name}"
        figures |= _beside(name, *pair) if name in FIGURES else {}
    became = _changes(at_old, at_new, same=texts == "")
    ids = {name: pc.coalesce(_take(new[name], at_new), _take(old[name], at_old)) for name in (*IDS, *ITEM)}
    cases = pc.coalesce(_take(pa.array(new_cases), at_new), _take(pa.array(old_cases), at_old))
    columns = {name: ids[name] for name in IDS} | {"case_change": pa.array(change[np.asarray(cases)], STRING)}
    columns |= {name: ids[name] for name in ITEM} | {"change": pa.array(became, STRING)}
    columns["changed_in"] = pa.array([text.removeprefix(", ") or None for text in texts], STRING)
    return to_pandas(pa.table(columns | figures).filter(pa.array(became != "")))


def _touched(side: _Side, change: Texts) -> tuple[pa.Table, Ints]:
    """The items of the cases that differ, and the numbers of these cases among those of both sides."""
    cases = side.item_cases()
    wanted = change[cases] != ""
    return side.cases.arrow("items").filter(pa.array(wanted)), cases[wanted]


def _item_keys(items: pa.Table, cases: Ints, side: str) -> pa.Array:
    """One text per item that tells it apart from any other."""
    parts = [text for name in ITEM for text in (pc.binary_length(items[name]).cast(STRING), items[name])]
    keys = pc.binary_join_element_wise(
        pa.array(cases).cast(STRING), *parts, ":", null_handling="replace", null_replacement="-"
    ).combine_chunks()
    twice = _second(keys)
    if twice is not None:
        case_id, key = (one_line(items[name][twice].as_py(), 200) for name in ("case_id", "key"))
        raise ConfigError(
            f"case {case_id!r} has two items with the key {key!r} in the {side} cases: "
            "leave the case out of both sides with cases.where"
        )
    return keys


# ---------------------------------------------------------------- rows of two tables


def _matched(old: pa.Array, new: pa.Array) -> tuple[Ints, Ints]:
    """For each key of both, its row among the old and among the new, -1 for none: new keys first, each once."""
    at_old: Ints = np.asarray(pc.fill_null(pc.index_in(new, value_set=old), -1), dtype=np.int64)
    gone = np.setdiff1d(np.arange(len(old)), at_old)
    return np.concatenate([at_old, gone]), np.concatenate([np.arange(len(new)), np.full(len(gone), -1)])


def _changes(at_old: Ints, at_new: Ints, same: Flags) -> Texts:
    """What became of each; an empty text for nothing."""
    return np.select([at_old < 0, at_new < 0, ~same], ["added", "removed", "changed"], "")


def _take(column: Any, at: Ints) -> Any:
    return column.take(pa.array(at, mask=at < 0))


def _beside(name: str, before: Any, after: Any) -> dict[str, Any]:
    return {f"{name}_before": before, f"{name}_after": after}


def _equal(one: Any, other: Any) -> Flags:
    """Whether each two values are the same; null is the same as null alone."""
    if pa.types.is_list(one.type):
        return np.array([a == b for a, b in zip(one.to_pylist(), other.to_pylist(), strict=True)], dtype=np.bool_)
    alike = pc.fill_null(pc.equal(one, other), False)
    return np.asarray(pc.or_(alike, pc.and_(pc.is_null(one), pc.is_null(other))), dtype=np.bool_)


def _second(keys: pa.Array) -> int | None:
    """The row of the first key that has stood there before."""
    _, first = np.unique(np.asarray(keys.dictionary_encode().indices), return_index=True)
    repeated = np.setdiff1d(np.arange(len(keys)), first)
    return int(repeated[0]) if len(repeated) else None


def _lacking(name: str, table: pa.Table, columns: Collection[str]) -> pa.Table:
    """A table with nothing in some columns."""
    kept = table.select([column for column in table.column_names if column not in columns])
    return pa.concat_tables([TABLES[name].empty_table(), kept], promote_options="default")


def _unvarying(name: str, table: pa.Table) -> pa.Table:
    """A table without what may differ from version to version in the ids of one and the same case."""
    place = table.column_names.index("subject_id")
    agent = pc.if_else(pc.is_valid(table["test_set_id"]), pa.scalar(None, STRING), table["subject_id"])
    table = table.set_column(place, table.schema.field(place), agent)
    return _lacking(name, table, ["version", "subject_kind", "subject_version"])
