"""The tables of a CaseSet: one Arrow schema each, every field with its meaning and unit.

Names are the API's own, in snake_case. A column's type never depends on the rows. A column ending in
``_json`` holds JSON text exactly as the server sent it. Where a list may be absent or empty, the parent
row keeps its length (``n_…``): null is absent, 0 is empty.

This file is the data dictionary: `dictionary` turns it into rows.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from casekit.errors import ConfigError, nearest, one_line

__all__ = ["FORMAT_COLUMNS", "TABLES", "check_table", "dictionary", "empty_tables"]

STRING: Final = pa.string()
INT: Final = pa.int64()
FLOAT: Final = pa.float64()
BOOL: Final = pa.bool_()
TIME: Final = pa.timestamp("us", tz="UTC")
JSON: Final = pa.json_(pa.string())
STRINGS: Final = pa.list_(pa.field("element", pa.string(), nullable=False))


def _field(name: str, kind: pa.DataType, doc: str, *, unit: str = "", null: str | None = None) -> pa.Field:
    """One column. ``null`` says what a missing value means; without it the column has none."""
    about = {"doc": doc}
    if unit:
        about["unit"] = unit
    if null is not None:
        about["null"] = null
    return pa.field(name, kind, nullable=null is not None, metadata=about)


FORMAT_COLUMNS: Final = (
    _field("test_set_id", STRING, "Test set the case belongs to.", null="the live test set of an agent"),
    _field("version", STRING, "Version of the test set.", null="the live test set of an agent"),
    _field("case_id", STRING, "Id of the case."),
    _field("subject_kind", STRING, "What ran: agent or flow (a newer server may know more)."),
    _field("subject_id", STRING, "Id of the agent or flow that ran."),
    _field("subject_version", STRING, "Version of the agent or flow that ran."),
)


def _table(about: str, *fields: pa.Field) -> pa.Schema:
    return pa.schema([*FORMAT_COLUMNS, *fields], metadata={"doc": about})


_ABSENT = "the field was absent"
_NOT_LIVE = "not a case of an agent's live test set"

CASES: Final = _table(
    "One row per case, in the server's order.",
    _field("run_id", STRING, "Run the case was copied from; statistics cluster by it.", null="an older server"),
    _field("expert", BOOL, "The case is an expert's.", null=_ABSENT),
    _field("erased", BOOL, "An erasure cleared this case.", null="the field was absent: not erased"),
    _field("input_json", JSON, "Input of the run.", null=_ABSENT),
    _field("output_json", JSON, "Output of the run.", null=_ABSENT),
    _field("n_segments", INT, "Length of the segment path.", unit="segments", null=_ABSENT),
    _field("n_items", INT, "Items with corrections.", unit="items", null="not a case of a corrections test set"),
    _field("n_corrections", INT, "Corrections that carry expected decisions.", unit="corrections", null=_ABSENT),
    _field("has_context", BOOL, "The case says what the run needs to be replayed."),
    _field("n_messages", INT, "Messages of the conversation before the turn.", unit="messages", null=_ABSENT),
    _field("history_truncated", BOOL, "Older messages were left out.", null=_ABSENT),
    _field("retrieved_json", JSON, "What the turn's retrievals returned.", null=_ABSENT),
    _field("recalled_json", JSON, "Messages of earlier conversations the turn recalled.", null=_ABSENT),
    _field("session_approved", BOOL, "Decision at the session approval gate.", null="no gate"),
    _field("session_rationale", STRING, "Reason given at the gate.", null=_ABSENT),
    _field("n_recorded_calls", INT, "Tool calls of a flow run that were kept.", unit="calls", null="no flow"),
    _field("n_recorded_steps", INT, "Agent steps of a flow run that were kept.", unit="steps", null="no flow"),
    _field("flow_truncated", BOOL, "More calls were made than were kept.", null=_ABSENT),
    _field("tool_env_json", JSON, "Environment values the tools were sent, by tool.", null=_ABSENT),
    _field("replay_of", STRING, "Run that this run re-ran.", null=_ABSENT),
    _field("has_expect", BOOL, "The case says what it expects of a run."),
    _field("decisions_verdict", STRING, "Whether the run's tool calls were right or wrong.", null="no verdict on them"),
    _field("n_should_call", INT, "Calls the run should have made.", unit="calls", null=_ABSENT),
    _field("must_not_call", STRINGS, "Tools the run should not have called.", null=_ABSENT),
    _field("answer_verdict", STRING, "Whether the run's answer was right or wrong.", null="no verdict on it"),
    _field("should_say", STRING, "What the answer should have said.", null=_ABSENT),
    _field("why", STRING, "Why the answer was wrong.", null=_ABSENT),
    _field("n_expected_items", INT, "Items of a ranked answer with a verdict.", unit="items", null=_ABSENT),
    _field("kind", STRING, "How the case came to be: correction or hand.", null=_NOT_LIVE),
    _field("project_id", STRING, "Project of the run.", null=_NOT_LIVE),
    _field("made_on", STRING, "Version of the agent that the run ran.", null=_NOT_LIVE),
    _field("added_by_kind", STRING, "Who added the case: user or service.", null=_NOT_LIVE),
    _field("added_by_id", STRING, "Id of who added the case.", null=_NOT_LIVE),
    _field("added_at", TIME, "When the case was added.", unit="UTC", null=_NOT_LIVE),
    _field("updated_at", TIME, "When the case last changed.", unit="UTC", null=_NOT_LIVE),
    _field("retired", BOOL, "No test run checks the case any more.", null=_NOT_LIVE),
    _field("retired_reason", STRING, "Why the case no longer applies.", null="not retired"),
    _field("retired_by_kind", STRING, "Who retired the case: user or service.", null="not retired"),
    _field("retired_by_id", STRING, "Id of who retired the case.", null="not retired"),
    _field("retired_at", TIME, "When the case was retired.", unit="UTC", null="not retired"),
    _field("extra_json", JSON, "Members no column holds, by JSON Pointer (RFC 6901).", null="nothing more was sent"),
)

ITEMS: Final = _table(
    "One row per item of a case's output that somebody corrected.",
    _field("run_id", STRING, "Run the case was copied from; statistics cluster by it.", null="an older server"),
    _field("item_no", INT, "Place in the case's list of items, from 0."),
    _field("key", STRING, "The caller's stable id of the item."),
    _field("pointer", STRING, "JSON Pointer (RFC 6901) to the item in the output.", null=_ABSENT),
    _field("rank", INT, "Place in a ranked list; 0 is first.", null=_ABSENT),
    _field("yes", INT, "Corrections that said yes.", unit="corrections"),
    _field("no", INT, "Corrections that said no.", unit="corrections"),
    _field("yes_weight", FLOAT, "Weight behind yes.", unit="weight"),
    _field("total_weight", FLOAT, "Weight behind all corrections.", unit="weight"),
    _field("expert_yes_weight", FLOAT, "Experts' weight behind yes.", unit="weight", null="unknown"),
    _field("expert_total_weight", FLOAT, "Weight behind experts' corrections.", unit="weight", null="unknown"),
    _field("correction_ids", STRINGS, "Ids of the corrections summed up.", null=_ABSENT),
    _field("expert_correction_ids", STRINGS, "Ids of the experts' corrections.", null=_ABSENT),
)

REASONS: Final = _table(
    "One row per reason given for a verdict, newest first within an item.",
    _field("item_no", INT, "Place of the item in the case, from 0."),
    _field("item_key", STRING, "Key of the item."),
    _field("reason_no", INT, "Place in the item's list of reasons, from 0."),
    _field("verdict", STRING, "yes or no."),
    _field("reason", STRING, "The person's words."),
    _field("corrector_group_id", STRING, "Group the correction was made in.", null="no group"),
    _field("expert", BOOL, "The correction is an expert's.", null=_ABSENT),
)

SEGMENTS: Final = _table(
    "One row per step of a case's segment path, coarse to fine.",
    _field("segment_no", INT, "Place in the path, from 0."),
    _field("key", STRING, "Name of the segment."),
    _field("value", STRING, "Value of the segment."),
)

CORRECTIONS: Final = _table(
    "One row per correction that carries expected decisions.",
    _field("correction_no", INT, "Place in the case's list of corrections, from 0."),
    _field("correction_id", STRING, "Id of the correction."),
    _field("corrector_group_id", STRING, "Group the correction was made in.", null="no group"),
    _field("expert", BOOL, "The correction is an expert's.", null=_ABSENT),
    _field("not_called", STRINGS, "Tools that should not have been called."),
)

EXPECTED_CALLS: Final = _table(
    "One row per call a run should have made.",
    _field("source", STRING, "Where it stands: corrections or expect."),
    _field("correction_no", INT, "Place of its correction in the case, from 0.", null="it stands in expect"),
    _field("call_no", INT, "Place in its list of calls, from 0."),
    _field("tool", STRING, "Name of the tool."),
    _field("args_json", JSON, "Top-level arguments to compare by value; {} asks only for the call."),
)

EXPECTED_ITEMS: Final = _table(
    "One row per item of a ranked answer that the case expects a verdict on.",
    _field("item_no", INT, "Place in the list, from 0."),
    _field("key", STRING, "The caller's stable id of the item."),
    _field("pointer", STRING, "JSON Pointer (RFC 6901) to the item in the output.", null=_ABSENT),
    _field("rank", INT, "Place in a ranked list; 0 is first.", null=_ABSENT),
    _field("verdict", STRING, "right or wrong."),
)

RECORDED_CALLS: Final = _table(
    "One row per tool call that a flow run made.",
    _field("call_no", INT, "Place in the list, from 0."),
    _field("run_id", STRING, "Run that made the call."),
    _field("node_id", STRING, "Node or agent step that made the call.", null=_ABSENT),
    _field("scope", STRING, "Iteration, in a loop body.", null=_ABSENT),
    _field("tool_id", STRING, "Name of the tool."),
    _field("arguments_json", JSON, "What the tool was sent.", null=_ABSENT),
    _field("result_json", JSON, "What the tool returned.", null=_ABSENT),
    _field("from_event", BOOL, "The result was kept as outside data.", null=_ABSENT),
)

RECORDED_STEPS: Final = _table(
    "One row per agent step of a flow run.",
    _field("step_no", INT, "Place in the list, from 0."),
    _field("run_id", STRING, "Run of the step."),
    _field("node_id", STRING, "Node of the step.", null=_ABSENT),
    _field("scope", STRING, "Iteration, in a loop body.", null=_ABSENT),
    _field("agent_id", STRING, "Agent that ran."),
    _field("agent_version", STRING, "Version of the agent."),
    _field("retrieved_json", JSON, "What the step's turn retrieved.", null=_ABSENT),
    _field("recalled_json", JSON, "Messages of earlier conversations the turn recalled.", null=_ABSENT),
)

MESSAGES: Final = _table(
    "One row per message of the conversation before the turn, oldest first.",
    _field("message_no", INT, "Place in the history, from 0."),
    _field("message_json", JSON, "The message."),
)

TABLES: Final[dict[str, pa.Schema]] = {
    "cases": CASES,
    "items": ITEMS,
    "reasons": REASONS,
    "segments": SEGMENTS,
    "corrections": CORRECTIONS,
    "expected_calls": EXPECTED_CALLS,
    "expected_items": EXPECTED_ITEMS,
    "recorded_calls": RECORDED_CALLS,
    "recorded_steps": RECORDED_STEPS,
    "messages": MESSAGES,
}


def empty_tables() -> dict[str, pa.Table]:
    """All tables with all columns and no rows."""
    return {name: schema.empty_table() for name, schema in TABLES.items()}


def check_table(name: str) -> None:
    """Refuse a name that is no table's.

    Parameters
    ----------
    name
        What the caller asked for.

    Raises
    ------
    ConfigError
        No table has that name; the message has the nearest one, or all of them.
    """
    if name not in list(TABLES):  # a list or a frame has no place in a dict
        raise ConfigError(f"no table is called {one_line(repr(name), 200)}; {nearest(name, TABLES)}")


def dictionary() -> list[dict[str, str | bool]]:
    """The data dictionary: one entry per column, in the tables' order.

    Returns
    -------
    list of dict
        ``table``, ``column``, ``type`` (Arrow's name), ``nullable``, ``doc``, ``unit`` and ``null`` (what a
        missing value means; empty for a column that has none).

    Examples
    --------
    >>> dictionary()[2]["column"]
    'case_id'
    """
    rows: list[dict[str, str | bool]] = []
    for table, schema in TABLES.items():
        for field in schema:
            about = {k.decode(): v.decode() for k, v in (field.metadata or {}).items()}
            kind = "json" if isinstance(field.type, pa.JsonType) else str(field.type)
            rows.append(
                {
                    "table": table,
                    "column": field.name,
                    "type": kind,
                    "nullable": field.nullable,
                    "doc": about["doc"],
                    "unit": about.get("unit", ""),
                    "null": about.get("null", ""),
                }
            )
    return rows
