"""Tables back to documents: what was served, equal as JSON."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

import pyarrow as pa

from casekit.errors import LimitError, one_line
from casekit.wire.arrow import Tables
from casekit.wire.times import time_text

Document = dict[str, Any]
Row = dict[str, Any]

__all__ = ["documents"]

ROWS: Final = 5000  # made Python objects at once


def documents(tables: Tables) -> Iterator[Document]:
    """The document of each row of ``cases``, in order.

    Parameters
    ----------
    tables
        Children stand in the order of their cases, as in every CaseSet.

    Raises
    ------
    LimitError
        A number has more digits than Python reads.
    """
    children = {name: _Children(table) for name, table in tables.items() if name != "cases"}
    for row in _rows(tables["cases"]):
        key = _key(row)
        parts = {name: child.of(key) for name, child in children.items()}
        try:
            document = _agent_case(row, parts) if row["kind"] is not None else _case(row, parts)
            if row["extra_json"] is not None:
                for pointer, value in json.loads(row["extra_json"]).items():
                    _put(document, pointer, value)
        except ValueError:  # the JSON itself was checked when it came
            raise LimitError(
                f"case {one_line(row['case_id'], 200)!r} holds a number of more digits than Python reads "
                f"({sys.get_int_max_str_digits():,}): raise it with sys.set_int_max_str_digits, or read the text"
            ) from None
        yield document


def _rows(table: pa.Table) -> Iterator[Row]:
    for batch in table.to_batches(max_chunksize=ROWS):
        yield from batch.to_pylist()


def _key(row: Row) -> tuple[str | None, ...]:
    return row["test_set_id"], row["version"], row["subject_id"], row["case_id"]


class _Children:
    """Rows of a child table, handed out case by case."""

    def __init__(self, table: pa.Table) -> None:
        self.groups = groupby(_rows(table), key=_key)
        self._step()

    def _step(self) -> None:
        self.key: tuple[str | None, ...] | None = None
        self.rows: list[Row] = []
        for key, rows in self.groups:
            self.key, self.rows = key, list(rows)
            return

    def of(self, key: tuple[str | None, ...]) -> list[Row]:
        """The rows of a case; to be asked for in the order of the cases."""
        if self.key != key:
            return []
        rows = self.rows
        self._step()
        return rows


def _given(**members: Any) -> Document:
    """Members that are there; None stands for absent."""
    return {name: value for name, value in members.items() if value is not None}


def _free(document: Document, member: str, text: str | None) -> None:
    """Add free JSON; its null is a value, an absent member is no text."""
    if text is not None:
        document[member] = json.loads(text)


def _listed(length: int | None, rows: list[Document]) -> list[Document] | None:
    return None if length is None else rows


def _case(row: Row, parts: dict[str, list[Row]]) -> Document:
    document = _given(
        caseId=row["case_id"],
        runId=row["run_id"],
        subject={"kind": row["subject_kind"], "id": row["subject_id"], "version": row["subject_version"]},
        context=_context(row, parts) if row["has_context"] else None,
        segments=_listed(row["n_segments"], [{"key": s["key"], "value": s["value"]} for s in parts["segments"]]),
        items=_items(parts),
        corrections=_listed(row["n_corrections"], _corrections(parts)),
        expect=_expect(row, parts),
        expert=row["expert"],
        erased=row["erased"],
    )
    _free(document, "input", row["input_json"])
    _free(document, "output", row["output_json"])
    return document


def _agent_case(row: Row, parts: dict[str, list[Row]]) -> Document:
    retired = {
        "reason": row["retired_reason"],
        "by": {"kind": row["retired_by_kind"], "id": row["retired_by_id"]},
        "at": row["retired_at"] and time_text(row["retired_at"]),
    }
    return _given(
        id=row["case_id"],
        kind=row["kind"],
        projectId=row["project_id"],
        runId=row["run_id"],
        madeOn=row["made_on"],
        expect=_expect(row, parts),
        addedBy={"kind": row["added_by_kind"], "id": row["added_by_id"]},
        addedAt=time_text(row["added_at"]),
        updatedAt=time_text(row["updated_at"]),
        retired=retired if row["retired"] else None,
        expert=row["expert"],
    )


def _context(row: Row, parts: dict[str, list[Row]]) -> Document:
    approval = None
    if row["session_approved"] is not None:
        approval = _given(approved=row["session_approved"], rationale=row["session_rationale"])
    flow = None
    if row["n_recorded_calls"] is not None:
        flow = _given(calls=_calls(parts), steps=_steps(parts), truncated=row["flow_truncated"])
    context = _given(
        history=_listed(row["n_messages"], [json.loads(m["message_json"]) for m in parts["messages"]]),
        historyTruncated=row["history_truncated"],
        sessionApproval=approval,
        flow=flow,
        replayOf=row["replay_of"],
    )
    _free(context, "retrieved", row["retrieved_json"])
    _free(context, "recalled", row["recalled_json"])
    _free(context, "toolEnv", row["tool_env_json"])
    return context


def _calls(parts: dict[str, list[Row]]) -> list[Document]:
    calls = []
    for row in parts["recorded_calls"]:
        call = _given(
            runId=row["run_id"],
            nodeId=row["node_id"],
            scope=row["scope"],
            toolId=row["tool_id"],
            fromEvent=row["from_event"],
        )
        _free(call, "arguments", row["arguments_json"])
        _free(call, "result", row["result_json"])
        calls.append(call)
    return calls


def _steps(parts: dict[str, list[Row]]) -> list[Document]:
    steps = []
    for row in parts["recorded_steps"]:
        step = _given(
            runId=row["run_id"],
            nodeId=row["node_id"],
            scope=row["scope"],
            agentId=row["agent_id"],
            agentVersion=row["agent_version"],
        )
        _free(step, "retrieved", row["retrieved_json"])
        _free(step, "recalled", row["recalled_json"])
        steps.append(step)
    return steps


def _items(parts: dict[str, list[Row]]) -> list[Document]:
    reasons: defaultdict[int, list[Document]] = defaultdict(list)
    for r in parts["reasons"]:
        reason = _given(
            verdict=r["verdict"], reason=r["reason"], correctorGroupId=r["corrector_group_id"], expert=r["expert"]
        )
        reasons[r["item_no"]].append(reason)
    items = []
    for row in parts["items"]:
        expert = None
        if row["expert_total_weight"] is not None:
            expert = _given(
                yesWeight=row["expert_yes_weight"],
                totalWeight=row["expert_total_weight"],
                correctionIds=row["expert_correction_ids"],
            )
        items.append(
            _given(
                key=row["key"],
                pointer=row["pointer"],
                rank=row["rank"],
                yes=row["yes"],
                no=row["no"],
                yesWeight=row["yes_weight"],
                totalWeight=row["total_weight"],
                expert=expert,
                correctionIds=row["correction_ids"],
                reasons=reasons[row["item_no"]],
            )
        )
    return items


def _asked(parts: dict[str, list[Row]], source: str, correction_no: int | None = None) -> list[Document]:
    return [
        {"tool": r["tool"], "args": json.loads(r["args_json"])}
        for r in parts["expected_calls"]
        if r["source"] == source and r["correction_no"] == correction_no
    ]


def _corrections(parts: dict[str, list[Row]]) -> list[Document]:
    return [
        _given(
            correctionId=r["correction_id"],
            correctorGroupId=r["corrector_group_id"],
            expert=r["expert"],
            calls=_asked(parts, "corrections", r["correction_no"]),
            notCalled=r["not_called"],
        )
        for r in parts["corrections"]
    ]


def _expect(row: Row, parts: dict[str, list[Row]]) -> Document | None:
    if not row["has_expect"]:
        return None
    decisions = answer = None
    if row["decisions_verdict"] is not None:
        decisions = _given(
            verdict=row["decisions_verdict"],
            shouldCall=_listed(row["n_should_call"], _asked(parts, "expect")),
            mustNotCall=row["must_not_call"],
        )
    if row["answer_verdict"] is not None:
        answer = _given(verdict=row["answer_verdict"], shouldSay=row["should_say"], why=row["why"])
    items = [
        _given(key=r["key"], pointer=r["pointer"], rank=r["rank"], verdict=r["verdict"])
        for r in parts["expected_items"]
    ]
    return _given(decisions=decisions, answer=answer, items=_listed(row["n_expected_items"], items))


def _put(document: Any, pointer: str, value: Any) -> None:
    """Set what a JSON Pointer (RFC 6901) names; its parents are there."""
    *parents, last = (step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
    for step in parents:
        document = document[int(step)] if isinstance(document, list) else document[step]
    document[last] = value
