"""Cases to export and cite."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from documents_strategy import page

from casekit.caseset import CaseSet
from casekit.report import PullReport
from casekit.source import Source
from casekit.wire import Reader, joined

Made = Callable[..., CaseSet]
WHEN = datetime(2025, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def document(case_id: str, *reasons: str, **members: Any) -> dict[str, Any]:
    """A plain case with one item, and reasons given for it."""
    subject = {"kind": "agent", "id": "acme.a", "version": "1.0.0"}
    given = [{"verdict": "no", "reason": reason} for reason in reasons]
    item = {"key": "k", "yes": 1, "no": 2, "yesWeight": 0.5, "totalWeight": 3, "reasons": given}
    return {"caseId": case_id, "subject": subject, "input": None, "output": None, "items": [item], **members}


@pytest.fixture
def made() -> Made:
    """Make a CaseSet of some case ids, or documents."""

    def make(*given: str | dict[str, Any], test_set_id: str = "acme.a", version: str = "1.0.0") -> CaseSet:
        documents = [document(one) if isinstance(one, str) else one for one in given]
        report = PullReport()
        tables = joined(Reader.corrections(test_set_id, version, report).groups([page(documents)]))
        return CaseSet(tables, Source(test_sets=((test_set_id, version),), fetched_at=WHEN), report)

    return make


@pytest.fixture
def said() -> Callable[..., CaseSet]:
    """Make a CaseSet of one case, with reasons of that wording."""

    def make(*reasons: str) -> CaseSet:
        tables = joined(Reader.corrections("acme.a", "1.0.0", PullReport()).groups([page([document("c", *reasons)])]))
        return CaseSet(tables, Source(test_sets=(("acme.a", "1.0.0"),), fetched_at=WHEN))

    return make
