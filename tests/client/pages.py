"""Pages, answers and errors as a server sends them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import casekit as ck

TOKEN = "tok-of-the-tests-1"
QUICK = ck.Retry(budget=5.0, attempts=4, first=0.01, most=0.02)  # waits too short to matter

Spec = dict[str, Any]


def case(name: object, **more: Any) -> dict[str, Any]:
    """A small case."""
    subject = {"kind": "agent", "id": "acme.drafting", "version": "1.4.0"}
    item = {"key": "k", "yes": 1, "no": 0, "yesWeight": 1, "totalWeight": 1, "reasons": []}
    return {"caseId": f"c-{name}", "subject": subject, "input": None, "output": "o", "items": [item], **more}


def page(names: Iterable[object], cursor: str | None = None) -> dict[str, Any]:
    """A page of small cases; the last one has no cursor."""
    more = {} if cursor is None else {"nextCursor": cursor}
    return {"data": [case(name) for name in names], **more, "hasMore": cursor is not None}


def first(**answer: Any) -> Spec:
    """An answer to requests without a cursor."""
    return {"when": {"no_query": ["cursor"]}, "times": "*", **answer}


def at(cursor: str, **answer: Any) -> Spec:
    """An answer to requests with this cursor."""
    return {"when": {"query": {"cursor": cursor}}, "times": "*", **answer}


def always(**answer: Any) -> Spec:
    """An answer to everything."""
    return {"times": "*", **answer}


def refusal(status: int, code: str, headers: dict[str, str] | None = None, **more: Any) -> Spec:
    """An error as the API sends it."""
    error = {"code": code, "message": "made up", "requestId": "req-1", **more}
    return {"status": status, "headers": headers or {}, "body_json": {"error": error}}


def agent_case(case_id: str = "case-1", **more: Any) -> dict[str, Any]:
    """A case of an agent's live test set."""
    return {
        "id": case_id,
        "kind": "hand",
        "projectId": "00000000-0000-4000-8000-0000000000aa",
        "runId": "run-1",
        "madeOn": "1.4.0",
        "expect": {"answer": {"verdict": "right"}},
        "addedBy": {"kind": "user", "id": "reviewer-1"},
        "addedAt": "2026-03-01T12:00:00Z",
        "updatedAt": "2026-03-01T12:00:00Z",
        **more,
    }


PAGE = page([1, 2])
PAGE_TEXT = json.dumps(PAGE)
