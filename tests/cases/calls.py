"""Does what a case's ``client`` asks for, and keeps everything that a person could see of it."""

from __future__ import annotations

import json
import logging
import os
import time
import traceback
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import casekit as ck
from casekit.documents import AgentCase
from casekit.loaders import folder_name

LISTED = ("testSetId", "version", "file", "target", "reason", "caseId")  # a list of these means: once for each
OPERATIONS = {"list_cases", "snapshot_cases", "read_snapshot", "parse_test_cases", "retire_case", "add_case"}
KNOWN = {"op", "token", "agentId", "runId", "limit", "timeout_s", "total_timeout_s", "env", *LISTED}


@dataclass
class Outcome:
    """What one call came to."""

    value: ck.CaseSet | AgentCase | None = None
    error: BaseException | None = None
    seconds: float = 0.0
    logs: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    growth_mib: float = 0.0  # of the process's memory at its highest

    @property
    def cases(self) -> ck.CaseSet:
        """The cases of a call that gave some."""
        if self.error is not None:
            raise AssertionError(f"expected cases, got {self.error!r}") from self.error
        assert isinstance(self.value, ck.CaseSet)
        return self.value

    def shown(self) -> str:
        """Every text that the call has shown or could show."""
        texts = [*self.logs, *self.warned]
        if self.error is not None:
            trace = self.error.__traceback__
            while trace is not None and "/tests/" in trace.tb_frame.f_code.co_filename:
                trace = trace.tb_next  # the test's own frames hold the token
            rendered = traceback.TracebackException(type(self.error), self.error, trace, capture_locals=True)
            texts += [
                str(self.error),
                repr(self.error),
                repr(self.error.args),
                repr(vars(self.error)),
                *rendered.format(),
            ]
        elif isinstance(self.value, ck.CaseSet):
            texts += [repr(self.value), self.value._repr_html_(), str(self.value.report), repr(self.value.source)]
            texts += [repr(self.value.report)]
        else:
            texts += [repr(self.value)]
        return "\n".join(texts)


def single_calls(client: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The calls that a case asks for, by what tells them apart."""
    for name in LISTED:
        if isinstance(client.get(name), list):
            return {str(one): {**client, name: one} for one in client[name]}
    return {"": dict(client)}


def wrapped(serve: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """A bare array of test cases as a page of the agent's list."""
    responses = []
    for spec in serve["responses"]:
        array = (folder / spec["body_file"]).read_text() if "body_file" in spec else json.dumps(spec["body_json"])
        rest = {name: value for name, value in spec.items() if name not in ("body_file", "body_json")}
        responses.append({**rest, "body_text": f'{{"data":{array},"hasMore":false}}'})
    return {**serve, "responses": responses}


def perform(call: Mapping[str, Any], url: str, into: Path, files: Path) -> Outcome:
    """Do one call; whatever it raises is kept. ``files`` is where the files beside the case lie."""
    unknown = call.keys() - KNOWN - set(_EXPECTED.values())
    if call["op"] not in OPERATIONS or unknown:
        raise LookupError(f"nobody knows how to do {call['op']!r} with {sorted(unknown)}")
    outcome = Outcome()
    outside = call.get("env", {})
    handler = _Keeper(outcome.logs)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    before, began = _peak_mib(afresh=True), time.monotonic()
    try:
        with warnings.catch_warnings(record=True) as caught, mock.patch.dict(os.environ, outside):
            warnings.simplefilter("always")
            retry = ck.Retry(budget=call["total_timeout_s"]) if "total_timeout_s" in call else None
            with ck.Client(url, token=call["token"], timeout=call.get("timeout_s", 30.0), retry=retry) as client:
                outcome.value = _done(call, client, into, files)
    except BaseException as error:
        outcome.error = error
    finally:
        outcome.seconds = time.monotonic() - began
        outcome.growth_mib = _peak_mib() - before
        root.removeHandler(handler)
        root.setLevel(level)
    outcome.warned = [str(one.message) for one in caught]
    return outcome


def _peak_mib(*, afresh: bool = False) -> float:
    """The most memory that the process has had, since the last look afresh where the system lets one look so."""
    if afresh:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
    with suppress(OSError):
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    return 0.0


def _done(call: Mapping[str, Any], client: ck.Client, into: Path, files: Path) -> ck.CaseSet | AgentCase:
    match call["op"]:
        case "list_cases":
            return ck.load_test_set(call["testSetId"], call["version"], client=client)
        case "snapshot_cases" if "target" in call:
            ck.write_snapshot(
                ck.load_test_set(call["testSetId"], call["version"], client=client), into / call["target"]
            )
            return ck.read_snapshot(into / call["target"])
        case "snapshot_cases":
            ck.pull([(call["testSetId"], call["version"])], into=into, client=client)
            return ck.read_snapshot(into / folder_name(call["testSetId"], call["version"]))
        case "read_snapshot":
            return ck.read_snapshot(files / call["file"])
        case "parse_test_cases":
            return ck.load_agent_cases(call["agentId"], client=client)
        case "retire_case":
            return client.retire_case(call["agentId"], call["caseId"], reason=call["reason"])
        case "add_case":
            expected = {name: call[key] for name, key in _EXPECTED.items() if key in call}
            added: AgentCase = client.add_case(call["agentId"], call["runId"], **expected)
            return added
        case other:
            raise AssertionError(f"nobody knows how to do {other}")


_EXPECTED = {
    "decisions": "decisions",
    "should_call": "shouldCall",
    "must_not_call": "mustNotCall",
    "answer": "answer",
    "should_say": "shouldSay",
    "why": "why",
    "items": "items",
}


class _Keeper(logging.Handler):
    """Keeps log records as they would be printed."""

    def __init__(self, kept: list[str]) -> None:
        super().__init__(logging.DEBUG)
        self.kept = kept

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append(self.format(record))
