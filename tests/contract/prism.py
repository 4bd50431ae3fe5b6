"""Drive every route and every error of the contract through Prism, which checks both ends of each exchange.

``python tests/contract/prism.py`` installs Prism with npm into ``build/prism`` and starts it between a `casekit.Client`
and a `casekit.LocalServer`. A request of the client or an answer of the server that the contract does not have is
listed, and the exit code is 1.
"""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import casekit as ck
from casekit.documents import AgentCase
from casekit.errors import ApiError, CasekitError

PRISM = "@stoplight/prism-cli@5.14.2"
ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "prism"
CONTRACT = Path(__file__).with_name("openapi.yaml")
AGENT, PROJECT = "acme.drafting", "00000000-0000-4000-8000-000000000001"
START_SECONDS = 60.0  # that Prism may take to listen
ONCE = ck.Retry(attempts=1)
BROKEN = "acme.broken"  # a test set that is at odds with the contract, to see that Prism sees it


def main() -> int:
    """Run all steps, and say what is at odds with the contract."""
    with ck.LocalServer() as server, prism(server.url) as (url, log):
        fill(server)
        steps = list(all_steps(server, url))
        failed = [f"{name}: {problem}" for name, step in steps if (problem := outcome(step))]
        time.sleep(0.5)  # the log's last lines may still be on their way
    told = [line for line in log if "terminated with error" in line and BROKEN not in line]
    if not any("terminated with error" in line and BROKEN in line for line in log):
        failed.append("Prism let through a case without its output: it checks nothing")
    for line in failed + told:
        sys.stderr.write(f"{line}\n")
    sys.stdout.write(f"{len(steps)} steps, {len(failed)} failed, {len(told)} violations\n")
    return 1 if failed or told else 0


def outcome(step: Callable[[], str | None]) -> str | None:
    """What is wrong with a step."""
    try:
        return step()
    except CasekitError as error:
        return f"{type(error).__name__}: {error}"


def all_steps(server: ck.LocalServer, url: str) -> Iterator[tuple[str, Callable[[], str | None]]]:
    """Every route with its good answer, then every error."""
    client = ck.Client(url, token=server.token)
    once = ck.Client(url, token=server.token, retry=ONCE)
    reader = ck.Client(url, token=server.add_token(caller_id="reader-1", can_write=False), retry=ONCE)
    unknown = ck.Client(url, token="no-token-of-the-server", retry=ONCE)

    def good(work: Callable[[], Any], wanted: Any) -> Callable[[], str | None]:
        def step() -> str | None:
            got = work()
            return None if got == wanted else f"gave {got!r}, not {wanted!r}"

        return step

    def error(work: Callable[[], Any], status: int, code: str) -> Callable[[], str | None]:
        def step() -> str | None:
            try:
                work()
            except ApiError as refused:
                got = (refused.status, refused.code)
                return None if got == (status, code) else f"answered {got}, not {(status, code)}: {refused}"
            return f"was not refused with {(status, code)}"

        return step

    def failing(status: int, code: str, work: Callable[[], Any]) -> Callable[[], str | None]:
        def step() -> str | None:
            server.fail_next(status, code, retry_after=1)
            return error(work, status, code)()

        return step

    def frozen(of: ck.Client = client, name: str = "acme.set", version: str = "1.2.0") -> int:
        return len(ck.load_test_set(name, version, client=of, progress=False))

    def live(of: ck.Client = client, agent: str = AGENT, project: str | None = None) -> int:
        return len(ck.load_agent_cases(agent, project, client=of, progress=False))

    def add(of: ck.Client = client, run: str = "run-1", agent: str = AGENT, **case: Any) -> str:
        added: AgentCase = of.add_case(agent, run, **(case or {"decisions": "right"}))
        return added.run_id

    def retire(case: str, of: ck.Client = client) -> bool:
        return of.retire_case(AGENT, case, reason="no longer applies").retired is not None

    wrong: dict[str, Any] = {"decisions": "wrong", "should_call": [{"tool": "find", "args": {"id": 2**60}}]}
    verdicts = [{"key": "m-1", "verdict": "right", "pointer": "/matches/0", "rank": 0}]
    yield "list a test set", good(frozen, 150)
    yield "list a test set whose cases have every part", good(lambda: frozen(name="acme.full"), 2)
    yield "list an empty test set", good(lambda: frozen(name="acme.empty"), 0)
    yield "list an agent's cases", good(live, 130)
    yield "list a project's cases", good(lambda: live(project=PROJECT), 130)
    yield "list another project's cases", good(lambda: live(project=str(uuid.UUID(int=5, version=4))), 0)
    yield "add right decisions", good(add, "run-1")
    yield "add wrong decisions", good(lambda: add(**wrong, must_not_call=["delete"]), "run-1")
    yield "add a call without arguments", good(lambda: add(decisions="wrong", should_call=[{"tool": "find"}]), "run-1")
    yield "add a wrong answer", good(lambda: add(answer="wrong", should_say="yes", why="it was no"), "run-1")
    yield "add items", good(lambda: add(items=verdicts), "run-1")
    yield "add everything", good(lambda: add(**wrong, answer="right", items=verdicts), "run-1")
    yield "list what was added", good(live, 136)
    yield "retire", good(lambda: retire("cor-1"), True)
    yield "retire a case whose id needs encoding", good(lambda: retire("cor/é 2?"), True)
    yield "list what was retired", good(live, 136)

    yield "a test set that is not there", error(lambda: frozen(name="acme.none"), 404, "test-set-not-found")
    yield "a version that is not there", error(lambda: frozen(version="9.9.9"), 404, "version-not-found")
    yield "an agent that is not there", error(lambda: live(agent="acme.none"), 404, "agent-not-found")
    yield "a run that is not there", error(lambda: add(run="run-none"), 404, "run-not-found")
    yield "a case that is not there", error(lambda: retire("cor-none"), 404, "test-case-not-found")
    yield "a run of another agent", error(lambda: add(run="run-other"), 400, "bad-input")
    yield (
        "a pointer to nothing",
        error(lambda: add(items=[verdicts[0] | {"pointer": "/matches/9"}]), 400, "item-not-found"),
    )
    yield "a run that has not finished", error(lambda: add(run="run-open"), 409, "run-not-finished")
    yield "a run that was erased", error(lambda: add(run="run-erased"), 410, "run-erased")
    yield "a case that was retired", error(lambda: retire("cor-1"), 409, "test-case-retired")
    yield "a body that is too large", error(lambda: add(answer="wrong", why="x" * 1_100_000), 413, "request-too-large")
    yield "a list with an unknown token", error(partial(frozen, unknown), 401, "unauthorized")
    yield "an agent's list with an unknown token", error(partial(live, unknown), 401, "unauthorized")
    for name, of, status, code in [
        ("an unknown token", unknown, 401, "unauthorized"),
        ("a token that may read", reader, 403, "permission-denied"),
    ]:
        yield f"an addition with {name}", error(partial(add, of), status, code)
        yield f"a retirement with {name}", error(partial(retire, "cor-3", of), status, code)
    lists: dict[str, Callable[[], Any]] = {"test set": partial(frozen, once), "agent's list": partial(live, once)}
    for what, work in lists.items():
        yield f"busy {what}", failing(503, "database-busy", work)
    writes: dict[str, Callable[[], Any]] = {
        "addition": partial(add, once),
        "retirement": partial(retire, "cor-4", once),
    }
    for what, work in writes.items():
        yield f"no key store: {what}", failing(503, "idempotency-store-unavailable", work)
        yield f"failing {what}", failing(500, "internal", work)
        yield f"{what} whose key is in flight", failing(409, "idempotency-key-in-flight", work)

    yield "a case that is at odds with the contract", failing_case(lambda: frozen(once, BROKEN))

    def twice() -> int:
        server.delay_next(0.5, method="POST")
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: add(why="once", answer="wrong"), range(2)))
        return live()

    yield "the same addition twice at a time, done once", good(twice, 137)


def failing_case(work: Callable[[], Any]) -> Callable[[], str | None]:
    """A step in which Prism answers in the server's place."""

    def step() -> str | None:
        try:
            work()
        except ApiError as refused:
            return None if (refused.status, refused.code) == (500, None) else f"answered otherwise: {refused}"
        return "was let through"

    return step


def fill(server: ck.LocalServer) -> None:
    """Give the server what the steps need."""
    subject = {"kind": "agent", "id": AGENT, "version": "1.4.0"}
    plain = {"subject": subject, "input": "in", "output": "out", "items": []}
    server.add_test_set("acme.set", "1.2.0", [{"caseId": f"case-{n}", **plain} for n in range(150)])
    server.add_test_set("acme.empty", "1.2.0", [])
    server.add_test_set(BROKEN, "1.2.0", [{"caseId": "case-1", "subject": subject, "input": 1, "items": []}])
    call = {"runId": "r", "nodeId": "n", "scope": "0", "toolId": "t", "arguments": {}, "result": 1, "fromEvent": True}
    step = {"runId": "r", "nodeId": "n", "scope": "0", "agentId": AGENT, "agentVersion": "1", "retrieved": [0]}
    weights = {"yesWeight": 2.5, "totalWeight": 4}
    item = {"key": "m-1", "pointer": "/m/0", "rank": 0, "yes": 1, "no": 1, **weights, "expert": weights}
    reason = {"verdict": "yes", "reason": "fits", "correctorGroupId": "g", "expert": True}
    wanted = [{"tool": "t", "args": {"id": 1}}]
    full = plain | {
        "caseId": "full",
        "runId": "run-1",
        "context": {
            "history": [1, "a", None],
            "historyTruncated": True,
            "retrieved": None,
            "recalled": [],
            "sessionApproval": {"approved": False, "rationale": "not yet"},
            "flow": {"calls": [call], "steps": [step], "truncated": True},
            "toolEnv": {"t": {"REGION": "eu"}},
            "replayOf": "run-0",
        },
        "segments": [{"key": "company", "value": "acme"}],
        "items": [item | {"correctionIds": ["cor-1"], "reasons": [reason]}],
        "corrections": [{"correctionId": "cor-1", "correctorGroupId": "g", "calls": wanted, "notCalled": ["d"]}],
        "expect": {
            "decisions": {"verdict": "wrong", "shouldCall": wanted, "mustNotCall": ["d"]},
            "answer": {"verdict": "wrong", "shouldSay": "a", "why": "b"},
            "items": [{"key": "m-1", "pointer": "/m/0", "rank": 0, "verdict": "right"}],
        },
        "expert": True,
    }
    server.add_test_set("acme.full", "1.2.0", [full, full | {"caseId": "gone", "runId": "run-2"}])
    server.erase_case("gone")
    server.add_run(AGENT, "run-1", version="1.4.0", output={"matches": [{"id": "m-1"}]})
    server.add_run("acme.other", "run-other")
    server.add_run(AGENT, "run-open", finished=False)
    server.add_run(AGENT, "run-erased", output=1, erased=True)
    when, who = "2026-03-01T09:00:00Z", {"kind": "user", "id": "reviewer-1"}
    case = {
        "kind": "correction",
        "projectId": PROJECT,
        "madeOn": "1.4.0",
        "expect": {"decisions": {"verdict": "right"}},
    }
    for name in [f"cor-{n}" for n in range(129)] + ["cor/é 2?"]:
        added = {"id": name, "runId": "run-1", "addedBy": who, "addedAt": when, "updatedAt": when}
        server.add_agent_case(AGENT, case | added)


@contextmanager
def prism(upstream: str) -> Iterator[tuple[str, list[str]]]:
    """Prism before a server: its address, and the lines of its log."""
    program = FOLDER / "node_modules" / ".bin" / "prism"
    if not program.exists():
        npm = shutil.which("npm")
        if npm is None:
            raise SystemExit("Prism needs Node.js and npm: install them first")
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / "package.json").write_text("{}\n", encoding="utf-8")
        subprocess.run([npm, "install", "--no-audit", "--no-fund", "--silent", PRISM], cwd=FOLDER, check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(program), "proxy", str(CONTRACT), upstream, "--errors", "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8")
    assert process.stdout is not None
    log: list[str] = []
    listening = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            log.append(re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip())
            if "is listening" in line:
                listening.set()
        listening.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        if not listening.wait(START_SECONDS) or process.poll() is not None:
            raise SystemExit("Prism did not start:\n" + "\n".join(log))
        yield f"http://127.0.0.1:{port}", log
    finally:
        process.terminate()
        process.wait(10)
        reader.join(10)
        process.stdout.close()


if __name__ == "__main__":
    raise SystemExit(main())
