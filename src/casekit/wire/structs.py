"""What the API sends, as msgspec structs: the one list of field names that reading goes by.

A member that the contract allows to be absent has the default ``ABSENT``; its type still refuses ``null``, so that
absent and null stay apart. A ``Raw`` member is free JSON: a slice of the page's own bytes, never a Python object.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Final

from msgspec import Meta, Raw, Struct, structs

ABSENT: Final[Any] = None
NO_JSON: Final = Raw(b"")  # an absent free member: no JSON text is empty

# What an Arrow int64 holds, and the numbers a double holds exactly: beyond them the careful road keeps the digits.
Int = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Float = Annotated[float, Meta(gt=-(2.0**53), lt=2.0**53)]


@cache
def members_of(part: type[Struct]) -> tuple[tuple[str, Any, bool], ...]:
    """Name, type and whether it is required, of each member."""
    return tuple((f.encode_name, f.type, f.required) for f in structs.fields(part))


class Part(Struct, gc=False, forbid_unknown_fields=True):
    """Base of all parts: an unknown member is refused, and the careful road takes the page."""


class Reason(Part):
    """A reason given for a verdict."""

    verdict: str
    reason: str
    correctorGroupId: str = ABSENT
    expert: bool = ABSENT


class ExpertWeights(Part):
    """An item's weights over experts' corrections."""

    yesWeight: Float
    totalWeight: Float
    correctionIds: list[str] = ABSENT


class Item(Part):
    """An item of an output, its corrections summed up."""

    key: str
    yes: Int
    no: Int
    yesWeight: Float
    totalWeight: Float
    reasons: list[Reason]
    pointer: str = ABSENT
    rank: Int = ABSENT
    expert: ExpertWeights = ABSENT
    correctionIds: list[str] = ABSENT


class Subject(Part):
    """What ran."""

    kind: str
    id: str
    version: str


class Segment(Part):
    """One step of a segment path."""

    key: str
    value: str


class Call(Part):
    """A tool call that a flow run made."""

    runId: str
    toolId: str
    nodeId: str = ABSENT
    scope: str = ABSENT
    arguments: Raw = NO_JSON
    result: Raw = NO_JSON
    fromEvent: bool = ABSENT


class Step(Part):
    """An agent step of a flow run."""

    runId: str
    agentId: str
    agentVersion: str
    nodeId: str = ABSENT
    scope: str = ABSENT
    retrieved: Raw = NO_JSON
    recalled: Raw = NO_JSON


class Flow(Part):
    """What a flow run did."""

    calls: list[Call]
    steps: list[Step]
    truncated: bool = ABSENT


class Approval(Part):
    """The decision at a session approval gate."""

    approved: bool
    rationale: str = ABSENT


class Context(Part):
    """What a run needs besides its input to be replayed."""

    history: list[Raw] = ABSENT
    historyTruncated: bool = ABSENT
    retrieved: Raw = NO_JSON
    recalled: Raw = NO_JSON
    sessionApproval: Approval = ABSENT
    flow: Flow = ABSENT
    toolEnv: Raw = NO_JSON
    replayOf: str = ABSENT


class ExpectedCall(Part):
    """A call a run should have made."""

    tool: str
    args: Raw


class Correction(Part):
    """A correction that carries expected decisions."""

    correctionId: str
    calls: list[ExpectedCall]
    notCalled: list[str]
    correctorGroupId: str = ABSENT
    expert: bool = ABSENT


class Decisions(Part):
    """The verdict on a run's tool calls."""

    verdict: str
    shouldCall: list[ExpectedCall] = ABSENT
    mustNotCall: list[str] = ABSENT


class Answer(Part):
    """The verdict on a run's answer."""

    verdict: str
    shouldSay: str = ABSENT
    why: str = ABSENT


class ExpectedItem(Part):
    """The verdict on an item of a ranked answer."""

    key: str
    verdict: str
    pointer: str = ABSENT
    rank: Int = ABSENT


class Expect(Part):
    """What a case expects of a run."""

    decisions: Decisions = ABSENT
    answer: Answer = ABSENT
    items: list[ExpectedItem] = ABSENT


class CaseFrame(Part, kw_only=True):
    """What a case of a corrections test set has besides its items."""

    caseId: str
    subject: Subject
    input: Raw
    output: Raw
    runId: str = ABSENT
    context: Context = ABSENT
    segments: list[Segment] = ABSENT
    corrections: list[Correction] = ABSENT
    expect: Expect = ABSENT
    expert: bool = ABSENT
    erased: bool = ABSENT


class Case(CaseFrame, kw_only=True):
    """A case of a corrections test set."""

    items: list[Item]


class Outline(CaseFrame, kw_only=True):
    """A case whose items are still JSON: `casekit.wire.items` reads those of many cases at once."""

    items: Raw


class Principal(Part):
    """Who did something."""

    kind: str
    id: str


class Retired(Part):
    """Why, by whom and when a case was retired."""

    reason: str
    by: Principal
    at: str


class AgentCase(Part):
    """A case of an agent's live test set."""

    id: str
    kind: str
    projectId: str
    runId: str
    madeOn: str
    expect: Expect
    addedBy: Principal
    addedAt: str
    updatedAt: str
    retired: Retired = ABSENT
    expert: bool = ABSENT


class CasePage(Part):
    """A page of a corrections test set."""

    data: list[Case]
    hasMore: bool
    nextCursor: str | None = None


class OutlinePage(Part):
    """The same, with the items still JSON."""

    data: list[Outline]
    hasMore: bool
    nextCursor: str | None = None


class AgentCasePage(Part):
    """A page of an agent's live test set."""

    data: list[AgentCase]
    hasMore: bool
    nextCursor: str | None = None
