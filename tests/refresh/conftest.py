"""Servers whose lists change, and what is looked at in the folders of snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cases.player import Player
from client.pages import QUICK, TOKEN, Spec, refusal

import casekit as ck
from casekit import files
from casekit.change import SnapshotChange
from casekit.loaders import folder_name

REF = ("acme.demo", "1.0.0")
PATH = "/v1/test-sets/acme.demo/versions/1.0.0/cases"


class Shelf:
    """A server that lists what it is given, page by page, until it is given something else."""

    def __init__(self, stack: ExitStack) -> None:
        self._specs: list[Spec] = []
        player = Player({"responses": self._specs}, Path())
        stack.enter_context(player)
        self._player = player
        self.client = stack.enter_context(ck.Client(player.url, token=TOKEN, retry=QUICK))

    def put(
        self, cases: list[dict[str, Any]], *, pages: int = 1, path: str = PATH, fails_at: int | None = None
    ) -> None:
        """List these cases on so many pages from now on; where told to, a page is refused."""
        specs = []
        size = -(-len(cases) // pages) or 1
        for number in range(pages):
            body: dict[str, Any] = {"data": cases[number * size : (number + 1) * size], "hasMore": number + 1 < pages}
            body |= {"nextCursor": f"p{number + 1}"} if number + 1 < pages else {}
            when = {"path": path, **({"query": {"cursor": f"p{number}"}} if number else {"no_query": ["cursor"]})}
            answer = refusal(403, "permission-denied") if number == fails_at else {"body_json": body}
            specs.append({"when": when, "times": "*", **answer})
        origin = self._player.origins["main"]
        origin.used.clear()
        origin.specs[:] = specs

    def refuse_cursor_once(self) -> None:
        """Take the next cursor for expired."""
        when = {"query": {"cursor": "p1"}}
        self._player.origins["main"].used.clear()
        self._player.origins["main"].specs.insert(0, {"when": when, "times": 1, **refusal(400, "bad-input")})

    def requests(self) -> int:
        """How many requests came so far."""
        return len(self._player.requests)


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    """A server whose list a test changes."""
    with ExitStack() as stack:
        yield Shelf(stack)


@pytest.fixture(scope="session")
def shelf_of() -> Iterator[Callable[[], Shelf]]:
    """One such server for all examples of a property."""
    with ExitStack() as stack:
        shelf = Shelf(stack)
        yield lambda: shelf


@pytest.fixture(params=["exchange", "two steps"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways of swapping: in one step where the system can, in two where it cannot."""
    if request.param == "two steps":
        monkeypatch.setattr(files, "exchanged", lambda one, other: False)
    way: str = request.param
    return way


@pytest.fixture
def api() -> Iterator[tuple[ck.LocalServer, ck.Client]]:
    """The local server, and a client of it."""
    with ck.LocalServer() as server, ck.Client(server.url, token=server.token) as client:
        yield server, client


def state(folder: Path) -> dict[str, bytes]:
    """Every byte below a folder, by name, hidden files among them."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def bytes_of() -> Callable[[Path], dict[str, bytes]]:
    """Give every byte below a folder."""
    return state


def pulled(client: ck.Client, into: Path) -> Path:
    """The snapshot of the test set, pulled anew."""
    ck.pull([REF], into=into, client=client, max_age=timedelta(0))
    return into / folder_name(*REF)


def sorts(change: SnapshotChange) -> dict[str, Any]:
    """What happened to the cases."""
    return {name: getattr(change, name) for name in ("added", "changed", "erased", "gone", "unchanged")}


def counts(**given: Any) -> dict[str, Any]:
    """What `sorts` gives where nothing else happened."""
    return {"added": (), "changed": (), "erased": (), "gone": (), "unchanged": 0, **given}
