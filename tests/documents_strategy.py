"""Documents of the contract, generated: every member present or absent, unknown members and nulls at any depth.

``plain`` documents are what a server of today sends; the others hold what a newer or a sloppy one may send, and what no
struct has a place for.
"""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

Document = dict[str, Any]

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)  # NUL, controls and emoji, no lone surrogates
NAMES = st.sampled_from(["", "new", "a/b", "a~b", "~1", "0", "é", "caseId2", "a.b", 'q"\\'])
IDS = st.text("abc-1", min_size=1, max_size=4)
VERDICTS = st.sampled_from(["yes", "no", "unsure"])
COUNTS = st.one_of(st.integers(0, 5), st.integers(-(2**63), 2**63 - 1))
WEIGHTS = st.one_of(st.integers(0, 9), st.floats(0, 1e6), st.integers(2**53, 2**70), st.floats(allow_nan=False))
FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(-(10**30), 10**30) | FINITE | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
SECONDS = st.integers(0, 10**9).map(
    lambda n: f"{2000 + n % 90}-{1 + n % 12:02d}-{1 + n % 28:02d}T{n % 24:02d}:{n % 60:02d}:07"
)
FRACTIONS = st.sampled_from(["", ".5", ".123", ".120", ".123456", ".123456789", ".000", ".100000"])
OFFSETS = st.sampled_from(["Z", "+00:00", "-00:00", "+05:30", "-11:45", "z"])
TIMES = st.tuples(SECONDS, FRACTIONS, OFFSETS).map("".join)


class _Shapes:
    """The objects of the contract, plain or not."""

    def __init__(self, *, plain: bool) -> None:
        self.plain = plain

    def part(self, required: dict[str, Any], optional: dict[str, Any], free: dict[str, Any] | None = None) -> Any:
        """An object; an optional member may be null, and unknown ones be there, unless the shapes are plain."""
        if not self.plain:
            optional = {name: st.none() | value for name, value in optional.items()}
        known = st.fixed_dictionaries(required, optional={**optional, **(free or {})})
        if self.plain:
            return known
        unknown: Any = st.dictionaries(NAMES, JSON, max_size=1) | st.just({})
        return st.tuples(known, unknown).map(lambda both: {**both[1], **both[0]})

    def listed(self, element: Any, most: int = 2) -> Any:
        return st.lists(element, max_size=most)

    def item(self) -> Any:
        weights = WEIGHTS.filter(lambda w: abs(w) < 2**53) if self.plain else WEIGHTS.filter(lambda w: abs(w) < 1e300)
        expert = self.part({"yesWeight": weights, "totalWeight": weights}, {"correctionIds": self.listed(TEXTS)})
        reason = self.part({"verdict": VERDICTS, "reason": TEXTS}, {"correctorGroupId": TEXTS, "expert": st.booleans()})
        return self.part(
            {
                "key": TEXTS,
                "yes": COUNTS,
                "no": COUNTS,
                "yesWeight": weights,
                "totalWeight": weights,
                "reasons": self.listed(reason),
            },
            {"pointer": TEXTS, "rank": COUNTS, "expert": expert, "correctionIds": self.listed(TEXTS)},
        )

    def call(self) -> Any:
        return self.part({"tool": TEXTS, "args": st.dictionaries(TEXTS, JSON, max_size=2)}, {})

    def expect(self) -> Any:
        verdict = st.sampled_from(["right", "wrong"])
        return self.part(
            {},
            {
                "decisions": self.part(
                    {"verdict": verdict},
                    {"shouldCall": self.listed(self.call()), "mustNotCall": self.listed(TEXTS)},
                ),
                "answer": self.part({"verdict": verdict}, {"shouldSay": TEXTS, "why": TEXTS}),
                "items": self.listed(self.part({"key": TEXTS, "verdict": verdict}, {"pointer": TEXTS, "rank": COUNTS})),
            },
        )

    def context(self) -> Any:
        call = self.part(
            {"runId": IDS, "toolId": TEXTS},
            {"nodeId": TEXTS, "scope": TEXTS, "fromEvent": st.booleans()},
            {"arguments": JSON, "result": JSON},
        )
        step = self.part(
            {"runId": IDS, "agentId": TEXTS, "agentVersion": TEXTS},
            {"nodeId": TEXTS, "scope": TEXTS},
            {"retrieved": JSON, "recalled": JSON},
        )
        return self.part(
            {},
            {
                "history": self.listed(JSON, 3),
                "historyTruncated": st.booleans(),
                "sessionApproval": self.part({"approved": st.booleans()}, {"rationale": TEXTS}),
                "flow": self.part(
                    {"calls": self.listed(call), "steps": self.listed(step)}, {"truncated": st.booleans()}
                ),
                "replayOf": TEXTS,
            },
            {"retrieved": JSON, "recalled": JSON, "toolEnv": JSON},
        )

    def case(self) -> Any:
        subject = self.part({"kind": st.sampled_from(["agent", "flow", "team"]), "id": TEXTS, "version": TEXTS}, {})
        correction = self.part(
            {"correctionId": TEXTS, "calls": self.listed(self.call()), "notCalled": self.listed(TEXTS)},
            {"correctorGroupId": TEXTS, "expert": st.booleans()},
        )
        segment = self.part({"key": TEXTS, "value": TEXTS}, {})
        return self.part(
            {"caseId": IDS, "subject": subject, "input": JSON, "output": JSON, "items": self.listed(self.item())},
            {
                "runId": TEXTS,
                "context": self.context(),
                "segments": self.listed(segment),
                "corrections": self.listed(correction),
                "expect": self.expect(),
                "expert": st.booleans(),
                "erased": st.booleans(),
            },
        )

    def agent_case(self) -> Any:
        principal = self.part({"kind": st.sampled_from(["user", "service", "robot"]), "id": TEXTS}, {})
        return self.part(
            {
                "id": IDS,
                "kind": st.sampled_from(["correction", "hand", "import"]),
                "projectId": TEXTS,
                "runId": TEXTS,
                "madeOn": TEXTS,
                "expect": self.expect(),
                "addedBy": principal,
                "addedAt": TIMES,
                "updatedAt": TIMES,
            },
            {"retired": self.part({"reason": TEXTS, "by": principal, "at": TIMES}, {}), "expert": st.booleans()},
        )


def cases(*, plain: bool, most: int = 4) -> st.SearchStrategy[list[Document]]:
    """Cases of a corrections test set, each id once."""
    return st.lists(_Shapes(plain=plain).case(), max_size=most, unique_by=lambda case: case["caseId"])


def agent_cases(*, plain: bool, most: int = 4) -> st.SearchStrategy[list[Document]]:
    """Cases of an agent's live test set, each id once."""
    return st.lists(_Shapes(plain=plain).agent_case(), max_size=most, unique_by=lambda case: case["id"])


def shuffled(value: Any, seed: int) -> Any:
    """The same JSON with the members of each object in another order."""
    order = random.Random(seed)

    def walk(part: Any) -> Any:
        if isinstance(part, dict):
            names = list(part)
            order.shuffle(names)
            return {name: walk(part[name]) for name in names}
        return [walk(element) for element in part] if isinstance(part, list) else part

    return walk(value)


def page(documents: list[Document], *, cursor: str | None = None, style: int = 0) -> bytes:
    """A page as bytes; the style chooses the order of members, white space and escapes."""
    body: Document = {"data": documents, "hasMore": cursor is not None}
    if cursor is not None:
        body["nextCursor"] = cursor
    if style:
        body = shuffled(body, style)
    separators = [(",", ":"), (", ", ": "), (" ,\n\t", " :\r\n ")][style % 3]
    return json.dumps(body, ensure_ascii=style % 2 == 1, separators=separators).encode()


def pages(documents: list[Document], size: int, *, style: int = 0) -> list[bytes]:
    """The documents on pages of a size; one empty page for none."""
    parts = [documents[at : at + size] for at in range(0, len(documents), size)] or [[]]
    return [page(part, cursor=f"c{n}" if part is not parts[-1] else None, style=style) for n, part in enumerate(parts)]


def served(bodies: list[bytes]) -> list[Document]:
    """The documents that stand on pages, as Python's own JSON reads them."""
    return [document for body in bodies for document in json.loads(body)["data"]]


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON: numbers by value to the last digit, and a boolean is no number."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, int | float) and isinstance(other, int | float):
        return Decimal(one) == Decimal(other)
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
