"""Faults seen in other programs, each as a case: what a server sends, and what must come of it.

A case is ``data/<id>.json``; ``<id>.page1.json`` beside it is a body that must stay byte for byte.
All data are made up.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cases.calls import Outcome, perform, single_calls, wrapped
from cases.checks import check, check_combined, check_rules
from cases.player import Player

import casekit as ck
from casekit.loaders import folder_name

DATA = Path(__file__).parent / "data"
SOURCE = str(Path(ck.__file__).parents[1])
CASES = {
    document["id"]: document
    for path in sorted(DATA.glob("*.json"))
    if not re.search(r"\.page\d+\.json$", path.name)
    for document in [json.loads(path.read_text())]
}


def with_local(part: str | None) -> list[str]:
    """Cases whose ``local`` has this part; with None, the cases that have no ``local``."""
    return [key for key, case in CASES.items() if (part in case["local"] if "local" in case else part is None)]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file under a folder, hidden ones too."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_there_are_cases() -> None:
    """Every case must be run by one of the tests here: an empty parametrisation would pass in silence."""
    assert len(CASES) == 42
    assert sum(len(with_local(part)) for part in (None, "signal", "block_modules", "runs")) == 42


@pytest.mark.parametrize("name", with_local(None))
def test_case(name: str, tmp_path: Path) -> None:
    """What a call comes to must be what the case expects, and the rules for every case must hold."""
    case = CASES[name]
    client, expect = case["client"], case["expect"]
    serve = wrapped(case["serve"], DATA) if client["op"] == "parse_test_cases" else case["serve"]
    parts = next((value for key, value in expect.items() if key.startswith("by_")), None)
    outcomes: list[Outcome] = []
    for key, call in single_calls(client).items():
        with Player(serve, DATA) as player:
            outcome = perform(call, player.url, tmp_path)
        check_rules(outcome, player, client["token"], tmp_path)
        check(expect if parts is None else parts[key], outcome, player, tmp_path / f"call-{len(outcomes)}")
        check_rules(outcome, player, client["token"], tmp_path)
        outcomes.append(outcome)
    if "combined" in expect:
        check_combined(expect["combined"], outcomes, tmp_path)


def started(player: Player, token: str, target: Path, *blocked: str, **variables: str) -> subprocess.Popen[str]:
    """Start a process that loads, keeps, shows and draws."""
    environment = {**os.environ, "PYTHONPATH": SOURCE, "MPLBACKEND": "Agg", **variables}
    command = [sys.executable, "-W", "error", str(Path(__file__).parent / "child.py"), player.url, token, str(target)]
    return subprocess.Popen(
        [*command, *blocked], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def seen_by(process: subprocess.Popen[str], token: str) -> Mapping[str, Any]:
    """What a process saw; it must say nothing on the side."""
    out, err = process.communicate(timeout=60)
    assert err == ""
    assert process.returncode == 0
    assert token not in out
    seen = json.loads(out)
    assert isinstance(seen, dict)
    return seen


@pytest.mark.parametrize("name", with_local("runs"))
def test_two_processes_show_the_same(name: str, tmp_path: Path) -> None:
    """Texts, HTML, summary, plot and content must be the same bytes in every process, and nothing goes to stderr."""
    case = CASES[name]
    token = case["client"]["token"]
    with Player(case["serve"], DATA) as player:
        processes = [
            started(
                player, token, tmp_path / str(n), **{key: values[n] for key, values in case["local"]["env"].items()}
            )
            for n in range(case["local"]["runs"])
        ]
        first, *others = [seen_by(process, token) for process in processes]
    assert first["ids"] == case["expect"]["cases"]["ids"]
    assert all(other == first for other in others)
    assert len(set(first["content"])) == 1
    assert len(set(first["html"])) == 1
    shown = "".join(first["text"] + first["html"])
    assert not re.search(r"0x[0-9a-f]{6}|127\.0\.0\.1|http:|\d\d:\d\d| s\b", shown)


@pytest.mark.parametrize("name", with_local("block_modules"))
def test_missing_modules(name: str, tmp_path: Path) -> None:
    """Without optional modules all but drawing must work, and drawing must say what to install."""
    case = CASES[name]
    token = case["client"]["token"]
    with Player(case["serve"], DATA) as player:
        seen = seen_by(started(player, token, tmp_path, *case["local"]["block_modules"]), token)
    assert seen["ids"] == case["expect"]["cases"]["ids"]
    assert "pip install" in seen["plot"]
    assert "matplotlib" in seen["plot"]


@pytest.mark.parametrize("name", with_local("signal"))
def test_interrupted(name: str, tmp_path: Path) -> None:
    """Ctrl-C must end a pull at once, leave the old snapshot byte for byte, and nothing else."""
    case = CASES[name]
    client, how, expect = case["client"], case["local"]["signal"], case["expect"]
    into = tmp_path / "pulled"
    target = into / folder_name(client["testSetId"], client["version"])
    with Player({"responses": [{"body_json": {"data": [], "hasMore": False}}]}, DATA) as player:
        old = perform({**client, "op": "list_cases", "testSetId": "acme.other"}, player.url, tmp_path)
    ck.write_snapshot(old.cases, target)
    before = contents(into)
    code = (
        "import sys, casekit as ck\n"
        f"client = ck.Client(sys.argv[1], token={client['token']!r})\n"
        f"ck.pull([({client['testSetId']!r}, {client['version']!r})], into=sys.argv[2], client=client)\n"
    )
    with Player(case["serve"], DATA) as player:
        process = subprocess.Popen(
            [sys.executable, "-c", code, player.url, str(into)],
            env={**os.environ, "PYTHONPATH": SOURCE},
            stderr=subprocess.PIPE,
            text=True,
        )
        with player.arrived:
            assert player.arrived.wait_for(lambda: len(player.requests) >= how["after_request"], 30)
        time.sleep(how["after_ms"] / 1000)
        process.send_signal(getattr(signal, how["name"]))
        sent = time.monotonic()
        _, err = process.communicate(timeout=30)
        took = time.monotonic() - sent
    assert err.rstrip().endswith(expect["raises"])
    assert took < expect["within_s"]
    assert contents(into) == before
    assert [path.name for path in into.iterdir()] == [target.name]
    assert client["token"] not in err
