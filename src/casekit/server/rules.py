"""The documented rules of the two write bodies. What breaks one is answered 400 and says which.

Free JSON (``args``) is cut out as a raw slice and given back as it came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from casekit.server.problems import bad_input

__all__ = ["MAX_ARGS_CHARS", "MAX_BODY_BYTES", "NewCase", "canonical", "read_new_case", "read_reason", "resolves"]

MAX_BODY_BYTES = 1_048_576
MAX_ARGS = 100  # fields of one call's args
MAX_ARGS_CHARS = 4_000  # characters of one call's args in canonical JSON
MAX_CALLS = 50
MAX_REASON = 4_000  # characters

T = TypeVar("T")
_Tool = Annotated[str, Meta(min_length=1, max_length=200)]


class _Call(Struct):
    tool: _Tool
    args: Raw = Raw(b"{}")


class _Item(Struct, kw_only=True):
    key: Annotated[str, Meta(min_length=1)]
    pointer: str | UnsetType = UNSET
    rank: int | float | UnsetType = UNSET
    verdict: str


class _Body(Struct, rename="camel"):
    run_id: Annotated[str, Meta(min_length=1)]
    decisions: str | UnsetType = UNSET
    should_call: Annotated[list[_Call], Meta(max_length=MAX_CALLS)] | UnsetType = UNSET
    must_not_call: Annotated[list[_Tool], Meta(max_length=MAX_CALLS)] | UnsetType = UNSET
    answer: str | UnsetType = UNSET
    should_say: str | UnsetType = UNSET
    why: str | UnsetType = UNSET
    items: list[_Item] | UnsetType = UNSET


class _Retirement(Struct):
    reason: Annotated[str, Meta(min_length=1, max_length=MAX_REASON)]


class NewCase(Struct):
    """A case to add: its run, what it expects, ready for JSON, and the pointers by their items' places."""

    run_id: str
    expect: dict[str, Any]
    pointers: dict[int, str]


def read_reason(body: bytes) -> str:
    """Return the reason of a retirement, 1 to 4,000 characters."""
    return _decode(body, _Retirement).reason


def read_new_case(body: bytes) -> NewCase:
    """Return the case that a body asks for.

    Raises
    ------
    Problem
        400 ``bad-input``: not JSON, a member of the wrong type or size, or a rule between members broken.
    """
    sent = _decode(body, _Body)
    parts = {"decisions": _decisions(sent), "answer": _answer(sent), "items": _items(sent)}
    expect = {name: part for name, part in parts.items() if part}
    if not expect:
        raise bad_input("A case needs at least one of decisions, answer and items.")
    pointers = {place: item.pointer for place, item in enumerate(sent.items or []) if item.pointer is not UNSET}
    return NewCase(sent.run_id, expect, pointers)


def _decisions(sent: _Body) -> dict[str, Any]:
    evidence = {"shouldCall": sent.should_call, "mustNotCall": sent.must_not_call}
    _check_verdict("decisions", sent.decisions, evidence, given=any(evidence.values()))
    should_call, must_not_call = sent.should_call or [], sent.must_not_call or []
    both = {call.tool for call in should_call}.intersection(must_not_call)
    if both:
        raise bad_input("A tool stands in shouldCall and in mustNotCall: leave it in one of them.", path="/mustNotCall")
    for place, call in enumerate(should_call):
        _check_args(call.args, f"/shouldCall/{place}/args")
    return _part(sent.decisions, evidence)


def _answer(sent: _Body) -> dict[str, Any]:
    evidence = {"shouldSay": sent.should_say, "why": sent.why}
    given = any(value is not UNSET for value in evidence.values())
    _check_verdict("answer", sent.answer, evidence, given=given)
    return _part(sent.answer, evidence)


def _items(sent: _Body) -> list[_Item]:
    items = sent.items or []
    for place, item in enumerate(items):
        _check_right_or_wrong(item.verdict, f"/items/{place}/verdict")
        if isinstance(item.rank, float):  # JSON has one kind of number: 2.0 is the integer 2
            if not item.rank.is_integer():
                raise bad_input("An item's rank is no integer.", path=f"/items/{place}/rank")
            item.rank = int(item.rank)
    if len({item.key for item in items}) < len(items):
        raise bad_input("An item's key stands twice in items: send each key once.", path="/items")
    return items


def _part(verdict: str | UnsetType, evidence: dict[str, Any]) -> dict[str, Any]:
    if verdict is UNSET:
        return {}
    return {"verdict": verdict} | {name: value for name, value in evidence.items() if value is not UNSET}


def _check_verdict(name: str, verdict: str | UnsetType, evidence: dict[str, Any], *, given: bool) -> None:
    if verdict is not UNSET:
        _check_right_or_wrong(verdict, f"/{name}")
    if verdict == "wrong":
        if not given:
            raise bad_input(f"{name} wrong needs {' or '.join(evidence)}.", path=f"/{name}")
        return
    for field, value in evidence.items():
        if value is not UNSET:
            raise bad_input(f"{field} may be sent only with {name} wrong.", path=f"/{field}")


def _check_right_or_wrong(verdict: str, path: str) -> None:
    if verdict not in ("right", "wrong"):
        raise bad_input("A verdict is right or wrong.", path=path)


def _check_args(args: Raw, path: str) -> None:
    try:
        # As JavaScript reads it: every number a double. The digits that are kept are those of the raw slice.
        value = json.loads(bytes(args), parse_int=float)
        length = len(canonical(value))
    except (ValueError, RecursionError):
        raise bad_input("args is no JSON, or nests too deeply.", path=path) from None
    if not isinstance(value, dict):
        raise bad_input("args is no JSON object.", path=path)
    if len(value) > MAX_ARGS:
        raise bad_input(f"args has {len(value)} fields, the most is {MAX_ARGS}.", path=path)
    if length > MAX_ARGS_CHARS:
        raise bad_input(f"args has {length} characters in canonical JSON, the most is {MAX_ARGS_CHARS}.", path=path)


def canonical(value: Any) -> str:
    """Return JSON with sorted keys, no spaces, and numbers in their shortest form.

    Numbers are doubles, as RFC 8785 has them; one too large for a double stands as ``null``, as in JavaScript.

    Examples
    --------
    >>> canonical({"b": [1.0, 0.00001, 1e-7, True], "a": "é"})
    '{"a":"é","b":[1,0.00001,1e-7,true]}'

    References
    ----------
    .. [1] A. Rundgren, B. Jordan, S. Erdtman, "JSON Canonicalization Scheme (JCS)", RFC 8785, 2020.
       https://doi.org/10.17487/RFC8785
    """
    if isinstance(value, dict):
        members = (f"{json.dumps(name, ensure_ascii=False)}:{canonical(value[name])}" for name in sorted(value))
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(canonical(element) for element in value) + "]"
    if isinstance(value, float):
        return _number(value)
    return json.dumps(value, ensure_ascii=False)


def _number(value: float) -> str:
    if value in (float("inf"), float("-inf")):
        return "null"
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    if 1e-6 <= abs(value) < 1e-4:  # Python has an exponent here, canonical JSON has none
        return format(Decimal(repr(value)), "f")
    return re.sub(r"e-0(\d)$", r"e-\1", repr(value))


def resolves(pointer: str, document: Any) -> bool:
    """Whether a JSON Pointer leads to a value in a document.

    Examples
    --------
    >>> output = {"matches": [{"a/b": None}]}
    >>> [resolves(p, output) for p in ("", "/matches/0/a~1b", "/matches/00", "/matches/-", "matches")]
    [True, True, False, False, False]

    References
    ----------
    .. [1] P. Bryan, K. Zyp, M. Nottingham, "JavaScript Object Notation (JSON) Pointer", RFC 6901, 2013.
       https://doi.org/10.17487/RFC6901
    """
    if pointer and not pointer.startswith("/"):
        return False
    return _leads(pointer.split("/")[1:], document)


def _leads(tokens: Iterable[str], value: Any) -> bool:
    for token in tokens:
        if re.search(r"~(?![01])", token):
            return False
        if isinstance(value, dict):
            name = token.replace("~1", "/").replace("~0", "~")
            if name not in value:
                return False
            value = value[name]
        elif isinstance(value, list):
            # Nine digits: no list here is longer, and int() refuses thousands of them.
            if not re.fullmatch(r"0|[1-9][0-9]{0,8}", token) or int(token) >= len(value):
                return False
            value = value[int(token)]
        else:
            return False
    return True


def _decode(body: bytes, type_: type[T]) -> T:
    try:
        body.decode("utf-8")  # raw slices are cut out without this check
        return msgspec.json.decode(body, type=type_)
    except msgspec.ValidationError as error:
        raise bad_input(f"The body is not what this route takes: {str(error)[:300]}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise bad_input("The body is no JSON in UTF-8, or holds half a surrogate pair.") from None
    except RecursionError:
        raise bad_input("The body nests too deeply.") from None
