"""Seeded case documents with every field of the API, rendered as pages."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

PAGE_CASES = 100
SEED = 20260801
WORDS = [
    "invoice",
    "contact",
    "résumé",
    "candidate",
    "region",
    "match",
    "score",
    "Müller",
    "候補者",
    "評価",
    "договор",
    "مرشح",
    "quote",
    "renewal",
    "calendar",
    "ledger",
    "draft",
    "summary",
    "outreach",
    "agree",
    "reject",
    "missing",
    "because",
    "therefore",
    "customer",
    "partner",
    "🚀",
    "naïve",
    "“as",
    "is”",
    "the",
    "of",
    "and",
    "to",
    "in",
    "for",
    "with",
]
TOOLS = [f"{group}.{verb}" for group in ("crm", "ledger", "mail", "search") for verb in ("lookup", "create", "update")]

Document = dict[str, Any]


class Maker:
    """Case documents from one random stream."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)

    def chance(self, share: float) -> bool:
        return self.r.random() < share

    def text(self, low: int, high: int) -> str:
        text = " ".join(self.r.choices(WORDS, k=self.r.randint(low, high)))
        return f'{text}\n"{text[:20]}" \\ </td>' if self.chance(0.05) else text

    def ids(self, prefix: str, count: int) -> list[str]:
        return [f"{prefix}{self.r.getrandbits(100):025x}" for _ in range(count)]

    def arguments(self) -> Document:
        return {"query": self.text(2, 6), "limit": self.r.randint(1, 50), "filters": {"active": self.chance(0.5)}}

    def calls(self) -> list[Document]:
        return [{"tool": self.r.choice(TOOLS), "args": self.arguments()} for _ in range(self.r.randint(0, 2))]

    def flow(self) -> Document:
        calls = []
        for n in range(self.r.randint(1, 6)):
            call = {"runId": self.ids("run_", 1)[0], "nodeId": f"node-{n}", "toolId": self.r.choice(TOOLS)}
            rows = [{"name": self.text(2, 4), "score": round(self.r.random(), 4)} for _ in range(3)]
            calls.append({**call, "arguments": self.arguments(), "result": {"ok": True, "rows": rows}})
        steps = [
            {"runId": self.ids("run_", 1)[0], "agentId": "acme.enrich", "agentVersion": f"1.{n}.0"}
            for n in range(self.r.randint(0, 2))
        ]
        return {"calls": calls, "steps": steps}

    def context(self, kind: str) -> Document:
        context: Document = {}
        if kind == "flow":
            context["flow"] = self.flow()
        else:
            roles = ("user", "assistant")
            count = self.r.randint(2, 9)
            context["history"] = [{"role": roles[n % 2], "content": self.text(8, 40)} for n in range(count)]
        if self.chance(0.3):
            context["retrieved"] = [{"source": "kb://1", "text": self.text(12, 40)} for _ in range(2)]
        if self.chance(0.3):
            context["toolEnv"] = {self.r.choice(TOOLS): {"REGION": "eu-1"}}
        if self.chance(0.08):
            context["sessionApproval"] = {"approved": False, "rationale": self.text(5, 12)}
        return context

    def item(self, rank: int) -> Document:
        count = 1 + min(int(self.r.expovariate(0.9)), 6)
        yes = sum(self.chance(0.6) for _ in range(count))
        weights = [self.r.choice((1, 1, 1, 0.5, 2, 3.25)) for _ in range(count)]
        ids = self.ids("cor_", count)
        item: Document = {"key": self.ids("match_", 1)[0][:18], "pointer": f"/matches/{rank}", "rank": rank}
        item |= {"yes": yes, "no": count - yes, "yesWeight": sum(weights[:yes]), "totalWeight": sum(weights)}
        if self.chance(0.6):
            cut = self.r.randint(0, count)
            expert = {"yesWeight": sum(weights[: min(cut, yes)]), "totalWeight": sum(weights[:cut])}
            item["expert"] = {**expert, "correctionIds": ids[:cut]}
        item["correctionIds"] = ids
        item["reasons"] = [
            {"verdict": "yes" if n < yes else "no", "reason": self.text(4, 20), "correctorGroupId": "grp_qa"}
            for n in range(self.r.choice((0, 0, 1, 1, 2, 5)))
        ]
        return item

    def case(self, number: int) -> Document:
        kind = "agent" if self.chance(0.7) else "flow"
        subject = {"kind": kind, "id": f"acme.{self.r.choice(WORDS[:6])}", "version": f"1.{self.r.randint(0, 5)}.0"}
        case: Document = {"caseId": f"cor_{number:09d}", "runId": f"run_{number:09d}", "subject": subject}
        if self.chance(0.02):
            return case | {"input": None, "output": None, "items": [], "erased": True}
        items = [self.item(rank) for rank in range(1 + min(int(self.r.expovariate(0.28)), 9))]
        case["input"] = {"userMessage": self.text(10, 50), "locale": "en-GB"}
        case["context"] = self.context(kind)
        matches = [{"id": i["key"], "title": self.text(2, 5), "score": round(self.r.random(), 4)} for i in items]
        case["output"] = {"summary": self.text(8, 24), "matches": matches}
        if self.chance(0.3):
            case["segments"] = [{"key": "region", "value": self.r.choice(("emea", "amer", "apac"))}]
        case["items"] = items
        if self.chance(0.2):
            correction = {"correctionId": self.ids("cor_", 1)[0], "calls": self.calls(), "notCalled": ["mail.create"]}
            case["corrections"] = [correction]
        if self.chance(0.2):
            verdicts = [{"key": i["key"], "rank": i["rank"], "verdict": "right"} for i in items]
            decisions = {"verdict": "wrong", "shouldCall": self.calls(), "mustNotCall": ["mail.create"]}
            case["expect"] = {"decisions": decisions, "items": verdicts}
            case["expert"] = True
        return case


def pages(cases: int) -> Iterator[list[Document]]:
    """The cases of each page; page n depends on n alone, so that a smaller set is a prefix of a larger one."""
    for first in range(0, cases, PAGE_CASES):
        maker = Maker(SEED + first)
        yield [maker.case(n) for n in range(first, min(cases, first + PAGE_CASES))]


# The same documents as the vendor's SDK knows them: it speaks the API's names of before 0.4.0.
OLD_NAMES = {
    "correctionIds": "judgmentIds",
    "correctionId": "judgmentId",
    "corrections": "judgments",
    "correctorGroupId": "judgeClassId",
    "expert": "restricted",
}


def renamed(value: Any) -> Any:
    """A document under the older names."""
    if isinstance(value, dict):
        return {OLD_NAMES.get(name, name): renamed(part) for name, part in value.items()}
    return [renamed(part) for part in value] if isinstance(value, list) else value


def body(data: list[Document], number: int, last: bool) -> bytes:
    """A page's bytes; its cursor is its number."""
    page: Document = {"data": data, **({} if last else {"nextCursor": f"page-{number + 1}"}), "hasMore": not last}
    return json.dumps(page, ensure_ascii=False, separators=(",", ":")).encode()
