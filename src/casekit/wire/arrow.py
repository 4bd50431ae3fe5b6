"""Structs to Arrow tables: each list of parts becomes the columns of one table.

Everything here works on a whole group of cases at a time, so that Python's share is one list per column.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import chain
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Raw

from casekit.errors import SchemaError
from casekit.report import PullReport
from casekit.schema import JSON, TABLES
from casekit.wire.roads import Batch
from casekit.wire.structs import NO_JSON, AgentCase, Case, Context, Expect, Flow

Tables = dict[str, pa.Table]
Columns = dict[str, pa.Array]

_NO_CONTEXT: Final = Context()
_NO_FLOW: Final = Flow(calls=[], steps=[])
_NO_EXPECT: Final = Expect()


def json_column(raws: Sequence[Raw]) -> pa.Array:
    """Raw slices as a JSON column: one copy of the bytes; an empty slice is null."""
    sizes = np.fromiter(map(len, raws), dtype=np.int64, count=len(raws))
    offsets = np.zeros(len(raws) + 1, dtype=np.int32)
    offsets[1:] = np.cumsum(sizes)  # a group of cases is far below 2 GiB: the reader sees to it
    absent = sizes == 0
    valid = pa.py_buffer(np.packbits(~absent, bitorder="little")) if absent.any() else None
    text = pa.StringArray.from_buffers(len(raws), pa.py_buffer(offsets), pa.py_buffer(b"".join(raws)), valid)
    return pa.ExtensionArray.from_storage(JSON, text)


class _Rows:
    """Rows of one table under construction, tied to the rows of their parents."""

    def __init__(self, name: str, ids: Columns, lists: Sequence[Sequence[Any]]) -> None:
        self.schema = TABLES[name]
        self.parts = list(chain.from_iterable(lists))
        counts = np.fromiter(map(len, lists), dtype=np.int64, count=len(lists))
        self.owner = np.repeat(np.arange(len(lists)), counts)
        starts = np.cumsum(counts) - counts
        self.number = pa.array(np.arange(len(self.owner)) - starts[self.owner])
        self.columns: Columns = self.of_owner(ids)

    def of_owner(self, columns: Columns) -> Columns:
        """Columns of the parents, repeated for each child."""
        of = pa.array(self.owner)
        return {name: column.take(of) for name, column in columns.items()}

    def put(self, **columns: pa.Array) -> None:
        """Add finished columns."""
        self.columns.update(columns)

    def read(self, column: str, member: str) -> None:
        """Add a column that is a member of each part."""
        kind = self.schema.field(column).type
        values = list(map(attrgetter(member), self.parts))
        self.columns[column] = json_column(values) if kind == JSON else pa.array(values, kind)

    def ids(self) -> Columns:
        """The columns every child of these rows repeats."""
        return {name: self.columns[name] for name in self.schema.names[:6]}

    def table(self) -> pa.Table:
        """The finished table; a column nobody gave is null."""
        size = len(self.parts)
        arrays = []
        for field in self.schema:
            column = self.columns.get(field.name)
            if column is None:
                column = _nulls(size, field.type)
            arrays.append(column)
        return pa.Table.from_arrays(arrays, schema=self.schema)


def _nulls(size: int, kind: pa.DataType) -> pa.Array:
    if kind == JSON:
        return pa.ExtensionArray.from_storage(JSON, pa.nulls(size, pa.string()))
    return pa.nulls(size, kind)


def _extra_column(batch: Batch) -> pa.Array | None:
    if not batch.extras:
        return None
    texts: list[str | None] = [None] * len(batch.cases)
    for n, members in batch.extras.items():
        pairs = (f"{json.dumps(pointer, ensure_ascii=False)}:{text.decode()}" for pointer, text in members.items())
        texts[n] = f"{{{','.join(pairs)}}}"
    return pa.ExtensionArray.from_storage(JSON, pa.array(texts, pa.string()))


def _length(values: Sequence[Any] | None) -> int | None:
    return None if values is None else len(values)


def corrections_tables(
    batch: Batch, test_set_id: str | None, version: str | None, report: PullReport | None = None
) -> Tables:
    """The tables of some cases of a corrections test set."""
    cases: list[Case] = batch.cases
    rows = _Rows("cases", {}, [cases])
    subjects = [c.subject for c in cases]
    contexts = [c.context or _NO_CONTEXT for c in cases]
    flows = [c.flow or _NO_FLOW for c in contexts]
    rows.put(
        test_set_id=pa.repeat(pa.scalar(test_set_id, pa.string()), len(cases)),
        version=pa.repeat(pa.scalar(version, pa.string()), len(cases)),
        subject_kind=pa.array([s.kind for s in subjects], pa.string()),
        subject_id=pa.array([s.id for s in subjects], pa.string()),
        subject_version=pa.array([s.version for s in subjects], pa.string()),
        n_messages=pa.array([_length(c.history) for c in contexts], pa.int64()),
        history_truncated=pa.array([c.historyTruncated for c in contexts], pa.bool_()),
        retrieved_json=json_column([c.retrieved for c in contexts]),
        recalled_json=json_column([c.recalled for c in contexts]),
        session_approved=pa.array([c.sessionApproval and c.sessionApproval.approved for c in contexts], pa.bool_()),
        session_rationale=pa.array([c.sessionApproval and c.sessionApproval.rationale for c in contexts], pa.string()),
        n_recorded_calls=pa.array([c.flow and len(c.flow.calls) for c in contexts], pa.int64()),
        n_recorded_steps=pa.array([c.flow and len(c.flow.steps) for c in contexts], pa.int64()),
        flow_truncated=pa.array([f.truncated for f in flows], pa.bool_()),
        tool_env_json=json_column([c.toolEnv for c in contexts]),
        replay_of=pa.array([c.replayOf for c in contexts], pa.string()),
    )
    rows.read("case_id", "caseId")
    rows.read("run_id", "runId")
    rows.read("expert", "expert")
    rows.read("erased", "erased")
    rows.read("input_json", "input")
    rows.read("output_json", "output")
    rows.put(
        n_segments=pa.array([_length(c.segments) for c in cases], pa.int64()),
        n_items=pa.array([len(c.items) for c in cases], pa.int64()),
        n_corrections=pa.array([_length(c.corrections) for c in cases], pa.int64()),
        has_context=pa.array([c.context is not None for c in cases], pa.bool_()),
    )
    return _finish(rows, batch, cases, contexts, flows, report)


def _finish(
    rows: _Rows, batch: Batch, cases: list[Any], contexts: list[Context], flows: list[Flow], report: PullReport | None
) -> Tables:
    """The child tables, once the cases' own columns stand."""
    ids = rows.ids()
    live = isinstance(next(iter(cases), None), AgentCase)
    expects = [c.expect or _NO_EXPECT for c in cases]
    corrections = _corrections(ids, [] if live else [c.corrections or () for c in cases], len(cases))
    tables = {
        **_items(ids, rows.columns["run_id"], [() for _ in cases] if live else [c.items for c in cases], report),
        "segments": _segments(ids, [() for _ in cases] if live else [c.segments or () for c in cases]),
        "corrections": corrections.table(),
        "expected_calls": _expected_calls(ids, corrections, expects),
        "expected_items": _expected_items(ids, expects),
        "recorded_calls": _recorded_calls(ids, flows),
        "recorded_steps": _recorded_steps(ids, flows),
        "messages": _messages(ids, contexts),
    }
    _expect(rows, cases, expects)
    if (extra := _extra_column(batch)) is not None:
        rows.put(extra_json=extra)
    if report is not None:
        report.absent_fields["/runId"] += rows.columns["run_id"].null_count
    return {name: rows.table() if name == "cases" else tables[name] for name in TABLES}


def _expect(rows: _Rows, cases: list[Any], expects: list[Expect]) -> None:
    decisions = [e.decisions for e in expects]
    answers = [e.answer for e in expects]
    strings = rows.schema.field("must_not_call").type
    rows.put(
        has_expect=pa.array([c.expect is not None for c in cases], pa.bool_()),
        decisions_verdict=pa.array([d and d.verdict for d in decisions], pa.string()),
        n_should_call=pa.array([d and _length(d.shouldCall) for d in decisions], pa.int64()),
        must_not_call=pa.array([d and d.mustNotCall for d in decisions], strings),
        answer_verdict=pa.array([a and a.verdict for a in answers], pa.string()),
        should_say=pa.array([a and a.shouldSay for a in answers], pa.string()),
        why=pa.array([a and a.why for a in answers], pa.string()),
        n_expected_items=pa.array([_length(e.items) for e in expects], pa.int64()),
    )


def _items(ids: Columns, run_id: pa.Array, lists: list[Any], report: PullReport | None) -> Tables:
    rows = _Rows("items", {**ids, "run_id": run_id}, lists)
    experts = [i.expert for i in rows.parts]
    strings = rows.schema.field("correction_ids").type
    rows.put(
        item_no=rows.number,
        expert_yes_weight=pa.array([e and e.yesWeight for e in experts], pa.float64()),
        expert_total_weight=pa.array([e and e.totalWeight for e in experts], pa.float64()),
        expert_correction_ids=pa.array([e and e.correctionIds for e in experts], strings),
    )
    rows.read("key", "key")
    rows.read("pointer", "pointer")
    rows.read("rank", "rank")
    rows.read("yes", "yes")
    rows.read("no", "no")
    rows.read("yes_weight", "yesWeight")
    rows.read("total_weight", "totalWeight")
    rows.read("correction_ids", "correctionIds")
    reasons = _Rows("reasons", rows.ids(), [i.reasons for i in rows.parts])
    reasons.put(reason_no=reasons.number)
    of_item = reasons.of_owner({"item_no": rows.number, "item_key": rows.columns["key"]})
    reasons.put(**of_item)
    reasons.read("verdict", "verdict")
    reasons.read("reason", "reason")
    reasons.read("corrector_group_id", "correctorGroupId")
    reasons.read("expert", "expert")
    if report is not None:
        report.absent_fields["/items/*/expert"] += rows.columns["expert_total_weight"].null_count
        report.absent_fields["/items/*/correctionIds"] += rows.columns["correction_ids"].null_count
    return {"items": rows.table(), "reasons": reasons.table()}


def _segments(ids: Columns, lists: list[Any]) -> pa.Table:
    rows = _Rows("segments", ids, lists)
    rows.put(segment_no=rows.number)
    rows.read("key", "key")
    rows.read("value", "value")
    return rows.table()


def _corrections(ids: Columns, lists: list[Any], size: int) -> _Rows:
    rows = _Rows("corrections", ids, lists or [()] * size)
    rows.put(correction_no=rows.number)
    rows.read("correction_id", "correctionId")
    rows.read("corrector_group_id", "correctorGroupId")
    rows.read("expert", "expert")
    rows.read("not_called", "notCalled")
    return rows


def _expected_calls(ids: Columns, corrections: _Rows, expects: list[Expect]) -> pa.Table:
    """Calls of corrections first, then calls of expect; each case's rows are brought together at the end."""
    schema = TABLES["expected_calls"]
    asked = [e.decisions.shouldCall or () if e.decisions else () for e in expects]
    parts = []
    for source, owners, lists in (
        ("corrections", corrections.ids(), [c.calls for c in corrections.parts]),
        ("expect", ids, asked),
    ):
        rows = _Rows("expected_calls", owners, lists)
        case_no = corrections.owner[rows.owner] if source == "corrections" else rows.owner
        number = corrections.number.take(pa.array(rows.owner)) if source == "corrections" else None
        rows.put(source=pa.repeat(source, len(rows.parts)), call_no=rows.number)
        rows.put(**({"correction_no": number} if number is not None else {}))
        rows.read("tool", "tool")
        rows.read("args_json", "args")
        parts.append((case_no, rows.table()))
    order = np.argsort(np.concatenate([case_no for case_no, _ in parts]), kind="stable")
    table = pa.concat_tables([table for _, table in parts]).take(pa.array(order)).combine_chunks()
    return table.cast(schema)


def _expected_items(ids: Columns, expects: list[Expect]) -> pa.Table:
    rows = _Rows("expected_items", ids, [e.items or () for e in expects])
    rows.put(item_no=rows.number)
    rows.read("key", "key")
    rows.read("pointer", "pointer")
    rows.read("rank", "rank")
    rows.read("verdict", "verdict")
    return rows.table()


def _recorded_calls(ids: Columns, flows: list[Flow]) -> pa.Table:
    rows = _Rows("recorded_calls", ids, [f.calls for f in flows])
    rows.put(call_no=rows.number)
    rows.read("run_id", "runId")
    rows.read("node_id", "nodeId")
    rows.read("scope", "scope")
    rows.read("tool_id", "toolId")
    rows.read("arguments_json", "arguments")
    rows.read("result_json", "result")
    rows.read("from_event", "fromEvent")
    return rows.table()


def _recorded_steps(ids: Columns, flows: list[Flow]) -> pa.Table:
    rows = _Rows("recorded_steps", ids, [f.steps for f in flows])
    rows.put(step_no=rows.number)
    rows.read("run_id", "runId")
    rows.read("node_id", "nodeId")
    rows.read("scope", "scope")
    rows.read("agent_id", "agentId")
    rows.read("agent_version", "agentVersion")
    rows.read("retrieved_json", "retrieved")
    rows.read("recalled_json", "recalled")
    return rows.table()


def _messages(ids: Columns, contexts: list[Context]) -> pa.Table:
    rows = _Rows("messages", ids, [c.history or () for c in contexts])
    rows.put(message_no=rows.number)
    rows.put(message_json=json_column(rows.parts))
    return rows.table()


def agent_tables(batch: Batch, agent_id: str, report: PullReport | None = None) -> Tables:
    """The tables of some cases of an agent's live test set.

    The subject is the agent at the version the run ran, so that live and frozen cases group alike.
    """
    cases: list[AgentCase] = batch.cases
    rows = _Rows("cases", {}, [cases])
    retired = [c.retired for c in cases]
    times = _Times(batch)
    rows.put(
        subject_kind=pa.repeat("agent", len(cases)),
        subject_id=pa.repeat(agent_id, len(cases)),
        added_at=times.column("/addedAt", [c.addedAt for c in cases]),
        updated_at=times.column("/updatedAt", [c.updatedAt for c in cases]),
        retired=pa.array([r is not None for r in retired], pa.bool_()),
        retired_reason=pa.array([r and r.reason for r in retired], pa.string()),
        retired_by_kind=pa.array([r and r.by.kind for r in retired], pa.string()),
        retired_by_id=pa.array([r and r.by.id for r in retired], pa.string()),
        retired_at=times.column("/retired/at", [r and r.at for r in retired]),
        has_context=pa.repeat(False, len(cases)),
    )
    rows.read("case_id", "id")
    rows.read("subject_version", "madeOn")
    rows.read("run_id", "runId")
    rows.read("expert", "expert")
    rows.read("kind", "kind")
    rows.read("project_id", "projectId")
    rows.read("made_on", "madeOn")
    rows.read("added_by_kind", "addedBy.kind")
    rows.read("added_by_id", "addedBy.id")
    rows.put(test_set_id=_nulls(len(cases), pa.string()), version=_nulls(len(cases), pa.string()))
    return _finish(rows, batch, cases, [_NO_CONTEXT] * len(cases), [_NO_FLOW] * len(cases), report)


def time_text(value: datetime) -> str:
    """A time as servers usually write it: UTC, with as many digits of a second as it needs (0, 3 or 6)."""
    precision = "seconds" if not value.microsecond else "milliseconds" if not value.microsecond % 1000 else "microseconds"
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=precision) + "Z"


class _Times:
    """Time columns; a text that the column would not give back as it came is kept aside."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    def column(self, pointer: str, texts: Iterable[str | None]) -> pa.Array:
        values = [None if text is None else self._time(n, pointer, text) for n, text in enumerate(texts)]
        return pa.array(values, pa.timestamp("us", tz="UTC"))

    def _time(self, n: int, pointer: str, text: str) -> datetime:
        try:
            value = datetime.fromisoformat(text)
            if value.tzinfo is None:
                raise ValueError
            value = value.astimezone(UTC)
        except (ValueError, OverflowError):
            case_id = self.batch.cases[n].id
            raise SchemaError("expected a date and time with its offset (RFC 3339)", case_id=case_id, path=pointer) from None
        if time_text(value) != text:
            self.batch.extras.setdefault(n, {})[pointer] = msgspec.json.encode(text)
        return value
