"""The command line: what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import casekit as ck
from casekit import sample
from casekit.cli import main, parser
from casekit.cli.output import text_of
from casekit.schema import empty_tables
from casekit.server import LocalServer


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    """A server with the example data."""
    with LocalServer() as running:
        running.load_pages(sample.pages_folder(), sample.TEST_SET_ID, sample.VERSION)
        running.add_test_set("acme.empty", "1.0.0", [])
        yield running


@pytest.fixture
def settings(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a user who has a server."""
    monkeypatch.setenv("CASEKIT_URL", server.url)
    monkeypatch.setenv("CASEKIT_TOKEN", server.token)


@pytest.mark.usefixtures("settings")
def test_pull_verify_info(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pulled snapshot is whole, and info says what it is."""
    assert main(["pull", "mt-bench.pairwise@1.0.0", "--into", str(tmp_path)]) == 0
    assert "1,814 cases on 19 pages" in capsys.readouterr().out
    folder = str(tmp_path / "mt-bench.pairwise-1.0.0")
    assert main(["verify", folder]) == 0
    assert "whole, 1,814 cases" in capsys.readouterr().out
    assert main(["info", folder]) == 0
    out = capsys.readouterr().out
    assert "2,575: 1,342 yes, 1,233 no" in out
    assert "fetched" in out


def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    """The JSON document that a command printed."""
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("settings")
def test_pull_leaves_alone_what_is_fresh(
    server: LocalServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second pull of a fresh set asks the server for nothing and says so; with --max-age 0 it pulls again."""
    command = ["pull", "acme.empty@1.0.0", "--into", str(tmp_path), "--json"]
    assert main(command) == 0
    (first,) = printed(capsys)
    before = len(server.requests)
    assert main(command) == 0
    assert printed(capsys) == [first]
    assert len(server.requests) == before
    assert main(command[:-1]) == 0
    assert "acme.empty 1.0.0: there already" in capsys.readouterr().out
    assert main([*command, "--max-age", "0"]) == 0
    (again,) = printed(capsys)
    assert again["fetched_at"] > first["fetched_at"]
    assert again["content_hash"] == first["content_hash"]


@pytest.mark.usefixtures("settings")
def test_pull_names_every_set_that_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sets that cannot be pulled are named, each with its error, and the others are there."""
    refs = ["acme.nobody@1.0.0", "acme.empty@1.0.0", "acme.nothing@2.0.0"]
    assert main(["pull", *refs, "--into", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "acme.nobody 1.0.0" in error
    assert "acme.nothing 2.0.0" in error
    assert main(["verify", str(tmp_path / "acme.empty-1.0.0")]) == 0


@pytest.fixture
def drafts(tmp_path: Path) -> Iterator[tuple[LocalServer, Path, Path]]:
    """A server with a set of three cases, its snapshot, and a copy of that made before anything happens."""

    def case(name: str, yes: int) -> dict[str, Any]:
        weights = {"yesWeight": float(yes), "totalWeight": 2.0}
        item = {"key": "answer", "yes": yes, "no": 2 - yes, **weights, "reasons": []}
        subject = {"kind": "agent", "id": "acme.drafting", "version": "1.0.0"}
        return {"caseId": name, "subject": subject, "input": f"the words of {name}", "output": 1, "items": [item]}

    with LocalServer() as running:
        running.add_test_set("acme.drafts", "1.0.0", [case(f"case-{n}", n) for n in range(3)])
        with ck.Client(running.url, token=running.token) as client:
            ck.pull([("acme.drafts", "1.0.0")], into=tmp_path / "now", client=client)
        now, backup = tmp_path / "now" / "acme.drafts-1.0.0", tmp_path / "backup"
        shutil.copytree(now, backup)
        yield running, now, backup


def test_refresh_sweep_and_compare(
    drafts: tuple[LocalServer, Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A refresh names the erased case, a sweep finds its words in the old state alone, compare shows what it did."""
    server, now, backup = drafts
    monkeypatch.setenv("CASEKIT_URL", server.url)
    monkeypatch.setenv("CASEKIT_TOKEN", server.token)
    server.erase_case("case-1")

    assert main(["sweep", str(now), "--erased-ids", "case-1", "--before", str(backup), "--json"]) == 3
    found = printed(capsys)
    assert not found["clean"]
    assert {one["case_id"] for one in found["findings"]} == {"case-1"}

    assert main(["refresh", str(now), "--json"]) == 0
    (change,) = printed(capsys)
    assert change["erased"] == ["case-1"]
    assert change["added"] == change["changed"] == change["gone"] == []
    assert change["unchanged"] == 2
    assert main(["refresh", str(now)]) == 0
    assert "unchanged" in capsys.readouterr().out

    assert main(["sweep", str(now), "--before", str(backup)]) == 0
    assert "findings" in capsys.readouterr().out

    assert main(["compare", str(backup), str(now), "--json"]) == 0
    compared = printed(capsys)
    assert [(row["case_id"], row["change"]) for row in compared["cases"]] == [("case-1", "erased")]
    (rate,) = compared["rates"]
    assert rate["before_rate"] == rate["after_rate"] == 0.5
    assert rate["n_cases_erased"] == 1
    assert main(["compare", str(backup), str(now), "--by", "key"]) == 0
    assert "1 erased" in capsys.readouterr().out
    assert main(["compare", str(backup), str(now), "--by", "kay"]) == 1
    assert "'key'" in capsys.readouterr().err


@pytest.mark.parametrize("as_json", [True, False])
def test_a_refresh_that_fails_holds_up_no_other(
    drafts: tuple[LocalServer, Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    as_json: bool,
) -> None:
    """Every folder is refreshed, each failure is told, and the exit code says that there was one."""
    server, now, _ = drafts
    monkeypatch.setenv("CASEKIT_URL", server.url)
    monkeypatch.setenv("CASEKIT_TOKEN", server.token)
    server.erase_case("case-1")
    folders = [str(now.parent / "none"), str(now), str(now.parent / "nor\x1b[31mthis")]
    assert main(["refresh", *folders, *(["--json"] if as_json else [])]) == 1
    out, error = capsys.readouterr()
    assert [line.split(": ")[1] for line in error.splitlines()] == [folders[0], folders[2].replace("\x1b", r"\x1b")]
    assert ck.read_snapshot(now).cases["erased"].sum() == 1
    if as_json:
        first, change, last = json.loads(out)
        assert (first["folder"], last["folder"]) == (folders[0], folders[2])
        assert "does not exist, so it is no snapshot" in first["error"]
        assert (change["folder"], change["erased"]) == (folders[1], ["case-1"])
    else:
        assert "1: case-1" in out


@pytest.mark.usefixtures("settings")
def test_a_sweep_without_an_erased_case_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where no case is marked and none is named there is nothing to prove, and the way out is told."""
    assert main(["pull", "acme.empty@1.0.0", "--into", str(tmp_path)]) == 0
    assert main(["sweep", str(tmp_path / "acme.empty-1.0.0")]) == 1
    assert "marks no case as erased: name some with --erased-ids" in capsys.readouterr().err


def test_text_steers_no_terminal() -> None:
    """Texts of cases stand in a table without what a terminal would obey."""
    text = text_of(pd.DataFrame({"key": ["a\x1b[31m\u202e", None], "rate": [0.5, float("nan")]}))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "0.500" in text


def test_several_sets_in_one_snapshot_are_not_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who gives a folder of snapshots to be served is told what to give instead."""
    for name in ("a", "b"):
        source = ck.Source(test_sets=((f"acme.{name}", "1.0.0"),))
        ck.write_snapshot(ck.CaseSet(empty_tables(), source), tmp_path / name)
    assert main(["serve", str(tmp_path)]) == 1
    assert "is not of one test set: give a snapshot of each" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["info", "verify"])
def test_what_a_snapshot_is_as_json(
    command: str, drafts: tuple[LocalServer, Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """With --json a program can read what the manifest says."""
    _, now, _ = drafts
    assert main([command, str(now), "--json"]) == 0
    found = printed(capsys)
    assert found["test_sets"] == [{"test_set_id": "acme.drafts", "version": "1.0.0"}]
    assert found["files"]["items.parquet"]["rows"] == 3
    assert found["folder"] == str(now)


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["pull", "mt-bench.pairwise"], "ID@VERSION"),
        (["pull", "mt-bench.pairwise@1.0"], "of the form 1.2.3"),
        (["pull", "acme.nobody@1.0.0"], "not found"),
        (["verify", "no-such-folder"], "does not exist"),
        (["info", "."], "no snapshot"),
    ],
)
def test_an_error_is_one_line_and_exit_code_1(
    arguments: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad input ends with a sentence on stderr, no traceback and exit code 1."""
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert says in error
    assert error.startswith("casekit: ")
    assert error.count("\n") == 1


def test_without_settings_the_error_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No address and no token are errors that name the variable to set."""
    monkeypatch.delenv("CASEKIT_URL", raising=False)
    monkeypatch.delenv("CASEKIT_TOKEN", raising=False)
    assert main(["pull", "a@1.0.0"]) == 1
    assert "CASEKIT_URL" in capsys.readouterr().err
    monkeypatch.setenv("CASEKIT_URL", "http://127.0.0.1:9")
    assert main(["pull", "a@1.0.0"]) == 1
    assert "CASEKIT_TOKEN" in capsys.readouterr().err


@pytest.mark.usefixtures("settings")
def test_a_wrong_token_is_told_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A refused token is an error that does not repeat the token."""
    monkeypatch.setenv("CASEKIT_TOKEN", "not-the-token")
    assert main(["pull", "mt-bench.pairwise@1.0.0", "--into", str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert "401" in error
    assert "not-the-token" not in error


@pytest.mark.parametrize(
    "arguments",
    [
        *([], ["nonsense"], ["pull"], ["verify"], ["serve", "--port", "x"]),
        *(["pull", "acme.a@1.0.0", "--max-age", hours] for hours in ("x", "nan", "inf", "1e300")),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """What argparse refuses ends the process with 2."""
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_a_look_at_a_snapshot_needs_no_http(drafts: tuple[LocalServer, Path, Path]) -> None:
    """A command that asks no server imports neither httpx nor pydantic."""
    code = (
        "import sys; from casekit.cli import main; main(['verify', sys.argv[1]]); "
        "print([n for n in ('httpx', 'pydantic', 'matplotlib') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(drafts[1])], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_command_has_help_and_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    """Each command says what it does and shows how it is called."""
    (commands,) = (a for a in parser()._actions if a.dest == "command")
    assert commands.choices is not None
    for name in commands.choices:
        with pytest.raises(SystemExit) as stop:
            main([str(name), "--help"])
        assert stop.value.code == 0
        assert f"example: casekit {name}" in capsys.readouterr().out


def test_demo_runs_the_main_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The demo pulls, keeps, verifies, reads back, prints the known figures and draws two plots."""
    assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
    out = capsys.readouterr().out
    assert "1,814 cases" in out
    assert re.search(r"coding +0\.597 +0\.520 +0\.669 +185 +295", out)
    for name in ("yes_rates.png", "weights.png"):
        assert (tmp_path / "demo" / name).read_bytes().startswith(b"\x89PNG")


def test_serve_serves_pages_and_snapshots_until_it_is_stopped(tmp_path: Path, server: LocalServer) -> None:
    """A served snapshot gives the cases it was made of, and Ctrl-C ends the process."""
    with ck.Client(server.url, token=server.token) as client:
        cases = ck.load_test_set("mt-bench.pairwise", "1.0.0", client=client)
    ck.write_snapshot(cases, tmp_path / "snapshot")
    command = [sys.executable, "-m", "casekit", "serve", str(tmp_path / "snapshot")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "serving mt-bench.pairwise 1.0.0: 1,814 cases\n"
        url, token = re.findall(r"=(\S+)", process.stdout.readline())
        with ck.Client(url, token=token) as client:
            again = ck.load_test_set("mt-bench.pairwise", "1.0.0", client=client)
        process.send_signal(2)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert list(again.documents()) == list(cases.documents())


def test_a_closed_pipe_ends_quietly(tmp_path: Path) -> None:
    """Output into a reader that has left ends without a traceback."""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    command = f"{sys.executable} -m casekit --help | true"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, env=environment, check=False)
    assert "Traceback" not in done.stderr


def test_expected_figures_of_the_example_data_are_shipped() -> None:
    """The example's own expected figures lie beside its pages."""
    expected = json.loads((sample.pages_folder() / "expected.json").read_text(encoding="utf-8"))
    assert expected["cases"] == 1814


@pytest.mark.usefixtures("settings")
def test_cases_add_and_retire(server: LocalServer, capsys: pytest.CaptureFixture[str]) -> None:
    """A case is shown before it is sent, added, listed and retired; a second retirement is an error."""
    server.add_run("acme.drafting", "run-1", version="1.4.0", output={"text": "done"})
    add = ["add", "acme.drafting", "run-1", "--decisions", "wrong", "--should-call", 'find={"id": 7}']
    assert main([*add, "--dry-run"]) == 0
    assert "nothing was sent" in capsys.readouterr().out
    assert main(["cases", "acme.drafting"]) == 0
    assert "case-" not in capsys.readouterr().out
    assert main(add) == 0
    (case_id,) = re.findall(r"added: (case-[^,]+),", capsys.readouterr().out)
    assert main(["cases", "acme.drafting"]) == 0
    assert case_id in capsys.readouterr().out
    retire = ["retire", "acme.drafting", case_id, "--reason", "the tool was removed"]
    assert main([*retire, "--dry-run"]) == 0
    assert "nothing was sent" in capsys.readouterr().out
    assert main(retire) == 0
    assert f"retired: {case_id}" in capsys.readouterr().out
    assert main(retire) == 1
    assert "test-case-retired" in capsys.readouterr().err


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["add", "acme.drafting", "run-1"], "at least one"),
        (["add", "acme.drafting", "run-1", "--decisions", "wrong", "--should-call", "find=7"], "should_call.0.args"),
        (["add", "acme.drafting", "run-1", "--item", "a=perhaps"], "verdict"),
        (["retire", "acme.drafting", "case-0", "--reason", ""], "reason"),
        (["cases", "acme.drafting", "--project", "x"], "UUID"),
    ],
)
def test_a_write_that_breaks_a_rule_is_not_sent(
    server: LocalServer, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A broken rule is named, and no request goes out."""
    before = len(server.requests)
    assert main(arguments) == 1
    assert says in capsys.readouterr().err
    assert len(server.requests) == before
