"""Structs to plain lists, one per column, page by page: while the structs are still in the processor's cache.

Each function here says where a column's values stand; `casekit.wire.arrow` makes tables of the lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

from msgspec import Raw, Struct

from casekit.wire.structs import (
    ABSENT,
    AgentCase,
    Call,
    Case,
    CaseFrame,
    Context,
    Correction,
    Expect,
    ExpectedCall,
    ExpectedItem,
    Flow,
    Item,
    Reason,
    Segment,
    Step,
)
from casekit.wire.text import LEVELS, is_deep
from casekit.wire.times import time_of

__all__ = [
    "CALLS_OF_CORRECTIONS",
    "Deep",
    "Lists",
    "Texts",
    "agent_lists",
    "corrections_lists",
    "deep_path",
    "outline_lists",
]

CALLS_OF_CORRECTIONS: Final = "expected_calls of corrections"  # beside those of expect, until the tables are made

Columns = dict[str, Any]  # of lists, or of Texts where a cell is a list

_NO_CONTEXT: Final = Context()
_NO_FLOW: Final = Flow(calls=[], steps=[])
_NO_EXPECT: Final = Expect()


class Deep(Exception):
    """A free value nests too deep; `deep_path` says which."""


class Texts:
    """A column whose cells are lists of texts, laid flat: thousands of small lists would keep the collector busy.

    Parameters
    ----------
    lists
        One per row; None where it was absent.

    Attributes
    ----------
    lengths : list of int
        One per row; -1 where the list was absent.
    values : list of str
        The texts of all of them.
    """

    def __init__(self, lists: Sequence[list[str] | None] = ()) -> None:
        self.lengths = [-1 if texts is None else len(texts) for texts in lists]
        self.values = list(chain.from_iterable(filter(None, lists)))

    def extend(self, other: Texts) -> None:
        """Add rows."""
        self.lengths += other.lengths
        self.values += other.values


@dataclass
class Lists:
    """Columns of some pages as lists.

    Attributes
    ----------
    columns : dict
        By table, then by column: one value per row. An absent value is None, or no bytes in a JSON column.
    counts : dict
        By table: how many rows each row of the table above it has.
    """

    columns: dict[str, Columns] = field(default_factory=dict)
    counts: dict[str, list[int]] = field(default_factory=dict)

    def put(self, table: str, lists: Sequence[Sequence[Any]], read: Callable[[list[Any]], Columns]) -> list[Any]:
        """Read the columns of the parts in some lists, one list per row of the table above; the parts."""
        parts = list(chain.from_iterable(lists))
        self.counts[table] = list(map(len, lists))
        self.columns[table] = columns = read(parts)
        for name, values in columns.items():
            if name.endswith("_json") and max(map(len, values), default=0) > 2 * LEVELS:
                _refuse_deep(values)
        return parts

    def extend(self, page: Lists) -> None:
        """Add the lists of a page."""
        for table, counts in page.counts.items():
            self.counts.setdefault(table, []).extend(counts)
            columns = self.columns.setdefault(table, {})
            for name, values in page.columns[table].items():
                columns.setdefault(name, type(values)()).extend(values)

    def __len__(self) -> int:
        """How many cases there are."""
        return len(self.columns["cases"]["case_id"]) if self.columns else 0


def _refuse_deep(values: Iterable[Raw]) -> None:
    if any(is_deep(bytes(value)) for value in values if len(value) > 2 * LEVELS):
        raise Deep


def deep_path(part: Any, path: str = "") -> str | None:
    """JSON Pointer from a case to a value that nests too deep, if there is one."""
    if isinstance(part, Raw):
        return path if is_deep(bytes(part)) else None
    members: Iterable[tuple[Any, Any]] = ()
    if isinstance(part, Struct):
        members = ((name, getattr(part, name)) for name in part.__struct_fields__)
    elif isinstance(part, list):
        members = enumerate(part)
    found = (deep_path(value, f"{path}/{name}") for name, value in members)
    return next((place for place in found if place is not None), None)


def _length(values: Sequence[Any] | None) -> int | None:
    return None if values is None else len(values)


# ---------------------------------------------------------------- a corrections test set


def corrections_lists(cases: list[Case], extras: list[bytes]) -> Lists:
    """The columns of some cases of a corrections test set; ``extras`` is their column of unknown members.

    Raises
    ------
    Deep
        A case nests too deep.
    """
    out = outline_lists(cases, extras)
    items = out.put("items", [c.items for c in cases], _items)
    out.put("reasons", [i.reasons for i in items], _reasons)
    out.columns["cases"]["n_items"] = out.counts["items"]
    return out


def outline_lists(cases: Sequence[CaseFrame], extras: list[bytes]) -> Lists:
    """The same without their items."""
    out = Lists()
    expects = [c.expect for c in cases]
    contexts = [_NO_CONTEXT if c.context is ABSENT else c.context for c in cases]
    flows = [c.flow for c in contexts]
    columns = _cases(cases) | _context(contexts, flows) | _expect(expects) | {"extra_json": extras}
    out.put("cases", [cases], lambda _: columns)
    out.put("segments", [c.segments or () for c in cases], _segments)
    corrections = out.put("corrections", [c.corrections or () for c in cases], _corrections)
    out.put(CALLS_OF_CORRECTIONS, [c.calls for c in corrections], _expected_calls)
    _put_expected(out, expects)
    given = [_NO_FLOW if f is ABSENT else f for f in flows]
    out.put("recorded_calls", [f.calls for f in given], _recorded_calls)
    out.put("recorded_steps", [f.steps for f in given], _recorded_steps)
    out.put("messages", [c.history or () for c in contexts], lambda messages: {"message_json": messages})
    return out


def _cases(cases: Sequence[CaseFrame]) -> Columns:
    subjects = [c.subject for c in cases]
    return {
        "case_id": [c.caseId for c in cases],
        "subject_kind": [s.kind for s in subjects],
        "subject_id": [s.id for s in subjects],
        "subject_version": [s.version for s in subjects],
        "run_id": [c.runId for c in cases],
        "expert": [c.expert for c in cases],
        "erased": [c.erased for c in cases],
        "input_json": [c.input for c in cases],
        "output_json": [c.output for c in cases],
        "n_segments": [_length(c.segments) for c in cases],
        "n_corrections": [_length(c.corrections) for c in cases],
        "has_context": [c.context is not None for c in cases],
    }


def _context(contexts: list[Context], flows: list[Any]) -> Columns:
    approvals: list[Any] = [c.sessionApproval for c in contexts]
    return {
        "n_messages": [_length(c.history) for c in contexts],
        "history_truncated": [c.historyTruncated for c in contexts],
        "retrieved_json": [c.retrieved for c in contexts],
        "recalled_json": [c.recalled for c in contexts],
        "session_approved": [a and a.approved for a in approvals],
        "session_rationale": [a and a.rationale for a in approvals],
        "n_recorded_calls": [f and len(f.calls) for f in flows],
        "n_recorded_steps": [f and len(f.steps) for f in flows],
        "flow_truncated": [f and f.truncated for f in flows],
        "tool_env_json": [c.toolEnv for c in contexts],
        "replay_of": [c.replayOf for c in contexts],
    }


def _items(items: list[Item]) -> Columns:
    experts: list[Any] = [i.expert for i in items]
    return {
        "key": [i.key for i in items],
        "pointer": [i.pointer for i in items],
        "rank": [i.rank for i in items],
        "yes": [i.yes for i in items],
        "no": [i.no for i in items],
        "yes_weight": [i.yesWeight for i in items],
        "total_weight": [i.totalWeight for i in items],
        "expert_yes_weight": [e and e.yesWeight for e in experts],
        "expert_total_weight": [e and e.totalWeight for e in experts],
        "correction_ids": Texts([i.correctionIds for i in items]),
        "expert_correction_ids": Texts([e and e.correctionIds for e in experts]),
    }


def _reasons(reasons: list[Reason]) -> Columns:
    return {
        "verdict": [r.verdict for r in reasons],
        "reason": [r.reason for r in reasons],
        "corrector_group_id": [r.correctorGroupId for r in reasons],
        "expert": [r.expert for r in reasons],
    }


def _segments(segments: list[Segment]) -> Columns:
    return {"key": [s.key for s in segments], "value": [s.value for s in segments]}


def _corrections(corrections: list[Correction]) -> Columns:
    return {
        "correction_id": [c.correctionId for c in corrections],
        "corrector_group_id": [c.correctorGroupId for c in corrections],
        "expert": [c.expert for c in corrections],
        "not_called": Texts([c.notCalled for c in corrections]),
    }


def _recorded_calls(calls: list[Call]) -> Columns:
    return {
        "run_id": [c.runId for c in calls],
        "node_id": [c.nodeId for c in calls],
        "scope": [c.scope for c in calls],
        "tool_id": [c.toolId for c in calls],
        "arguments_json": [c.arguments for c in calls],
        "result_json": [c.result for c in calls],
        "from_event": [c.fromEvent for c in calls],
    }


def _recorded_steps(steps: list[Step]) -> Columns:
    return {
        "run_id": [s.runId for s in steps],
        "node_id": [s.nodeId for s in steps],
        "scope": [s.scope for s in steps],
        "agent_id": [s.agentId for s in steps],
        "agent_version": [s.agentVersion for s in steps],
        "retrieved_json": [s.retrieved for s in steps],
        "recalled_json": [s.recalled for s in steps],
    }


# ---------------------------------------------------------------- what a case expects of a run


def _expect(expects: list[Any]) -> Columns:
    given = [e or _NO_EXPECT for e in expects]
    decisions: list[Any] = [e.decisions for e in given]
    answers: list[Any] = [e.answer for e in given]
    return {
        "has_expect": [e is not None for e in expects],
        "decisions_verdict": [d and d.verdict for d in decisions],
        "n_should_call": [d and _length(d.shouldCall) for d in decisions],
        "must_not_call": Texts([d and d.mustNotCall for d in decisions]),
        "answer_verdict": [a and a.verdict for a in answers],
        "should_say": [a and a.shouldSay for a in answers],
        "why": [a and a.why for a in answers],
        "n_expected_items": [_length(e.items) for e in given],
    }


def _put_expected(out: Lists, expects: list[Any]) -> None:
    given = [e or _NO_EXPECT for e in expects]
    asked = [e.decisions.shouldCall or () if e.decisions else () for e in given]
    out.put("expected_calls", asked, _expected_calls)
    out.put("expected_items", [e.items or () for e in given], _expected_items)


def _expected_calls(calls: list[ExpectedCall]) -> Columns:
    return {"tool": [c.tool for c in calls], "args_json": [c.args for c in calls]}


def _expected_items(items: list[ExpectedItem]) -> Columns:
    return {
        "key": [i.key for i in items],
        "pointer": [i.pointer for i in items],
        "rank": [i.rank for i in items],
        "verdict": [i.verdict for i in items],
    }


# ---------------------------------------------------------------- an agent's live test set


def agent_lists(cases: list[AgentCase], extras: list[bytes]) -> Lists:
    """The columns of some cases of an agent's live test set; otherwise as `corrections_lists`."""
    out = Lists()
    expects = [c.expect for c in cases]
    columns = _agent_cases(cases) | _expect(expects) | {"extra_json": extras}
    out.put("cases", [cases], lambda _: columns)
    _put_expected(out, expects)
    return out


def _agent_cases(cases: list[AgentCase]) -> Columns:
    retired: list[Any] = [c.retired for c in cases]
    return {
        "case_id": [c.id for c in cases],
        "subject_version": [c.madeOn for c in cases],
        "run_id": [c.runId for c in cases],
        "expert": [c.expert for c in cases],
        "has_context": [False] * len(cases),
        "kind": [c.kind for c in cases],
        "project_id": [c.projectId for c in cases],
        "made_on": [c.madeOn for c in cases],
        "added_by_kind": [c.addedBy.kind for c in cases],
        "added_by_id": [c.addedBy.id for c in cases],
        "added_at": [time_of(c.addedAt) for c in cases],
        "updated_at": [time_of(c.updatedAt) for c in cases],
        "retired": [r is not None for r in retired],
        "retired_reason": [r and r.reason for r in retired],
        "retired_by_kind": [r and r.by.kind for r in retired],
        "retired_by_id": [r and r.by.id for r in retired],
        "retired_at": [r and time_of(r.at) for r in retired],
    }
