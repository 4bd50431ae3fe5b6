"""Many writes to an agent's live test set at once, from a frame, with an account of each row."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
import pandas as pd

from casekit.client import Client
from casekit.errors import (
    ApiError,
    AuthError,
    BusyError,
    ConfigError,
    ProtocolError,
    ServerError,
    TransportError,
    did_you_mean,
    nearest,
    one_line,
)
from casekit.journal import Journal
from casekit.json_equal import exact, same
from casekit.loaders import load_agent_cases

__all__ = ["add_cases", "retire_cases"]

AWAY_AFTER: Final = 3  # rows in a row without a usable answer: the server is away, and the others are not tried
RETIRED: Final = "test-case-retired"
PARTS: Final = ("decisions", "should_call", "must_not_call", "answer", "should_say", "why", "items")
TEXT: Final = pd.StringDtype(na_value=np.nan)


@dataclass(frozen=True)
class _Row:
    """What became of one row."""

    state: str
    case_id: str | None = None
    at: datetime | None = None
    code: str | None = None
    message: str | None = None
    request_id: str | None = None
    pending: str | None = None  # key of an earlier attempt whose outcome is known now


def retire_cases(
    cases: pd.DataFrame, *, agent_id: str, client: Client | None = None, dry_run: bool = True
) -> pd.DataFrame:
    """Retire cases of an agent's live test set, for good, one row each.

    The live set is loaded first: what is retired there is not sent again, so that the same call made twice does only
    what is left. What goes wrong with one row stops no other, except where the token is refused, or where the server
    gave no usable answer three times in a row.

    Parameters
    ----------
    cases
        One row per case, with ``case_id`` and ``reason`` (1 to 4,000 characters); other columns are not looked at. Not
        changed.
    agent_id
        Such as ``"acme.drafting"``.
    client
        Else one made from ``CASEKIT_URL`` and ``CASEKIT_TOKEN``.
    dry_run
        Say what would be done, and write nothing. This is the default, because there is no way back.

    Returns
    -------
    pd.DataFrame
        One row per row of ``cases``, with its index.

        - ``case_id`` as given.
        - ``state`` ``done``; ``already`` retired before, by whomever; ``refused`` by the server (with its ``code``) or
          before it was sent (without); ``unknown``, no usable answer came: the same call again finds out;
          ``not tried``; in a dry run ``to do``.
        - ``code``, ``message``, ``request_id`` of what went wrong, missing otherwise.
        - ``retired_at`` when the case was retired (UTC), missing while it is not.

    Raises
    ------
    ConfigError
        A column is missing, or a case stands twice; nothing was sent.
    CasekitError
        The live set could not be loaded, or the journal of writes not be kept; see `casekit.errors`.

    Examples
    --------
    >>> import casekit as ck
    >>> stale = pd.DataFrame({"case_id": ["cor-1"], "reason": ["the tool was removed"]})
    >>> with ck.LocalServer() as server:
    ...     server.add_run("acme.drafting", "run-1")
    ...     client = ck.Client(server.url, token=server.token)
    ...     retire_cases(stale, agent_id="acme.drafting", client=client)[["case_id", "state"]]
      case_id  state
    0   cor-1  to do
    """
    _check_columns(cases, ("case_id", "reason"))
    client = client or Client()
    ids, reasons = _cells(cases, "case_id"), _cells(cases, "reason")
    _refuse_twice(ids, "case {!r}", ids)
    listed = load_agent_cases(agent_id, client=client, progress=False).cases
    retired = listed[listed["retired"]]
    known = dict(zip(retired["case_id"], retired["retired_at"], strict=True))

    def plan(row: int) -> _Row:
        write = client.retire_case(agent_id, ids[row], reason=reasons[row], dry_run=True)
        if ids[row] not in known:
            return _Row("to do")
        return _Row("already", at=known[ids[row]], pending=write.key if write.repeats else None)

    def send(row: int) -> _Row:
        return _Row("done", at=client.retire_case(agent_id, ids[row], reason=reasons[row]).retired_at)

    rows = [_planned(plan, row) for row in range(len(cases))]
    return _frame(cases.index, {"case_id": ids}, rows if dry_run else _sent(rows, send), "retired_at")


def add_cases(
    cases: pd.DataFrame, *, agent_id: str, client: Client | None = None, dry_run: bool = True
) -> pd.DataFrame:
    """Add cases by hand to an agent's live test set, one row each.

    The live set is loaded first: a case by hand of the same run that expects the same, retired or not, is there
    already, so that the same call made twice does only what is left. Failures are dealt with as in `retire_cases`.

    Parameters
    ----------
    cases
        One row per case, with ``run_id`` and any of ``decisions``, ``should_call``, ``must_not_call``, ``answer``,
        ``should_say``, ``why`` and ``items``, as `Client.add_case` takes them; a missing value is not sent. No other
        columns. Not changed.
    agent_id, client
        As in `retire_cases`.
    dry_run
        Say what would be done, and write nothing: the default.

    Returns
    -------
    pd.DataFrame
        One row per row of ``cases``, with its index: ``run_id`` as given; ``case_id`` of the case added, or there
        already; ``state``, ``code``, ``message``, ``request_id`` as in `retire_cases`; ``added_at`` when the case was
        added (UTC), missing while it is not.

    Raises
    ------
    ConfigError
        A column is missing or not known, or two rows add the same case; nothing was sent.
    CasekitError
        The live set could not be loaded, or the journal of writes not be kept; see `casekit.errors`.

    Examples
    --------
    >>> import casekit as ck
    >>> new = pd.DataFrame({"run_id": ["run-1", "run-2"], "decisions": ["right", "unsure"]})
    >>> with ck.LocalServer() as server:
    ...     server.add_run("acme.drafting", "run-1")
    ...     client = ck.Client(server.url, token=server.token)
    ...     add_cases(new, agent_id="acme.drafting", client=client)[["run_id", "state"]]
      run_id    state
    0  run-1    to do
    1  run-2  refused
    """
    _check_columns(cases, ("run_id",), PARTS)
    client = client or Client()
    runs = _cells(cases, "run_id")
    parts = {name: _cells(cases, name) for name in PARTS if name in cases.columns}
    live = load_agent_cases(agent_id, client=client, progress=False)
    added_at = dict(zip(live.cases["case_id"], live.cases["added_at"], strict=True))
    listed: dict[str, list[tuple[Any, str]]] = {}
    for document in live.documents():
        if document["kind"] == "hand":
            listed.setdefault(document["runId"], []).append((_expected(document["expect"]), document["id"]))
    bodies: list[str | None] = [None] * len(cases)

    def given(row: int) -> dict[str, Any]:
        return {name: column[row] for name, column in parts.items()}

    def plan(row: int) -> _Row:
        write = client.add_case(agent_id, runs[row], **given(row), dry_run=True)
        bodies[row] = write.body
        wanted = _expected(_expect(json.loads(write.body)))
        found = next((case_id for there, case_id in listed.get(runs[row], ()) if same(there, wanted)), None)
        if found is None:
            return _Row("to do")
        return _Row("already", found, added_at[found], pending=write.key if write.repeats else None)

    def send(row: int) -> _Row:
        added = client.add_case(agent_id, runs[row], **given(row))
        return _Row("done", added.id, added.added_at)

    rows = [_planned(plan, row) for row in range(len(cases))]
    _refuse_twice(bodies, "the same case of run {!r}", runs)
    return _frame(cases.index, {"run_id": runs}, rows if dry_run else _sent(rows, send), "added_at")


def _planned(plan: Callable[[int], _Row], row: int) -> _Row:
    try:
        return plan(row)
    except ConfigError as error:
        return _Row("refused", message=str(error))


def _sent(rows: Sequence[_Row], send: Callable[[int], _Row]) -> list[_Row]:
    """What becomes of rows that are to do: each is sent, as long as that makes sense."""
    out: list[_Row] = []
    away, journal = 0, Journal()
    for place, row in enumerate(rows):
        if row.state != "to do":
            if row.pending is not None:
                journal.settle(row.pending)
            out.append(row)
        elif away >= AWAY_AFTER:
            out.append(_Row("not tried"))
        else:
            done, nearer = _outcome(send, place)
            out.append(done)
            away = away + nearer if nearer else 0
    return out


def _outcome(send: Callable[[int], _Row], place: int) -> tuple[_Row, int]:
    """What became of a row that was sent, and how much nearer it brings the end of trying."""
    try:
        return send(place), 0
    except ApiError as error:
        state = "already" if error.code == RETIRED else "unknown" if isinstance(error, ServerError) else "refused"
        row = _Row(state, None, None, error.code or f"status {error.status}", str(error), error.request_id)
        if isinstance(error, AuthError) and error.status == 401:
            return row, AWAY_AFTER  # no other row would fare better
        return row, int(isinstance(error, (BusyError, ServerError)))
    except ProtocolError as error:
        return _Row("unknown", message=str(error), request_id=error.request_id), 1
    except TransportError as error:
        return _Row("unknown", message=str(error)), 1


def _expect(body: dict[str, Any]) -> dict[str, Any]:
    """What a case expects once a body has added it."""
    of = {"decisions": ("shouldCall", "mustNotCall"), "answer": ("shouldSay", "why")}
    expect = {
        part: {"verdict": body[part]} | {name: body[name] for name in names if name in body}
        for part, names in of.items()
        if part in body
    }
    return expect | {name: body[name] for name in ("items",) if name in body}


def _expected(expect: dict[str, Any]) -> Any:
    """What a case expects, with what a server may leave out or fill in made the same."""
    parts = dict(expect)
    if "decisions" in parts:
        decisions = dict(parts["decisions"])
        decisions["shouldCall"] = [{"args": {}} | call for call in decisions.get("shouldCall") or []]
        parts["decisions"] = {"mustNotCall": []} | decisions
    return exact(json.dumps({name: part for name, part in parts.items() if part}))


def _check_columns(cases: pd.DataFrame, needed: Sequence[str], others: Sequence[str] | None = None) -> None:
    """Refuse a frame that lacks a column, or, where the others are given, has one that is not known."""
    have = [str(name) for name in cases.columns]
    if lacking := [name for name in needed if name not in have]:
        raise ConfigError(f"the frame has no column {lacking[0]!r}; {nearest(lacking[0], have)}")
    if others is not None and (unknown := [name for name in have if name not in (*needed, *others)]):
        hint = did_you_mean(unknown[0], others) or f"a case has {', '.join((*needed, *others))}"
        raise ConfigError(f"the frame has a column {one_line(unknown[0], 60)!r}: {hint}")


def _cells(cases: pd.DataFrame, name: str) -> list[Any]:
    """The cells of a column, None where one is missing."""
    return [None if pd.api.types.is_scalar(cell) and pd.isna(cell) else cell for cell in cases[name].tolist()]


def _refuse_twice(things: Sequence[str | None], what: str, names: Sequence[Any]) -> None:
    seen: set[str] = set()
    for thing, name in zip(things, names, strict=True):
        if thing is not None and thing in seen:
            raise ConfigError(f"{what.format(one_line(str(name), 120))} stands in the frame twice; nothing was sent")
        if thing is not None:
            seen.add(thing)


def _frame(index: pd.Index[Any], given: dict[str, list[Any]], rows: Sequence[_Row], when: str) -> pd.DataFrame:
    columns: dict[str, Any] = {name: pd.Series(cells, dtype=TEXT) for name, cells in given.items()}
    for name in ("case_id", "state", "code", "message", "request_id"):
        columns.setdefault(name, pd.Series([getattr(row, name) for row in rows], dtype=TEXT))
    columns[when] = pd.Series([row.at for row in rows], dtype="datetime64[us, UTC]")
    return pd.DataFrame(columns).set_axis(index)
