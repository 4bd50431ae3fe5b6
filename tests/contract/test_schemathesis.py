"""The local server keeps to the contract, as a tool sees it that knows nothing but ``openapi.yaml``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from casekit.server import LocalServer

HERE = Path(__file__).parent
TOKEN = "contract-token"
# Requests that keep to the schemas are refused all the same: a made-up cursor is no cursor of the server, and the rules
# between the members of a new case stand in prose alone.
LEFT_OUT = "positive_data_acceptance"


def case(case_id: str) -> dict[str, Any]:
    """Return a case that has the required members alone."""
    subject = {"kind": "agent", "id": "acme.drafting", "version": "1.4.0"}
    return {"caseId": case_id, "subject": subject, "input": "in", "output": None, "items": []}


def check(server: LocalServer, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run schemathesis over the whole contract, the same way each time; it leaves files in the folder."""
    command = [sys.executable, "-m", "schemathesis.cli", "--no-color", "--config-file", str(HERE / "schemathesis.toml")]
    command += ["run", str(HERE / "openapi.yaml"), "--url", server.url, "-H", f"Authorization: Bearer {TOKEN}"]
    command += ["--generation-deterministic", "--exclude-checks", LEFT_OUT, *options]
    hooks = {"PYTHONPATH": str(HERE), "SCHEMATHESIS_HOOKS": "schemathesis_hooks", "NO_PROXY": "*"}
    return subprocess.run(command, env=os.environ | hooks, cwd=folder, capture_output=True, text=True, timeout=180)


@pytest.fixture
def server() -> Any:
    """Return a server with a list of two pages and more, and a run that can be a case."""
    with LocalServer(token=TOKEN) as running:
        running.add_test_set("acme.set", "1.2.0", [case(f"case-{number}") for number in range(120)])
        running.add_run("acme.drafting", "run-1", output={"matches": [{"id": "m-1"}]})
        yield running


def test_no_request_shows_the_server_at_odds_with_the_contract(server: LocalServer, tmp_path: Path) -> None:
    """Hundreds of requests, sound and broken, on every route: each answer is one that the contract has."""
    found = check(server, tmp_path, "--max-examples", "40")
    assert found.returncode == 0, found.stdout + found.stderr
    answers = {(request.method, request.status) for request in server.requests}
    assert answers >= {("GET", 200), ("GET", 400), ("GET", 401), ("POST", 200), ("POST", 201), ("POST", 400)}
    assert answers >= {("POST", 401), ("POST", 404), ("POST", 409)}
    assert not any(status is not None and status >= 500 for _, status in answers)


def test_an_answer_at_odds_with_the_contract_is_found(server: LocalServer, tmp_path: Path) -> None:
    """A case without its output is no case of the contract, and the check says so."""
    broken = case("case-0")
    del broken["output"]
    options = ["--include-operation-id", "listTestSetCases", "--max-examples", "10", "--phases", "fuzzing"]
    before = check(server, tmp_path, *options)
    assert before.returncode == 0, before.stdout + before.stderr
    with LocalServer(token=TOKEN) as other:
        other.add_test_set("acme.set", "1.2.0", [broken])
        found = check(other, tmp_path, *options)
    assert found.returncode == 1
    assert "'output' is a required property" in found.stdout or '"output" is a required property' in found.stdout
