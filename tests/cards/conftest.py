"""Frames of every statistic, made by the statistics themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from casekit import stats
from casekit.caseset import CaseSet
from casekit.report import PullReport
from casekit.source import Source
from casekit.wire import Reader, joined

MTBENCH = Path(__file__).parents[2] / "data" / "mtbench"
MakeItems = Callable[..., pd.DataFrame]


def items_of(rows: int = 24, **columns: Any) -> pd.DataFrame:
    """Items of as many cases, two corrections each, every third without weight."""
    weight = [0.0 if n % 3 == 2 else 2.0 for n in range(rows)]
    frame = pd.DataFrame(
        {
            "test_set_id": "acme.a",
            "version": "1.0.0",
            "case_id": [f"c{n}" for n in range(rows)],
            "item_no": 0,
            "key": [f"k{n % 6}" for n in range(rows)],
            "pointer": "/list/0",
            "rank": 0,
            "yes": [n % 3 for n in range(rows)],
            "no": [2 - n % 3 for n in range(rows)],
            "yes_weight": [w * (n % 3) / 2 for n, w in enumerate(weight)],
            "total_weight": weight,
            "expert_yes_weight": [w * (n % 3) / 4 for n, w in enumerate(weight)],
            "expert_total_weight": [w / 2 for w in weight],
            "group": [f"g{n % 2}" for n in range(rows)],
        }
    )
    return frame.assign(**columns)


def ranked_of(items: pd.DataFrame) -> pd.DataFrame:
    """Outputs of those cases: the corrected item, and one that nobody corrected."""
    first = items[["test_set_id", "version", "case_id", "key", "pointer", "rank", "group"]]
    first = first.assign(own_key=True, place=0)
    return pd.concat([first, first.assign(key="other", pointer="/list/1", rank=1, place=1)], ignore_index=True)


def graded(**columns: Any) -> pd.DataFrame:
    """Grades of two cases: one with a call that is missing, one that was not run."""
    case = {"test_set_id": ["acme.a"] * 2, "version": ["1.0.0"] * 2, "case_id": ["c1", "c2"]}
    subject = {"subject_kind": "agent", "subject_id": "acme.a", "subject_version": "1.0.0"}
    cases = pd.DataFrame({**case, "expert": True, "erased": False, "retired": None, "answer_verdict": None})
    cases = cases.assign(decisions_verdict="wrong", must_not_call=pd.Series([["delete"], []], dtype=object), **subject)
    calls = pd.DataFrame({**case, "source": "expect", "correction_no": None, "tool": "find", "args_json": "{}"})
    expected = SimpleNamespace(cases=cases, expected_calls=calls, corrections=None, recorded_calls=None)
    made = pd.DataFrame({"case_id": ["c1"], "tool_id": ["delete"], "arguments_json": ["{}"]})
    return stats.grade_decisions(expected, made).assign(**columns)


def made_frames(items: pd.DataFrame, cases: CaseSet) -> dict[str, pd.DataFrame]:
    """The frame of each statistic, by the statistic's name."""
    ranked = ranked_of(items)
    limits: dict[str, Any] = {"min_cases": 2, "min_weight": 1.5, "min_candidate": 0.4, "max_drop": 0.02, "seed": 1}
    return {
        "yes_rates": stats.yes_rates(items, by="group"),
        "rank_rates": stats.rank_rates(ranked, items),
        "expert_weights": stats.expert_weights(items, by="group"),
        "agreement": stats.agreement(items, by="group"),
        "item_agreement": stats.item_agreement(items),
        "expert_agreement": stats.expert_agreement(items, by="group"),
        "precision_at_k": stats.precision_at_k(ranked, items, by="group"),
        "coverage": stats.coverage(ranked, items, by="group"),
        "compare": stats.compare(items, items.iloc[::2], by="group"),
        "gate": stats.gate(items, items.iloc[::2], **limits),
        "grade_decisions": graded(),
        "rank_keys": stats.rank_keys(items),
        "summary": cases.summary(),
        "contested": cases.contested(5),
    }


@pytest.fixture(scope="session")
def real_cases() -> CaseSet:
    """The shipped test set."""
    report = PullReport()
    pages = [path.read_bytes() for path in sorted(MTBENCH.glob("page-*.json"))]
    tables = joined(Reader.corrections("mt-bench.pairwise", "1.0.0", report).groups(pages))
    return CaseSet(tables, Source(test_sets=(("mt-bench.pairwise", "1.0.0"),)), report)


@pytest.fixture(scope="session")
def frames(real_cases: CaseSet) -> dict[str, pd.DataFrame]:
    """The frame of each statistic, by the statistic's name; not to be changed."""
    return made_frames(items_of(), real_cases)


@pytest.fixture
def make_items() -> MakeItems:
    """Make an items frame."""
    return items_of


@pytest.fixture
def make_frames(real_cases: CaseSet) -> Callable[[pd.DataFrame], dict[str, pd.DataFrame]]:
    """Make the frame of each statistic from some items."""
    return lambda items: made_frames(items, real_cases)


@pytest.fixture
def make_ranked() -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Make the outputs of some items."""
    return ranked_of
