"""The rules that hold for every case."""

from __future__ import annotations

import json
from pathlib import Path

from cases.calls import Outcome
from cases.forbidden import exact, sent_as
from cases.player import Player

import casekit as ck
from casekit import errors

BOUND_SECONDS = 60.0
MESSAGE_MAX = 2000


def check_rules(outcome: Outcome, player: Player, token: str, folder: Path) -> None:
    """Who was asked for what, what was shown and kept, and that no case was lost."""
    _requests(player, token)
    assert token not in outcome.shown()
    for path in folder.rglob("*"):
        assert not path.is_file() or token.encode() not in path.read_bytes()
    assert outcome.seconds <= BOUND_SECONDS
    if outcome.error is not None:
        assert outcome.value is None, "a partial result is given out with an error"
        assert isinstance(outcome.error, errors.CasekitError)
        assert len(str(outcome.error)) <= MESSAGE_MAX
        assert str(outcome.error).isprintable()
    elif isinstance(outcome.value, ck.CaseSet) and player.requests:
        _nothing_lost(outcome, player)


def _requests(player: Player, token: str) -> None:
    """The token goes to the main origin alone; a limit is 1..100; a cursor goes back as it came."""
    given: set[str] = set()
    for request in player.requests:
        assert request.header("authorization") == [f"Bearer {token}"]
        for name, value in request.query:
            assert name != "limit" or 1 <= int(value) <= 100
            assert name != "cursor" or value in given
        given |= player.cursors(request)
    for request in player.origins["other"].requests if "other" in player.origins else []:
        assert request.header("authorization") == []


def _nothing_lost(outcome: Outcome, player: Player) -> None:
    """Cases in are cases out and cases reported as bad or as repeated; all of them as they were sent."""
    cases, report = outcome.cases, outcome.cases.report
    sent = [_mended(sent_as(document)) for document in player.documents()]
    assert len(sent) == len(cases) + len(report.bad_cases) + report.duplicates
    assert report.cases == len(cases)
    if len(sent) == len(cases):
        assert [_mended(sent_as(document)) for document in cases.documents()] == sent


def _mended(text: str) -> str:
    """JSON with U+FFFD for each half of a character, which no file can hold."""
    value = json.loads(text)
    return exact(
        json.loads(json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    )
