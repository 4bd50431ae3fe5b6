"""CaseSets of some documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from documents_strategy import page

from casekit.caseset import CaseSet
from casekit.report import PullReport
from casekit.source import Source
from casekit.wire import Reader, joined

Made = Callable[..., CaseSet]


def document(case_id: str, **members: Any) -> dict[str, Any]:
    """A plain case."""
    subject = {"kind": "agent", "id": "acme.a", "version": "1.0.0"}
    return {"caseId": case_id, "subject": subject, "input": None, "output": None, "items": [], **members}


@pytest.fixture
def case() -> Callable[..., dict[str, Any]]:
    """Make the document of a case."""
    return document


@pytest.fixture
def item() -> Callable[..., dict[str, Any]]:
    """Make an item."""

    def make(key: str = "k", **members: Any) -> dict[str, Any]:
        return {"key": key, "yes": 1, "no": 0, "yesWeight": 1, "totalWeight": 1, "reasons": [], **members}

    return make


@pytest.fixture
def frozen() -> Made:
    """Make a CaseSet of a corrections test set, from ids or documents."""

    def make(*given: str | dict[str, Any], test_set_id: str = "acme.a", version: str = "1.0.0") -> CaseSet:
        documents = [document(one) if isinstance(one, str) else one for one in given]
        report = PullReport()
        tables = joined(Reader.corrections(test_set_id, version, report).groups([page(documents)]))
        return CaseSet(tables, Source(test_sets=((test_set_id, version),)), report)

    return make


@pytest.fixture
def live() -> Made:
    """Make an agent's live test set, from ids; those that start with ``-`` are retired."""

    def make(*ids: str, agent_id: str = "acme.agent") -> CaseSet:
        by = {"kind": "user", "id": "reviewer-1"}
        documents = [
            {
                "id": case_id.removeprefix("-"),
                "kind": "hand",
                "projectId": "p",
                "runId": "r",
                "madeOn": "1.0.0",
                "expect": {},
                "addedBy": by,
                "addedAt": "2025-01-02T03:04:05Z",
                "updatedAt": "2025-01-02T03:04:05Z",
                **({"retired": {"reason": "r", "by": by, "at": "2025-01-02T03:04:05Z"}} if case_id[0] == "-" else {}),
            }
            for case_id in ids
        ]
        report = PullReport()
        tables = joined(Reader.agent(agent_id, report).groups([page(documents)]))
        return CaseSet(tables, Source(agent_id=agent_id), report)

    return make
