"""What a person sends or holds, as pydantic models: the write bodies, an agent's case, the error envelope.

A body is checked against the documented rules before anything is sent, so that a mistake names its field.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_camel

from casekit.errors import ConfigError

__all__ = [
    "AddCase",
    "AgentCase",
    "ErrorBody",
    "ExpectedCall",
    "ItemVerdict",
    "PlannedWrite",
    "RetireCase",
    "checked_body",
    "first_problem",
]

ARGS_FIELDS = 100  # at most, of an expected call
ARGS_CHARACTERS = 4000  # at most, of its canonical JSON
CALLS = 50  # at most, in each list of calls
REASON_CHARACTERS = 4000  # at most

_HALF: Final = re.compile("[\ud800-\udfff]")

Verdict = Literal["right", "wrong"]
Instant = Annotated[AwareDatetime, Field(strict=True)]  # a text, and no number of seconds
Tool = Annotated[StrictStr, Field(min_length=1, max_length=200)]


class _Sent(BaseModel):
    """A part of a body: camelCase on the wire, nothing unknown, nothing coerced."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", strict=True, frozen=True)

    def body(self) -> bytes:
        """The JSON to send; what was not given is absent."""
        return self.model_dump_json(by_alias=True, exclude_none=True).encode()


class ExpectedCall(_Sent):
    """A call the run should have made; ``args`` are compared by value, where given."""

    tool: Tool
    args: dict[str, Any] | None = None

    @field_validator("args")
    @classmethod
    def _small(cls, args: dict[str, Any] | None) -> dict[str, Any] | None:
        if args is None:
            return args
        if len(args) > ARGS_FIELDS:
            raise ValueError(f"has {len(args)} fields, {ARGS_FIELDS} at most")
        size = len(json.dumps(args, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False))
        if size > ARGS_CHARACTERS:
            raise ValueError(f"has {size:,} characters as canonical JSON, {ARGS_CHARACTERS:,} at most")
        return args


class ItemVerdict(_Sent):
    """The verdict on an item of a ranked answer."""

    key: Annotated[StrictStr, Field(min_length=1)]
    verdict: Verdict
    pointer: StrictStr | None = None
    rank: StrictInt | None = None


class AddCase(_Sent):
    """A case by hand, from one of an agent's finished runs.

    Examples
    --------
    >>> AddCase(run_id="run-1", decisions="right").body()
    b'{"runId":"run-1","decisions":"right"}'
    """

    run_id: Annotated[StrictStr, Field(min_length=1)]
    decisions: Verdict | None = None
    should_call: Annotated[list[ExpectedCall], Field(max_length=CALLS)] | None = None
    must_not_call: Annotated[list[Tool], Field(max_length=CALLS)] | None = None
    answer: Verdict | None = None
    should_say: StrictStr | None = None
    why: StrictStr | None = None
    items: list[ItemVerdict] | None = None

    @model_validator(mode="after")
    def _rules(self) -> Self:
        if self.decisions is None and self.answer is None and not self.items:
            raise ValueError("give at least one of decisions, answer and items")
        if self.decisions == "wrong" and not (self.should_call or self.must_not_call):
            raise ValueError("decisions 'wrong' needs an entry in should_call or must_not_call")
        if self.decisions != "wrong" and (self.should_call is not None or self.must_not_call is not None):
            raise ValueError("should_call and must_not_call go with decisions 'wrong' only")
        if self.answer == "wrong" and not (self.should_say or self.why):
            raise ValueError("answer 'wrong' needs should_say or why")
        if self.answer != "wrong" and (self.should_say is not None or self.why is not None):
            raise ValueError("should_say and why go with answer 'wrong' only")
        both = {call.tool for call in self.should_call or ()} & set(self.must_not_call or ())
        if both:
            raise ValueError(
                f"should_call and must_not_call both name {sorted(both)[0]!r}: a tool stands in one of them"
            )
        keys = [item.key for item in self.items or ()]
        if len(keys) != len(set(keys)):
            twice = next(key for key in keys if keys.count(key) > 1)
            raise ValueError(f"items names the key {twice!r} more than once")
        return self


class RetireCase(_Sent):
    """Why a case no longer applies."""

    reason: Annotated[StrictStr, Field(min_length=1, max_length=REASON_CHARACTERS)]


@dataclass(frozen=True)
class PlannedWrite:
    """A write as it would be sent; nothing was.

    Attributes
    ----------
    method, url : str
        Where it would go.
    headers : dict
        Without the token.
    body : str
        JSON.
    key : str
        The idempotency key that the same call sends it under.
    repeats : bool
        It was begun before, and its outcome never became known: the server would do it once.

    Examples
    --------
    >>> PlannedWrite("POST", "https://api.example.com/v1", {"Content-Type": "application/json"}, "{}", "k-1", False)
    POST https://api.example.com/v1
    Content-Type: application/json
    <BLANKLINE>
    {}
    """

    method: str
    url: str
    headers: Mapping[str, str]
    body: str
    key: str
    repeats: bool

    def __repr__(self) -> str:
        """The request as it would go out, but for the token."""
        return "\n".join(
            [f"{self.method} {self.url}", *(f"{name}: {value}" for name, value in self.headers.items()), "", self.body]
        )


class _Held(BaseModel):
    """A part of an answer: what a newer server adds is kept."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow", frozen=True)


class Principal(_Held):
    """Who did something."""

    kind: StrictStr
    id: StrictStr


class Retired(_Held):
    """Why, by whom and when a case was retired."""

    reason: StrictStr
    by: Principal
    at: Instant


class AgentCase(_Held):
    """A case of an agent's live test set, as the server answered it.

    Attributes
    ----------
    id : str
        A correction's id, or ``case-…`` for a case added by hand.
    kind : str
        ``"correction"`` or ``"hand"``.
    project_id, run_id, made_on : str
        Project and id of the run, and the agent version it ran.
    expect : dict
        What the case expects of a run.
    added_by, added_at, updated_at
        Who added it, when, and when it last changed.
    retired : Retired or None
        Set once the case is retired.
    expert : bool or None
        The case is an expert's; None from an older server.
    """

    id: StrictStr
    kind: StrictStr
    project_id: StrictStr
    run_id: StrictStr
    made_on: StrictStr
    expect: dict[str, Any]
    added_by: Principal
    added_at: Instant
    updated_at: Instant
    retired: Retired | None = None
    expert: StrictBool | None = None

    @property
    def retired_at(self) -> datetime | None:
        """When the case was retired; None while it is live."""
        return self.retired.at if self.retired else None


def _none(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    """None in the place of a value of the wrong type: what else the server said still counts."""
    try:
        return read(value)
    except ValidationError:
        return None


_Said = Annotated[StrictStr | None, WrapValidator(_none)]


class ErrorBody(_Held):
    """What an error answer says, as far as it can be read: a proxy may answer anything.

    Attributes
    ----------
    code, message, request_id : str or None
        The server's stable code, its words, and its id of the request.
    details : dict or None
        More, by code.

    Examples
    --------
    >>> ErrorBody.read(b'{"error":{"code":"database-busy","message":7}}')
    ErrorBody(code='database-busy', message=None, request_id=None, details=None)
    """

    code: _Said = None
    message: _Said = None
    request_id: _Said = None
    details: Annotated[dict[str, Any] | None, WrapValidator(_none)] = None

    @classmethod
    def read(cls, body: bytes) -> ErrorBody:
        """Read an error's body; of what is no envelope, all is None."""
        try:
            return _Envelope.model_validate_json(body.removeprefix(b"\xef\xbb\xbf")).error
        except ValidationError:
            return cls()


class _Envelope(_Held):
    error: ErrorBody


def checked_body(model: type[AddCase] | type[RetireCase], values: Mapping[str, Any]) -> bytes:
    """The body to send, once it keeps the documented rules.

    Parameters
    ----------
    model
        What is to be sent.
    values
        Its members by Python name; None leaves one out.

    Raises
    ------
    ConfigError
        A rule is broken; the message names the field.

    Examples
    --------
    >>> checked_body(RetireCase, {"reason": "the tool was removed"})
    b'{"reason":"the tool was removed"}'
    """
    given = {name: value for name, value in values.items() if value is not None}
    try:
        for name, value in given.items():
            if problem := _no_json(value):
                raise ConfigError(f"{name} {problem}; nothing was sent")
        return model.model_validate_json(json.dumps(given)).body()
    except ValidationError as error:
        raise ConfigError(f"{first_problem(error)}; nothing was sent") from None
    except RecursionError:
        raise ConfigError("the request nests too deep; nothing was sent") from None


def _no_json(value: Any) -> str | None:
    """What JSON could not hold as it is, if anything: it is an error and no guess."""
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, str):
        return None if value.isascii() or not _HALF.search(value) else "holds half a character (a lone surrogate)"
    if isinstance(value, int):
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else "holds a number that JSON does not have (NaN or infinite)"
    if isinstance(value, dict):
        if any(not isinstance(name, str) for name in value):
            return "has a name that is no text"
        parts = [*value, *value.values()]
    elif isinstance(value, (list, tuple)):
        parts = list(value)
    else:
        return f"holds a {type(value).__name__}, which JSON does not have"
    return next((problem for part in parts if (problem := _no_json(part))), None)


def first_problem(error: ValidationError) -> str:
    """Field and rule of the first problem, without the value."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(step) for step in first["loc"])
    what = first["msg"].removeprefix("Value error, ")
    return f"{where}: {what}" if where else what
