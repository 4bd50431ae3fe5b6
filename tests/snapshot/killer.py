"""Writes snapshots in children and kills them: one order a line comes in, one answer a line goes out.

casekit is imported once and forked for each order, so that nearly all of a child's life is the writing.

First line: two lists of case documents, the states to write. Then orders::

    target  the folder to write                      way    "exchange", "two steps", or "removed first": a wrong one
    state   0 or 1, which of the two to write        again  how often to write, the states in turn
    url, token   of a server to pull from instead of writing a state
    mark    kill after this mark: 1 the work starts, 2 the swap starts; 0 is never, and 3 is when all is done
    delay   seconds from the mark to the kill

An answer says whether the child was killed, its exit status, and the seconds from mark to mark.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from casekit import files
from casekit.caseset import CaseSet
from casekit.client import Client
from casekit.loaders import pull
from casekit.report import PullReport
from casekit.snapshot import write_snapshot
from casekit.source import Source
from casekit.wire import Reader, joined

REF: Final = ("acme.a", "1.0.0")
WHEN: Final = datetime(2025, 1, 2, tzinfo=UTC)
PAUSE: Final = 0.0003  # seconds from the second mark to the swap, and after a rename, so that kills come there too

exchange, rename = files.exchanged, os.rename


def made(documents: list[dict[str, Any]]) -> CaseSet:
    """The cases of a state."""
    report = PullReport()
    page = json.dumps({"data": documents, "hasMore": False}).encode()
    return CaseSet(joined(Reader.corrections(*REF, report).groups([page])), Source((REF,), fetched_at=WHEN), report)


def removed_first(staging: Path, target: Path) -> bool:
    """A swap as it must not be: between its steps there is no snapshot at all."""
    shutil.rmtree(target)
    os.rename(staging, target)
    staging.mkdir()
    return True


WAYS = {"exchange": exchange, "two steps": lambda staging, target: False, "removed first": removed_first}


def work(order: dict[str, Any], states: list[CaseSet], marks: int) -> None:
    """What a child does."""

    def swap(one: Path, other: Path) -> bool:
        os.write(marks, b"2")
        time.sleep(PAUSE)
        return WAYS[order["way"]](one, other)

    def slow(one: Path, other: Path) -> None:
        rename(one, other)
        time.sleep(PAUSE)

    files.exchanged = swap
    setattr(os, "rename", slow)  # noqa: B010 -- a plain assignment is none to the type checker
    os.write(marks, b"1")
    if "url" in order:
        with Client(order["url"], token=order["token"]) as client:
            pull([REF], into=Path(order["target"]).parent, client=client, progress=False)
        return
    for n in range(order.get("again", 1)):
        cases = states[(order["state"] + n) % 2]
        dated = CaseSet(cases.tables, replace(cases.source, fetched_at=WHEN + timedelta(n)), cases.report)
        write_snapshot(dated, order["target"])


def obey(order: dict[str, Any], states: list[CaseSet]) -> dict[str, Any]:
    """Start a child, kill it where the order says so, and tell how it ended."""
    seen, marks = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work(order, states, marks)
            os.write(marks, b"3")
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(marks)
    times = []
    for _ in range(order["mark"] or 3):
        os.read(seen, 1)  # or nothing, once the child is gone
        times.append(time.perf_counter())
    if order["mark"]:
        time.sleep(order["delay"])
        os.kill(child, signal.SIGKILL)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(seen)
    return {"ended": ended, "killed": ended == -signal.SIGKILL, "seconds": [b - a for a, b in pairwise(times)]}


def main() -> None:
    """Take orders until there are no more."""
    states = [made(documents) for documents in json.loads(sys.stdin.readline())]
    with tempfile.TemporaryDirectory() as folder:
        write_snapshot(states[0], Path(folder) / "s")  # what is loaded at the first writing is loaded here
    gc.freeze()  # a child's collections need not copy what they share with this process
    for line in sys.stdin:
        sys.stdout.write(json.dumps(obey(json.loads(line), states)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
