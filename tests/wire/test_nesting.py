"""How deep free JSON may nest: a limit of casekit's own, the same on every stack."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from documents_strategy import Document, page

from casekit.errors import LimitError
from casekit.report import BadCase, OnError, PullReport
from casekit.wire.roads import Batch, read_page
from casekit.wire.structs import Case
from casekit.wire.text import is_deep, without_depth


def read(text: bytes, on_error: OnError = "raise") -> tuple[Batch, PullReport]:
    """Read one page."""
    batch, report = Batch(), PullReport()
    read_page(text, Case, batch, report, on_error=on_error)
    return batch, report


def body(*documents: Document) -> bytes:
    """A page of cases; members replace those of a plain case."""
    subject = {"kind": "agent", "id": "acme.a", "version": "1.0.0"}
    plain: Document = {"caseId": "case-1", "subject": subject, "input": None, "output": None, "items": []}
    return page([{**plain, **document} for document in documents])


def nested(depth: int, opening: str = "[", closing: str = "]") -> str:
    """JSON text that nests so deep."""
    return opening * depth + ("1" if ":" in opening else "") + closing * depth


@pytest.mark.parametrize("opening_closing", [("[", "]"), ('{"a":', "}")])
def test_how_deep_json_may_nest(opening_closing: tuple[str, str]) -> None:
    """Free JSON of 500 levels is read, and of 501 is refused by a limit that names case and field."""
    text = body({"output": "O"})
    batch, _ = read(text.replace(b'"O"', nested(500, *opening_closing).encode()))
    assert bytes(batch.cases[0].output).decode() == nested(500, *opening_closing)
    assert is_deep(nested(501, *opening_closing).encode())


@pytest.mark.parametrize("depth", [990, 5_000, 200_000])
@pytest.mark.parametrize("member", ["output", "new", "retrieved"])
def test_deeper_json_is_refused_however_deep(depth: int, member: str) -> None:
    """A value beyond what the decoder can recurse into is refused with its case, and the others are read."""
    good: Document = {"caseId": "good"}
    bad: Document = {"caseId": "bad", **({"context": {member: "O"}} if member == "retrieved" else {member: "O"})}
    text = body(good, bad).replace(b'"O"', nested(depth).encode())
    path = "/context/retrieved" if member == "retrieved" else f"/{member}"
    if depth > 900:  # on the careful road; a shallower one is found when tables are made
        with pytest.raises(LimitError, match=rf"case 'bad', field {path}: nests deeper than 500 levels"):
            read(text.replace(b'"hasMore":false', b'"hasMore":false,"new":1'))
    batch, report = read(text.replace(b'"hasMore":false', b'"hasMore":false,"new":1'), "report")
    assert [case.caseId for case in batch.cases] == ["good"]
    assert report.bad_cases == [BadCase("bad", path, "nests deeper than 500 levels")]


def at_depth(frames: int, work: Callable[[], Any]) -> Any:
    """Work with so many frames on the stack."""
    return work() if frames == 0 else at_depth(frames - 1, work)


def test_the_limit_does_not_depend_on_the_stack_at_hand() -> None:
    """Where little of the stack is left, a page of 500 levels is read all the same, and gives the same."""
    text = body({"output": "O"}).replace(b'"O"', nested(500).encode())
    expected, _ = read(text)
    found: list[Any] = []
    limit = sys.getrecursionlimit()

    def run() -> None:
        found.append(at_depth(limit - 400, lambda: read(text)[0]))

    thread = threading.Thread(target=run)  # its stack is its own, whatever the test runner's is
    thread.start()
    thread.join()
    assert found == [expected]


def test_a_recursion_limit_that_is_too_low_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where even a new stack does not do, the error says what to set."""

    def short(*_: Any) -> None:
        raise RecursionError

    monkeypatch.setattr("casekit.wire.roads._read_carefully", short)
    with pytest.raises(LimitError, match=r"set it to 1,000 or more with sys\.setrecursionlimit"):
        read(body({"new": 1}))


def test_cutting_out_depth_keeps_the_rest() -> None:
    """What is cut out of a page leaves the cases around it byte for byte, and itself too deep still."""
    deep = nested(3_000).encode()
    text = b'{"data":[{"a":"]["},' + deep + b',{"b":"\\"]"}],"hasMore":false}'
    cut = without_depth(text)
    assert cut.startswith(b'{"data":[{"a":"]["},')
    assert cut.endswith(b',{"b":"\\"]"}],"hasMore":false}')
    assert len(cut) < 1_200
    assert is_deep(cut)
    assert without_depth(cut) == cut
