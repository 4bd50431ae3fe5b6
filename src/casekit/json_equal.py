"""JSON values compared as the contract has it: by value, exactly."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

__all__ = ["exact", "same"]


def exact(text: str) -> Any:
    """The value of a JSON text, each number as a Decimal of all its digits.

    Parameters
    ----------
    text
        JSON.

    Raises
    ------
    ValueError
        It is no JSON, or a number in it has an exponent that no computer compares; the message shows no word of the
        text.
    RecursionError
        It nests too deep.

    Examples
    --------
    >>> exact('{"id": 9007199254740993, "rate": 1.0}')
    {'id': Decimal('9007199254740993'), 'rate': Decimal('1.0')}
    """
    try:
        return json.loads(text, parse_int=_number, parse_float=_number, parse_constant=_refuse)
    except json.JSONDecodeError:
        problem = "the text is not JSON"
    except InvalidOperation:
        problem = "a number's exponent is too large to compare"
    raise ValueError(problem)


def same(one: Any, other: Any) -> bool:
    """Whether two values of `exact` are equal: 1 is 1.0, true is not 1, and the order of members is nothing.

    Examples
    --------
    >>> same(exact('{"a": 1, "b": [true]}'), exact('{"b": [true], "a": 1.0}')), same(exact("true"), exact("1"))
    (True, False)
    """
    if type(one) is not type(other):  # every number is a Decimal, so a truth value never equals one
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[name]) for name, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def _number(text: str) -> Decimal:
    return Decimal(text)


def _refuse(token: str) -> NoReturn:
    raise json.JSONDecodeError("no JSON", token, 0)
