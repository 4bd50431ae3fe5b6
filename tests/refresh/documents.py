"""Cases that hold words in every place that has room for some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Word = Callable[[str], str]


def words_of(case_id: str) -> Word:
    """Words of a case that stand nowhere else, with signs that JSON spells in several ways."""
    return lambda place: f'Zyx {case_id} said at {place}: "ÄÖ/\\ü 😀"'


def subject(version: str = "1.4.0") -> dict[str, str]:
    """What ran."""
    return {"kind": "agent", "id": "acme.drafting", "version": version}


def full_case(case_id: str, **more: Any) -> dict[str, Any]:
    """A case with words in every text that is no id."""
    say = words_of(case_id)
    call = {"tool": say("tool"), "args": {say("arg name"): [say("arg"), {"deep": say("deep arg")}]}}
    return {
        "caseId": case_id,
        "runId": f"run-{case_id}",
        "subject": subject(),
        "input": {"message": say("input"), say("input name"): 1},
        "output": [say("output"), 0.5, None],
        "items": [
            {
                "key": say("key"),
                "pointer": f"/{say('pointer')}",
                "rank": 0,
                "yes": 1,
                "no": 1,
                "yesWeight": 1,
                "totalWeight": 2,
                "reasons": [
                    {"verdict": "no", "reason": say("reason"), "correctorGroupId": say("group"), "expert": True},
                    {"verdict": "yes", "reason": say("second reason")},
                ],
                "expert": {"yesWeight": 1, "totalWeight": 1, "correctionIds": [say("expert correction id")]},
                "correctionIds": [say("correction id")],
            }
        ],
        "context": {
            "history": [{"role": "user", "content": say("message")}, say("second message")],
            "retrieved": [say("retrieved")],
            "recalled": say("recalled"),
            "sessionApproval": {"approved": True, "rationale": say("rationale")},
            "flow": {
                "calls": [
                    {
                        "runId": f"run-{case_id}",
                        "toolId": say("tool id"),
                        "nodeId": say("node"),
                        "scope": say("scope"),
                        "arguments": {"a": say("argument")},
                        "result": say("result"),
                    }
                ],
                "steps": [
                    {
                        "runId": f"run-{case_id}",
                        "agentId": say("step agent"),
                        "agentVersion": say("step version"),
                        "nodeId": say("step node"),
                        "scope": say("step scope"),
                        "retrieved": say("step retrieved"),
                        "recalled": [say("step recalled")],
                    }
                ],
            },
            "toolEnv": {"tool": say("environment")},
        },
        "segments": [{"key": say("segment"), "value": say("segment value")}],
        "corrections": [
            {
                "correctionId": say("correction"),
                "calls": [call],
                "notCalled": [say("not called")],
                "correctorGroupId": say("second group"),
            }
        ],
        "expect": {
            "decisions": {"verdict": "wrong", "shouldCall": [call], "mustNotCall": [say("must not call")]},
            "answer": {"verdict": "wrong", "shouldSay": say("should say"), "why": say("why")},
            "items": [{"key": say("expected key"), "pointer": say("expected pointer"), "verdict": "right"}],
        },
        "note": say("unknown member"),
        **more,
    }


def small_case(case_id: str, **more: Any) -> dict[str, Any]:
    """A case with one item."""
    item = {"key": "k", "yes": 1, "no": 0, "yesWeight": 1, "totalWeight": 1, "reasons": []}
    return {"caseId": case_id, "subject": subject(), "input": None, "output": "fine", "items": [item], **more}


def erased_case(case_id: str) -> dict[str, Any]:
    """A case as it is listed after an erasure."""
    return {"caseId": case_id, "subject": subject(), "input": None, "output": None, "items": [], "erased": True}
