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
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from cases.calls import Outcome, perform, single_calls, wrapped
from cases.case_checks import check_combined, only
from cases.checks import check
from cases.forbidden import FORBIDDEN, NobodyChecks, forbid
from cases.player import Player
from cases.rules import check_rules

import casekit as ck
from casekit.loaders import folder_name
from casekit.schema import empty_tables

COMBINED = {  # what reading several snapshots together checks
    "reading the two together fails on a null-typed or missing column",
    "the columns of the first file decide, so that runId is lost",
}
BY = ("by_test_set", "by_version", "by_file", "by_target", "by_reason")
PARTS = {"before", "signal", "block_modules", "runs", "env"}  # of ``local``
KEYS = {"format", "id", "title", "kind", "source", "schema_valid", "client", "local", "serve", "expect"}
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


def part_of(expect: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """What is expected of one of the calls that a case makes."""
    by = [name for name in expect if name in BY]
    if not by:
        return expect
    only(expect, "outcome", "basis", "combined", "must_not", *by)
    part = expect[by[0]][key]
    texts = [text for text in expect.get("must_not", []) if text not in COMBINED]
    return {**part, "must_not": [*part.get("must_not", []), *texts]}


def run(case: Mapping[str, Any], files: Path, folder: Path, *, on_disk: bool = False) -> list[Outcome]:
    """Do what a case asks for and check it; ``on_disk``: pull what it loads, over an older snapshot."""
    client, expect = case["client"], case["expect"]
    serve = case.get("serve", {})
    if client["op"] == "parse_test_cases":
        serve = wrapped(serve, files)
    if parts := next((value for key, value in expect.items() if key.startswith("by_")), None):
        assert expect.keys() <= {
            "outcome",
            "basis",
            "combined",
            "must_not",
            *(key for key in expect if key[:3] == "by_"),
        }
        assert parts.keys() == single_calls(client).keys()
    outcomes: list[Outcome] = []
    for key, call in single_calls(client).items():
        into = folder / f"{len(outcomes)}"
        before = {}
        if on_disk:
            call = {**call, "op": "snapshot_cases"}
            before = older(into, call)
        with Player(serve, files) as player:
            outcome = perform(call, player.url, into, files)
        check_rules(outcome, player, client["token"], into)
        if outcome.error is not None:
            assert (contents(into) if into.exists() else {}) == before, "a failed call has changed files"
        check(part_of(expect, key), outcome, player, into / "checked")
        check_rules(outcome, player, client["token"], into)
        outcomes.append(outcome)
    return outcomes


def older(into: Path, call: Mapping[str, Any]) -> dict[str, bytes]:
    """Put an older snapshot, of another server, where a pull is to write; its files."""
    there = ck.Source(test_sets=((call["testSetId"], call["version"]),), origin="http://old.example")
    ck.write_snapshot(ck.CaseSet(empty_tables(), there), into / folder_name(call["testSetId"], call["version"]))
    return contents(into)


@pytest.mark.parametrize("name", with_local(None))
def test_case(name: str, tmp_path: Path) -> None:
    """What a call comes to must be what the case expects, and the rules for every case must hold."""
    case = CASES[name]
    outcomes = run(case, DATA, tmp_path)
    if "combined" in case["expect"]:
        check_combined(case["expect"]["combined"], outcomes, tmp_path)


@pytest.mark.parametrize("name", [name for name in with_local(None) if CASES[name]["client"]["op"] == "list_cases"])
def test_case_on_disk(name: str, tmp_path: Path) -> None:
    """A pull must come to what a load comes to; where it fails, the older snapshot must stand byte for byte."""
    run(CASES[name], DATA, tmp_path, on_disk=True)


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
    only(case["expect"], "outcome", "basis", "cases", "display", "snapshot")
    only(case["expect"]["display"], "same_bytes", "no", "stderr")
    only(case["expect"]["snapshot"], "same_content_twice")
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
    only(case["expect"], "outcome", "basis", "cases", "must_not", "plot")
    only(case["expect"]["plot"], "without_matplotlib")
    assert seen["ids"] == case["expect"]["cases"]["ids"]
    assert "pip install" in seen["plot"]
    assert "matplotlib" in seen["plot"]
    held = ("importing casekit, loading or snapshotting fails", "a warning on stderr for each load")
    forbid(case["expect"]["must_not"], dict.fromkeys(held, lambda: None))  # else ``seen_by`` has failed


@pytest.mark.parametrize("name", with_local("signal"))
def test_interrupted(name: str, tmp_path: Path) -> None:
    """Ctrl-C must end a pull at once, leave the old snapshot byte for byte, and nothing else."""
    case = CASES[name]
    client, how, expect = case["client"], case["local"]["signal"], case["expect"]
    into = tmp_path / "pulled"
    target = into / folder_name(client["testSetId"], client["version"])
    only(expect, "outcome", "basis", "snapshot", "raises", "within_s", "must_not")
    assert expect["snapshot"] == {"target": "unchanged, byte for byte", "stray_files": 0}
    before = older(into, client)
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
    held = ("a half file at the target", "the old file is gone", "KeyboardInterrupt is swallowed by a retry")
    forbid(expect["must_not"], dict.fromkeys(held, lambda: None))  # the lines above check these


def kept(folder: Path) -> Path:
    """A snapshot with one case, made from a served page."""
    case = CASES["d42-dotted-keys"]
    with Player(case["serve"], DATA) as player:
        outcome = perform(case["client"], player.url, folder, DATA)
    ck.write_snapshot(outcome.cases, folder / "whole")
    return folder / "whole"


def read(file: str, expect: Mapping[str, Any]) -> dict[str, Any]:
    """A case that reads what lies beside it, with no server."""
    return {"client": {"op": "read_snapshot", "file": file, "token": "tok_test_read"}, "expect": expect}


def test_read_snapshot(tmp_path: Path) -> None:
    """A snapshot beside a case must be read without a request, to the same values as before."""
    kept(tmp_path)
    values = CASES["d42-dotted-keys"]["expect"]["values"]
    expect = {
        "outcome": "ok",
        "cases": {"count": 1, "ids": ["c-dot"]},
        "values": values,
        "requests": {"count": 0},
        "must_not": ["a column appears twice"],
    }
    run(read("whole", expect), tmp_path, tmp_path / "into")


def cut(path: Path) -> None:
    """A file that lacks its second half."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def newer(path: Path) -> None:
    """A manifest of a format that nobody knows yet."""
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))


DAMAGE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a table is cut": ("cases.parquet", cut),
    "a table is empty": ("items.parquet", lambda path: path.write_bytes(b"")),
    "a table is another program's": ("items.parquet", lambda path: pd.DataFrame({"a": [1]}).to_parquet(path)),
    "a table is missing": ("reasons.parquet", Path.unlink),
    "the manifest is cut": ("snapshot.json", cut),
    "the manifest is missing": ("snapshot.json", Path.unlink),
    "the format is newer": ("snapshot.json", newer),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_read_damaged_snapshot(what: str, tmp_path: Path) -> None:
    """A snapshot that is not whole must be an error of casekit's that names the folder, with no rows."""
    name, damage = DAMAGE[what]
    damage(kept(tmp_path) / name)
    expect = {
        "outcome": "error",
        "error": {"kind": ["io"], "names": ["whole"]},
        "requests": {"count": 0},
        "must_not": ["an empty frame"],
    }
    run(read("whole", expect), tmp_path, tmp_path / "into")


def test_read_lone_file(tmp_path: Path) -> None:
    """A single Parquet file, a snapshot's own or another program's, must be refused by name: it is no snapshot."""
    (tmp_path / "x.own.parquet").write_bytes((kept(tmp_path) / "cases.parquet").read_bytes())
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "x.other.parquet")
    error = {"outcome": "error", "error": {"kind": ["io"], "names": ["parquet"]}}
    case = read("", {"outcome": "error", "by_file": {"x.own.parquet": error, "x.other.parquet": error}})
    case["client"]["file"] = ["x.own.parquet", "x.other.parquet"]
    run(case, tmp_path, tmp_path / "into")


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("client", "op"), "guess_cases"),
        (("client", "colour"), "red"),
        (("expect", "outcome"), "perhaps"),
        (("expect", "sorted"), True),
        (("expect", "must_not"), ["it rains"]),
        (("expect", "cases", "few"), True),
        (("expect", "values"), [{"path": "/0/input", "roughly": 1}]),
        (("expect", "requests"), {"count": 1, "polite": True}),
        (("expect", "snapshot"), {"target": "somewhere"}),
        (("expect", "frame"), [{"table": "cases", "rule": "rows are nice"}]),
        (("expect",), {"outcome": "any_of", "any_of": [{"outcome": "ok"}, {"outcome": "ok", "sorted": True}]}),
        (("expect",), {"outcome": "ok", "by_colour": {"": {"outcome": "ok"}}}),
    ],
)
def test_unknown_rule(where: tuple[str, ...], value: object, tmp_path: Path) -> None:
    """A case with an operation, a rule or a text that no check knows must fail, not pass in silence."""
    case = deepcopy(CASES["d42-dotted-keys"])
    part = case
    for name in where[:-1]:
        part = part[name]
    part[where[-1]] = value
    with pytest.raises((NobodyChecks, LookupError), match="nobody"):
        run(case, DATA, tmp_path)


def test_every_text_is_checked() -> None:
    """Every text of a case on what must not happen must have a check, and no check must be left over."""
    texts = {text for case in CASES.values() for text in case["expect"].get("must_not", []) if "local" not in case}
    assert texts - COMBINED == FORBIDDEN.keys()
