"""The items of a run's output that people can correct, with their ranks, read from the output's JSON.

What is an item, as the server has it:

- for an agent, its answer (the last message it said without a tool call, under ``appended``), keyed ``answer``,
  then each element of each list under ``output``;
- for a flow, its whole output, keyed ``output``, then each element of each list in it.

Lists are found inside objects, to depth 3; elements are not searched again. A list of more than 100 elements has no
items. An element's key is its ``id``, else its ``key`` (text or number), else its JSON Pointer (RFC 6901).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pandas as pd

from casekit.errors import LimitError, SchemaError

__all__ = ["output_items"]

MAX_DEPTH = 3  # objects between the root and a list
MAX_LIST = 100  # elements; a longer list has no items

TEXT = pd.StringDtype(na_value=np.nan)
CASE_COLUMNS = ("test_set_id", "version", "case_id", "subject_kind", "subject_id", "subject_version", "run_id")


class HasCases(Protocol):
    """Anything with the cases table as a pandas frame, such as a CaseSet."""

    @property
    def cases(self) -> pd.DataFrame:
        """One row per case; ``output_json`` is the output's JSON text."""


@dataclass(frozen=True)
class Element:
    """One item of an output; ``rank`` and ``list_pointer`` are missing for what stands in no list."""

    key: str
    pointer: str
    own_key: bool
    rank: int | None = None
    list_pointer: str | None = None


def output_items(cases: HasCases) -> pd.DataFrame:
    """List the items of every case's output: what people could have corrected, corrected or not.

    Parameters
    ----------
    cases
        A CaseSet, or any object whose ``cases`` is its cases table. Not changed.

    Returns
    -------
    pd.DataFrame
        One row per item, in the order of the cases and of each output; a case whose output is missing (erased, say) or
        has no items has no row. The case's ``test_set_id``, ``version``, ``case_id``, ``subject_kind``, ``subject_id``,
        ``subject_version`` and ``run_id``, then:

        - ``item_no`` place among the case's items, from 0; ``key``; ``pointer`` JSON Pointer into the output.
        - ``own_key`` whether the key is the element's own ``id`` or ``key``.
        - ``list_pointer`` where its list is; ``rank`` its index there, 0 is first. Both missing for an agent's answer
          and a flow's whole output.
        - ``place`` its place when all ranked items of the case are put in order of rank, lists side by side, from 0:
          the first k are those with place < k. Missing without a rank.

    Raises
    ------
    LimitError
        An output nests too deep to be read; the message names the case.
    SchemaError
        An output is not JSON; the message names the case.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> frame = pd.DataFrame({"test_set_id": ["acme.a"], "version": ["1.0.0"], "case_id": ["c1"],
    ...     "subject_kind": ["flow"], "subject_id": ["acme.find"], "subject_version": ["2"], "run_id": ["r1"],
    ...     "output_json": ['{"matches": [{"id": "a"}, {"id": "b"}]}']})
    >>> output_items(SimpleNamespace(cases=frame))[["key", "pointer", "rank"]]
          key     pointer  rank
    0  output              <NA>
    1       a  /matches/0     0
    2       b  /matches/1     1
    """
    table = cases.cases
    found: list[Element] = []
    owner: list[int] = []
    numbers: list[int] = []
    places: list[int | None] = []
    kinds, outputs, ids = (table[name].tolist() for name in ("subject_kind", "output_json", "case_id"))
    for row, (kind, text, case_id) in enumerate(zip(kinds, outputs, ids, strict=True)):
        if not isinstance(text, str):
            continue
        elements = list(_items(_parse(text, case_id), agent=kind == "agent"))
        found += elements
        owner += [row] * len(elements)
        numbers += range(len(elements))
        places += _places(elements)
    columns: dict[str, Any] = {}
    for name in CASE_COLUMNS:
        columns[name] = table[name].iloc[owner].reset_index(drop=True).astype(TEXT)
    columns["item_no"] = pd.Series(numbers, dtype="int64")
    columns["key"] = pd.Series([e.key for e in found], dtype=TEXT)
    columns["pointer"] = pd.Series([e.pointer for e in found], dtype=TEXT)
    columns["own_key"] = pd.Series([e.own_key for e in found], dtype="bool")
    columns["list_pointer"] = pd.Series([e.list_pointer for e in found], dtype=TEXT)
    columns["rank"] = pd.Series([e.rank for e in found], dtype="Int64")
    columns["place"] = pd.Series(places, dtype="Int64")
    return pd.DataFrame(columns)


def _parse(text: str, case_id: str) -> Any:
    try:
        return json.loads(text, parse_int=float)  # a JSON number is a double to the server
    except RecursionError:
        raise LimitError(f"The output of case {case_id!r} nests too deep to be read.") from None
    except ValueError:
        raise SchemaError("its text is not JSON", case_id=case_id, path="/output") from None


def _places(elements: list[Element]) -> list[int | None]:
    # Python's sort is stable, as the server's is: equal ranks of two lists stay in the output's order.
    ranked = sorted((e.rank, i) for i, e in enumerate(elements) if e.rank is not None)
    place = {i: p for p, (_, i) in enumerate(ranked)}
    return [place.get(i) for i in range(len(elements))]


def _items(output: Any, *, agent: bool) -> Iterator[Element]:
    if not agent:
        if output is not None:
            yield Element("output", "", own_key=False)
            yield from _elements(output, "", 0)
        return
    if not isinstance(output, dict):
        return
    appended = output.get("appended")
    messages = appended if isinstance(appended, list) else []
    for i in range(len(messages) - 1, -1, -1):
        if _is_answer(messages[i]):
            yield Element("answer", f"/appended/{i}/content", own_key=False)
            break
    if "output" in output:
        yield from _elements(output["output"], "/output", 0)


def _is_answer(message: Any) -> bool:
    if not isinstance(message, dict) or message.get("role") != "agent" or "content" not in message:
        return False
    content = message["content"]
    return not (isinstance(content, dict) and isinstance(content.get("toolCalls"), list))


def _elements(value: Any, pointer: str, depth: int) -> Iterator[Element]:
    if depth > MAX_DEPTH:
        return
    if isinstance(value, list):
        if len(value) > MAX_LIST:
            return
        seen: set[str] = set()
        for i, element in enumerate(value):
            here = f"{pointer}/{i}"
            own = _own_key(element)
            key = here if own is None or own in seen else own
            seen.add(key)
            yield Element(key, here, own_key=key is own, rank=i, list_pointer=pointer)
    elif isinstance(value, dict):
        for name in _in_server_order(value):
            token = name.replace("~", "~0").replace("/", "~1")
            yield from _elements(value[name], f"{pointer}/{token}", depth + 1)


def _in_server_order(members: dict[str, Any]) -> list[str]:
    # JavaScript walks an object's array indices first, in ascending order, then its other names as they came.
    index = [name for name in members if re.fullmatch("0|[1-9][0-9]{0,9}", name) and int(name) < 2**32 - 1]
    if not index:
        return list(members)
    return sorted(index, key=int) + [name for name in members if name not in set(index)]


def _own_key(element: Any) -> str | None:
    if not isinstance(element, dict):
        return None
    for field in ("id", "key"):
        value = element.get(field)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, float):  # never a bool
            return _number_text(value)
    return None


def _number_text(number: float) -> str:
    """Write a number as JavaScript does: shortest digits of the double, exponents from 1e21 and below 1e-6."""
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "0"
    sign = "-" if number < 0 else ""
    mantissa, exponent = f"{abs(number)!r}", 0
    if "e" in mantissa:
        mantissa, power = mantissa.split("e")
        exponent = int(power)
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + exponent - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if 0 < point <= 21:
        text = digits.ljust(point, "0") if len(digits) <= point else f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        text = f"0.{'0' * -point}{digits}"
    else:
        head = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
        text = f"{head}e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return sign + text
