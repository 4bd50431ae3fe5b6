"""What the two writes do to the database. Each runs inside one transaction.

A body that breaks a rule raises: nothing ran, and no answer is kept for its key. A refusal that depends on what is in
the database is an answer like any other, and a repeat of the request gets it again.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from uuid import uuid4

import msgspec

from casekit.server import jsontext, rules
from casekit.server.jsontext import IndexedAgentCase
from casekit.server.problems import Answer, Problem, bad_input
from casekit.server.records import Caller
from casekit.server.store import Run, Store

__all__ = ["add_case", "retire_case"]


def add_case(store: Store, caller: Caller, agent_id: str, body: bytes, request_id: str) -> Answer:
    """Add a case by hand from one of the agent's finished runs."""
    new = rules.read_new_case(body)
    try:
        run = _usable_run(store, agent_id, new)
    except Problem as refusal:
        return refusal.answer(request_id)
    now = _now()
    case_id = f"case-{uuid4()}"
    document = {
        "id": case_id,
        "kind": "hand",
        "projectId": run.project_id,
        "runId": run.run_id,
        "madeOn": run.version,
        "expect": new.expect,
        "addedBy": {"kind": caller.kind, "id": caller.id},
        "addedAt": now,
        "updatedAt": now,
        "expert": True,  # whoever may add a case is an expert
    }
    text = msgspec.json.encode(document)
    store.insert_agent_case(agent_id, IndexedAgentCase(case_id, run.project_id, False, text))
    return Answer(201, text, request_id)


def retire_case(store: Store, caller: Caller, agent_id: str, case_id: str, body: bytes, request_id: str) -> Answer:
    """Retire a case for good."""
    reason = rules.read_reason(body)
    found = store.agent_case(agent_id, case_id)
    if found is None:
        message = f"The agent's test set has no case {case_id[:100]!r}."
        return Problem(404, "test-case-not-found", message).answer(request_id)
    text, retired = found
    if retired:
        return Problem(409, "test-case-retired", "The case is retired already.").answer(request_id)
    text = jsontext.retire(text, at=_now(), reason=reason, by={"kind": caller.kind, "id": caller.id})
    store.retire_agent_case(agent_id, case_id, text)
    return Answer(200, text, request_id)


def _usable_run(store: Store, agent_id: str, new: rules.NewCase) -> Run:
    run = store.run(new.run_id)
    if run is None:
        raise Problem(404, "run-not-found", f"There is no run {new.run_id[:100]!r}.")
    if run.agent_id != agent_id:
        raise bad_input("The run is not one of this agent's.", path="/runId")
    if run.replay_of is not None:
        raise bad_input("The run is a comparison's replay, which cannot be a case.", path="/runId")
    if run.erased:
        raise Problem(410, "run-erased", "An erasure cleared the run's content.")
    if run.output is None:
        raise Problem(409, "run-not-finished", "The run has no output yet: add the case when it has finished.")
    output = json.loads(run.output, parse_int=float)
    for place, pointer in new.pointers.items():
        if not rules.resolves(pointer, output):
            path = f"/items/{place}/pointer"
            raise Problem(
                400, "item-not-found", "An item's pointer leads to nothing in the run's output.", details={"path": path}
            )
    return run


def _now() -> str:
    # Microseconds: a retirement right after the adding still has a later time.
    return datetime.now(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"
