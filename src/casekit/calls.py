"""The tool calls that runs made: those a flow's case keeps, and those an agent's output lists.

An agent's output lists its calls as ``toolCalls``, at its top or in the messages under ``appended`` (in a message, or
in its ``content``). A call names its tool as ``tool``, ``toolId`` or ``name``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import numpy as np
import pandas as pd

from casekit.errors import LimitError, SchemaError

__all__ = ["HasCalls", "made_calls", "rows_of"]

TEXT: Final = pd.StringDtype(na_value=np.nan)
KEY: Final = ("test_set_id", "version", "case_id")
CASE_COLUMNS: Final = (*KEY, "subject_kind", "subject_id", "subject_version")
CALL_COLUMNS: Final = ("tool_id", "arguments_json", "result_json")
TOOL_NAMES: Final = ("tool", "toolId", "name")

_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list: Final = msgspec.json.Decoder(list[msgspec.Raw])


class HasCalls(Protocol):
    """Anything with these two tables as pandas frames, such as a CaseSet."""

    @property
    def cases(self) -> pd.DataFrame:
        """One row per case; ``output_json`` is the output's JSON text."""

    @property
    def recorded_calls(self) -> pd.DataFrame:
        """One row per call that a flow's case keeps."""


class _Call(NamedTuple):
    """A call; ``run_id`` where it is not the case's own."""

    tool_id: str
    arguments_json: str | None
    result_json: str | None
    run_id: str | None = None


def made_calls(cases: HasCalls) -> pd.DataFrame:
    """List the tool calls that the cases' runs made, as `grade_decisions` takes them.

    A flow's calls are those its case keeps (``recorded_calls``). An agent's are those its output lists, at its top or
    in its messages.

    Parameters
    ----------
    cases
        A CaseSet, or any object with its ``cases`` and ``recorded_calls`` frames. Not changed.

    Returns
    -------
    pd.DataFrame
        One row per call, in the order of the cases and of each run's calls. A run that is known to have made no call
        has one row, whose ``call_no`` and ``tool_id`` are missing. A case whose calls are not known has no row: it is
        erased, keeps no flow, its output lists no calls, or a call in the list names no tool.

        - ``test_set_id``, ``version``, ``case_id``, ``subject_kind``, ``subject_id``, ``subject_version`` of the case.
        - ``run_id`` run that made the call: the case's own, or a part of a flow's.
        - ``call_no`` place among the run's calls, from 0; ``tool_id`` name of the tool; ``arguments_json``,
          ``result_json`` JSON text as it came, missing where absent.
        - ``truncated`` the run made more calls than its case keeps.

    Raises
    ------
    SchemaError
        An output is not JSON; the message names the case.
    LimitError
        An output nests too deep to be read.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> frame = pd.DataFrame({"test_set_id": ["acme.a"], "version": ["1.0.0"], "case_id": ["c1"],
    ...     "subject_kind": ["agent"], "subject_id": ["acme.find"], "subject_version": ["2"], "run_id": ["r1"],
    ...     "output_json": ['{"toolCalls": [{"tool": "find", "arguments": {"id": 9007199254740993}}]}'],
    ...     "n_recorded_calls": pd.array([None], dtype="Int64"), "flow_truncated": pd.array([None], dtype="boolean")})
    >>> kept = pd.DataFrame(columns=["test_set_id", "version", "case_id", "run_id", "tool_id", "arguments_json",
    ...     "result_json"])
    >>> made_calls(SimpleNamespace(cases=frame, recorded_calls=kept))[["case_id", "tool_id", "arguments_json"]]
      case_id tool_id            arguments_json
    0      c1    find  {"id": 9007199254740993}
    """
    table = cases.cases
    kept = _kept(cases.recorded_calls)
    flows = table["n_recorded_calls"].notna().tolist()
    owner: list[int] = []
    numbers: list[int | None] = []
    made: list[_Call | None] = []
    for row, (key, flow, output) in enumerate(zip(rows_of(table, KEY), flows, table["output_json"], strict=True)):
        calls = kept.get(key, []) if flow else _listed(output, key[-1])
        if calls is not None:
            owner += [row] * max(len(calls), 1)
            numbers += range(len(calls)) if calls else [None]
            made += calls or [None]
    of_case = table.iloc[owner].reset_index(drop=True)
    columns: dict[str, Any] = {name: of_case[name].astype(TEXT) for name in CASE_COLUMNS}
    runs = zip(of_case["run_id"], made, strict=True)
    columns["run_id"] = pd.Series([call.run_id if call and call.run_id else own for own, call in runs], dtype=TEXT)
    columns["call_no"] = pd.Series(numbers, dtype="Int64")
    for name in CALL_COLUMNS:
        columns[name] = pd.Series([None if call is None else getattr(call, name) for call in made], dtype=TEXT)
    columns["truncated"] = of_case["flow_truncated"].astype("boolean").fillna(False).astype(bool)
    return pd.DataFrame(columns)


def rows_of(table: pd.DataFrame, columns: Iterable[str]) -> list[tuple[Any, ...]]:
    """Rows of some columns, None where a value is missing."""
    # The stubs of pandas know no None.
    cells = [table[name].to_numpy(dtype=object, na_value=None) for name in columns]  # type: ignore[call-overload]
    return list(zip(*cells, strict=True))


def _kept(recorded: pd.DataFrame) -> dict[tuple[str | None, ...], list[_Call]]:
    """The calls each flow's case keeps."""
    found: dict[tuple[str | None, ...], list[_Call]] = {}
    calls = rows_of(recorded, (*CALL_COLUMNS, "run_id"))
    for key, call in zip(rows_of(recorded, KEY), calls, strict=True):
        found.setdefault(key, []).append(_Call(*call))
    return found


class _NamelessCall(Exception):
    """The list holds something that names no tool."""


def _listed(output: Any, case_id: str | None) -> list[_Call] | None:
    """The calls an output lists; None where it does not say."""
    if not isinstance(output, str):
        return None
    try:
        members = _members(output)
        calls = _elements(members.get("toolCalls"))
        if calls is None and (appended := _elements(members.get("appended"))) is not None:
            calls = [call for message in appended for call in _of_message(_members(message))]
        return None if calls is None else [_call(_members(call)) for call in calls]
    except _NamelessCall:
        return None
    except RecursionError:
        raise LimitError(f"The output of case {case_id!r} nests too deep to be read.") from None
    except msgspec.DecodeError:
        raise SchemaError("its text is not JSON", case_id=case_id, path="/output") from None


def _of_message(message: dict[str, msgspec.Raw]) -> list[msgspec.Raw]:
    calls = _elements(message.get("toolCalls"))
    if calls is None and "content" in message:
        calls = _elements(_members(message["content"]).get("toolCalls"))
    return calls or []


def _call(members: dict[str, msgspec.Raw]) -> _Call:
    name = next((members[name] for name in TOOL_NAMES if name in members), None)
    tool = None if name is None else msgspec.json.decode(name)
    if not isinstance(tool, str) or not tool:
        raise _NamelessCall
    return _Call(tool, _text(members.get("arguments")), _text(members.get("result")))


def _text(raw: msgspec.Raw | None) -> str | None:
    return None if raw is None else bytes(raw).decode()


def _members(raw: str | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """The members of an object; none of any other value."""
    try:
        return _object.decode(raw)
    except msgspec.ValidationError:
        return {}


def _elements(raw: msgspec.Raw | None) -> list[msgspec.Raw] | None:
    """The elements of a list; None for any other value."""
    try:
        return None if raw is None else _list.decode(raw)
    except msgspec.ValidationError:
        return None
