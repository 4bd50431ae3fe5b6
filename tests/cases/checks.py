"""Checks what a call came to against a case's ``expect``, key by key; a key that nobody checks is an error."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from cases.calls import Outcome
from cases.case_checks import OF_CASES, only
from cases.forbidden import Seen, check_forbidden, demand
from cases.player import Player, Request

import casekit as ck
from casekit import errors
from casekit.documents import AgentCase
from casekit.schema import TABLES

KINDS: dict[str, tuple[type[BaseException], ...]] = {
    "auth": (errors.AuthError,),
    "bad-cursor": (errors.CursorError,),
    "bad-input": (errors.BadInputError, errors.ConfigError),
    "busy": (errors.BusyError,),
    "config": (errors.ConfigError,),
    "conflict": (errors.ConflictError,),
    "io": (errors.SnapshotError,),
    "limit": (errors.LimitError,),
    "not-found": (errors.NotFoundError,),
    "protocol": (errors.ProtocolError,),
    "redirect": (errors.RedirectError,),
    "schema": (errors.SchemaError,),
    "server": (errors.ServerError,),
    "too-large": (errors.TooLargeError,),
    "transport": (errors.TransportError,),
}
TOLD = {"outcome", "basis", "note"}  # words for people; the outcome has its own check
LATER = {"round_trip", "must_not"}  # checked once a snapshot has been read back; the contract asks for one every time


def check(expect: Mapping[str, Any], outcome: Outcome, player: Player, folder: Path) -> None:
    """Check one call; ``any_of`` is met by one of its parts, and none of them may ask for what nobody checks."""
    if expect["outcome"] == "any_of":
        only(expect, "outcome", "basis", "any_of", "must_not")
        problems = []
        for part in expect["any_of"]:
            try:
                check(
                    {**part, "must_not": [*part.get("must_not", []), *expect.get("must_not", [])]},
                    outcome,
                    player,
                    folder,
                )
            except AssertionError as problem:
                problems.append(str(problem))
        assert len(problems) < len(expect["any_of"]), "\n".join(problems)
        return
    demand(expect["outcome"] in ("ok", "error"), expect["outcome"])
    only(expect, *TOLD, *LATER, "snapshot", *OF_CASES, *OF_CALLS)
    if expect["outcome"] == "error":
        assert outcome.error is not None, f"expected an error, got {outcome.value!r}"
    elif outcome.error is not None:
        raise AssertionError(f"expected none, got {outcome.error!r}") from outcome.error
    if "snapshot" in expect:  # before there is one that the checks make
        _snapshot(expect["snapshot"], outcome, folder.parent)
    of_cases = {name: check_it for name, check_it in OF_CASES.items() if name in expect}
    for name, check_it in of_cases.items():
        check_it(expect[name], outcome.cases)
    for name, check_call in OF_CALLS.items():
        if name in expect:
            check_call(expect[name], outcome, player)
    again = None
    if expect["outcome"] == "ok" and isinstance(outcome.value, ck.CaseSet):
        # The contract has every case come back from a snapshot, whether the case asks or not.
        ck.write_snapshot(outcome.cases, folder / "kept")
        ck.verify_snapshot(folder / "kept")
        again = ck.read_snapshot(folder / "kept")
        assert list(again.documents()) == list(outcome.cases.documents())
        assert all(again.arrow(name).equals(outcome.cases.arrow(name)) for name in TABLES)
        for name, check_it in of_cases.items():
            check_it(expect[name], again)
    check_forbidden(expect.get("must_not", []), Seen(outcome, player, again))


# ------------------------------------------------------------ of calls


def _error(expected: Mapping[str, Any], outcome: Outcome, player: Player) -> None:
    only(expected, "kind", "status", "code", "requestId", "details", "retryAfter", "names")
    error: Any = outcome.error
    for name in expected["kind"]:
        demand(name in KINDS, name)
    wanted = tuple(kind for name in expected["kind"] for kind in KINDS[name])
    assert isinstance(error, wanted), repr(error)
    attributes = {"status": "status", "code": "code", "requestId": "request_id", "retryAfter": "retry_after"}
    for name, attribute in {**attributes, "details": "details"}.items():
        if name in expected:
            assert getattr(error, attribute) == expected[name]
    for one in expected.get("names", []):
        words = [re.sub(r"^the (field |case )?", "", part.strip()).lower() for part in one.split(" or ")]
        assert any(word in str(error).lower() for word in words), f"{words} not in {error}"


def _requests(expected: Mapping[str, Any], outcome: Outcome, player: Player) -> None:
    requests = player.requests
    gaps = [(later.came - (one.answered or one.came)) * 1000 for one, later in pairwise(requests)]
    only(expected, *REQUESTS)
    for name, value in expected.items():
        REQUESTS[name](value, requests, gaps, player)


def _most_of_one(requests: list[Request]) -> int:
    targets = [request.target for request in requests]
    return max((targets.count(target) for target in targets), default=0)


def _same(values: list[Any]) -> bool:
    return bool(values) and all(value == values[0] for value in values)


def _holds(truth: Any) -> None:
    assert truth


REQUESTS: dict[str, Any] = {
    "count": lambda value, requests, gaps, player: _holds(len(requests) == value),
    "min": lambda value, requests, gaps, player: _holds(len(requests) >= value),
    "max": lambda value, requests, gaps, player: _holds(len(requests) <= value),
    "main_max": lambda value, requests, gaps, player: _holds(len(requests) <= value),
    "max_each": lambda value, requests, gaps, player: _holds(_most_of_one(requests) <= value),
    "other_max": lambda value, requests, gaps, player: _holds(len(player.origins["other"].requests) <= value),
    "cursors": lambda value, requests, gaps, player: _holds(
        [dict(request.query).get("cursor") for request in requests] == value
    ),
    "gap_ms_min": lambda value, requests, gaps, player: _holds(
        all(gap >= least for gap, least in zip(gaps, value, strict=False))
    ),
    "gap_ms_max": lambda value, requests, gaps, player: _holds(
        all(gap <= most for gap, most in zip(gaps, value, strict=False))
    ),
    "same_idempotency_key": lambda value, requests, gaps, player: _holds(
        (_same([request.header("idempotency-key") for request in requests]) and requests[0].header("idempotency-key"))
        or not value
    ),
    "same_body": lambda value, requests, gaps, player: _holds(_same([request.body for request in requests]) == value),
    "raw_path": lambda value, requests, gaps, player: _holds({request.path for request in requests} == {value}),
    "raw_path_regex": lambda value, requests, gaps, player: _holds(
        all(re.search(value, request.path) for request in requests)
    ),
    "limit_between": lambda value, requests, gaps, player: _holds(
        all(value[0] <= int(dict(request.query)["limit"]) <= value[1] for request in requests)
    ),
}


def _retired(expected: Mapping[str, Any], outcome: Outcome, player: Player) -> None:
    case = outcome.value
    assert isinstance(case, AgentCase)
    assert case.retired is not None, "the case is not retired"
    only(expected, "id", "reason", "at_epoch_s")
    found = {"id": case.id, "reason": case.retired.reason, "at_epoch_s": case.retired.at.timestamp()}
    assert {name: found[name] for name in expected} == expected


def _warns(expected: Any, outcome: Outcome, player: Player) -> None:
    said = "\n".join([*outcome.warned, json.dumps(outcome.cases.report.to_dict(), ensure_ascii=False)])
    for one in _texts(expected):
        assert one in said


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, Mapping)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part)


def _growth(expected: float, outcome: Outcome, player: Player) -> None:
    assert outcome.growth_mib <= expected


def _snapshot(expected: Mapping[str, Any], outcome: Outcome, folder: Path) -> None:
    """What stands under a folder after a call."""
    only(expected, "target", "stray_files", "same_content_twice")
    targets = [path.parent for path in folder.rglob("snapshot.json")]
    if "target" in expected:
        demand(expected["target"] in ("absent", "whole"), expected["target"])
        assert bool(targets) == (expected["target"] == "whole")
    for target in targets:
        ck.verify_snapshot(target)
    if "stray_files" in expected:
        inside = {path for target in targets for path in target.iterdir()}
        stray = [path for path in folder.rglob("*") if path.is_file() and path not in inside]
        assert len(stray) == expected["stray_files"]
    if expected.get("same_content_twice"):
        kept = [ck.write_snapshot(outcome.cases, folder / "twice" / str(n)).content_hash for n in range(2)]
        assert kept[0] == kept[1]


def _elapsed(expected: float, outcome: Outcome, player: Player) -> None:
    assert outcome.seconds <= expected


def _message_max(expected: int, outcome: Outcome, player: Player) -> None:
    assert len(str(outcome.error)) <= expected


OF_CALLS: dict[str, Any] = {
    "elapsed_s_max": _elapsed,
    "error": _error,
    "message_max": _message_max,
    "requests": _requests,
    "retired": _retired,
    "rss_growth_mib_max": _growth,
    "warns": _warns,
    "within_s": _elapsed,
}
