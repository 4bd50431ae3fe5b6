"""Three hundred writers killed with SIGKILL at random moments: the old snapshot stands or the new one, never less."""

from __future__ import annotations

import json
import os
import random
import re
import select
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import casekit as ck
from casekit.errors import SnapshotError
from casekit.snapshot import read_snapshot, verify_snapshot

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="children are made with fork")

Bytes = Callable[[Path], dict[str, bytes]]
Order = dict[str, Any]

SEED: Final = 20261130
KILLS: Final = {"write": 125, "pull": 25}  # of each way to swap: 300 in all


def document(case_id: str) -> dict[str, Any]:
    """A case with a row in most tables."""
    reasons = [{"verdict": "yes", "reason": f"Because of {case_id}."}]
    item = {"key": "k", "yes": 1, "no": 0, "yesWeight": 1, "totalWeight": 1, "reasons": reasons}
    context = {"history": [{"role": "user", "content": "Hello."}]}
    subject = {"kind": "agent", "id": "acme.a", "version": "1.0.0"}
    words = {"input": {"n": 1}, "output": f"Words of {case_id}.", "context": context}
    return {"caseId": case_id, "subject": subject, **words, "items": [item], "segments": [{"key": "r", "value": "s"}]}


STATES: Final = [[document(f"old-{n}") for n in range(2)], [document(f"new-{n}") for n in range(5)]]
IDS: Final = [tuple(one["caseId"] for one in documents) for documents in STATES]


class Killer:
    """The program that writes and kills."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            # Python 3.12 warns of forks beside threads: the one there is, of Arrow's allocator, minds forks itself.
            [sys.executable, "-W", "ignore::DeprecationWarning", str(Path(__file__).with_name("killer.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(Path(ck.__file__).parents[1])},
        )
        self.say(STATES)

    def say(self, order: Any) -> None:
        """Send a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def told(self) -> dict[str, Any]:
        """The answer to an order."""
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def working(self) -> bool:
        """Whether there is no answer yet."""
        assert self.process.stdout is not None
        return not select.select([self.process.stdout], [], [], 0)[0]

    def whole(self, order: Order) -> list[float]:
        """Let a child work to its end; the seconds it took to the swap, and from there on."""
        self.say({**order, "mark": 0})
        answer = self.told()
        assert answer["ended"] == 0, answer
        seconds: list[float] = answer["seconds"]
        return seconds

    def killed(self, order: Order, mark: int, delay: float) -> bool:
        """Kill a child so long after a mark; False when it was done by then."""
        self.say({**order, "mark": mark, "delay": delay})
        answer = self.told()
        assert answer["killed"] or answer["ended"] == 0, answer
        return bool(answer["killed"])


@pytest.fixture(scope="module")
def killer() -> Iterator[Killer]:
    """Start the program that writes and kills."""
    running = Killer()
    with running.process:  # closes its standard input, on which it ends
        yield running
    assert running.process.returncode == 0


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Give a folder in memory where there is one: no kill depends on the disk, and a busy disk would make all slow."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as made:
        yield Path(made)


class Campaign:
    """One folder, replaced again and again by writers that are killed.

    Parameters
    ----------
    killer, bytes_of
        The program, and what tells every byte of a folder.
    target
        The snapshot's folder.
    orders
        How to write each of the two states.
    exact
        Whether a state has the same bytes each time: one that was pulled has the hour and the requests in it.
    """

    def __init__(self, killer: Killer, bytes_of: Bytes, target: Path, orders: list[Order], *, exact: bool) -> None:
        self.killer, self.bytes_of, self.target, self.orders = killer, bytes_of, target, orders
        self.hashes: list[str] = []
        self.known: list[dict[str, bytes]] = []
        for order, ids in zip(orders, IDS, strict=True):
            self.spans = killer.whole(order)
            assert tuple(read_snapshot(target).cases["case_id"]) == ids
            self.hashes.append(verify_snapshot(target).content_hash)
            self.known.append(bytes_of(target))
        self.exact, self.stands, self.before = exact, 1, self.known[1]

    def write_whole(self) -> None:
        """Let the next writer finish: it takes away all that dead ones left."""
        self.stands = 1 - self.stands
        self.spans = self.killer.whole(self.orders[self.stands])
        self.before = self.bytes_of(self.target)
        self.check(self.before, self.stands)
        assert [path.name for path in self.target.parent.iterdir()] == [self.target.name]

    def outcome(self) -> str:
        """What a writer of the other state left when it died: the state that stands whole, or is held aside."""
        left = [path.name for path in self.target.parent.iterdir() if path != self.target]
        name = re.escape(self.target.name)
        assert all(re.fullmatch(rf"\.{name}\.(old|[0-9a-f]{{8}})\.casekit-tmp", one) for one in left), left
        if not self.target.exists():
            aside = self.target.with_name(f".{self.target.name}.old.casekit-tmp")
            assert self.bytes_of(aside) == self.before, "no snapshot stands, and none is held aside"
            return "between"
        found = self.bytes_of(self.target)
        if found == self.before:
            return "old"
        self.stands, self.before = 1 - self.stands, found
        self.check(found, self.stands)
        return "new"

    def check(self, found: dict[str, bytes], state: int) -> None:
        """What stands is the whole of a state: its verified bytes, or where those differ each time, as good."""
        if self.exact:
            known = self.known[state]
            wrong = sorted(name for name in {*found, *known} if found.get(name) != known.get(name))
            assert not wrong, f"what stands is neither the old snapshot nor the new one: {wrong}"
        else:
            assert verify_snapshot(self.target).content_hash == self.hashes[state]

    def run(self, kills: int, seed: int) -> Counter[str]:
        """Kill so many writers, and count how they left the folder."""
        chance, outcomes = random.Random(seed), Counter[str]()
        for n in range(4 * kills):
            writing, swapping = self.spans
            late = chance.random() < 0.5  # aimed at the swap and at what is taken away after it
            delay = chance.uniform(0, swapping if late else writing + swapping)
            reader, again = chance.random() < 0.5, chance.random() < 0.5
            killed = self.killer.killed(self.orders[1 - self.stands], 1 + late, delay)
            try:
                outcome = self.outcome()
                assert killed or outcome == "new", "a writer that was done in time has not written"
                if outcome == "between" and reader:  # else the next writer brings it back
                    verify_snapshot(self.target)
                    assert self.bytes_of(self.target) == self.before
                if not again:  # else the next one finds what two dead ones left
                    self.write_whole()
            except (AssertionError, SnapshotError) as error:
                error.add_note(f"seed {seed}, try {n}: killed {delay * 1000:.3f} ms after mark {1 + late}")
                raise
            outcomes[outcome] += killed
            if outcomes.total() == kills:
                break
        self.write_whole()
        assert outcomes.total() == kills, f"too many writers were done before they could be killed: {outcomes}"
        return outcomes


def written(target: Path, way: str) -> list[Order]:
    """Orders to write the two states."""
    return [{"target": str(target), "way": way, "state": n} for n in (0, 1)]


@pytest.mark.parametrize("way", ["exchange", "two steps"])
def test_a_killed_write(killer: Killer, bytes_of: Bytes, folder: Path, way: str) -> None:
    """`write_snapshot` killed at any moment: the old bytes stand or the new, and the next run cleans up."""
    campaign = Campaign(killer, bytes_of, folder / "s", written(folder / "s", way), exact=True)
    outcomes = campaign.run(KILLS["write"], SEED)
    assert outcomes["old"] >= 5, outcomes
    assert outcomes["new"] >= 5, outcomes
    assert bool(outcomes["between"]) == (way == "two steps"), outcomes


@pytest.mark.parametrize("way", ["exchange", "two steps"])
def test_a_killed_pull(killer: Killer, bytes_of: Bytes, folder: Path, way: str) -> None:
    """`pull` killed at any moment, over a set that has changed: the old bytes stand, or the new set whole."""
    target = folder / "acme.a-1.0.0"
    with ck.LocalServer() as old, ck.LocalServer() as new:
        for server, documents in zip((old, new), STATES, strict=True):
            server.add_test_set("acme.a", "1.0.0", documents)
        orders = [
            {"target": str(target), "way": way, "url": server.url, "token": server.token} for server in (old, new)
        ]
        outcomes = Campaign(killer, bytes_of, target, orders, exact=False).run(KILLS["pull"], SEED)
    assert outcomes["old"], outcomes
    assert outcomes["new"], outcomes


def test_a_swap_that_removes_first_is_found_out(killer: Killer, bytes_of: Bytes, folder: Path) -> None:
    """Were the old snapshot removed before the new one is moved in, the kills above would show it."""
    campaign = Campaign(killer, bytes_of, folder / "s", written(folder / "s", "removed first"), exact=True)
    with pytest.raises(AssertionError, match=r"no snapshot stands|neither the old snapshot nor the new"):
        campaign.run(KILLS["write"], SEED)


@pytest.mark.parametrize("way", ["exchange", "two steps"])
def test_readers_beside_a_writer_in_another_process(killer: Killer, folder: Path, way: str) -> None:
    """While another process replaces a snapshot over and over, every reading is one of the two states, whole."""
    order = written(folder / "s", way)[0]
    killer.whole(order)
    killer.say({**order, "again": 80, "mark": 0})
    seen = Counter[tuple[str, ...]]()
    while killer.working():
        found = read_snapshot(folder / "s")
        assert tuple(found.items["case_id"]) == tuple(found.cases["case_id"]) == tuple(found.reasons["case_id"])
        seen[tuple(found.cases["case_id"])] += 1
    assert killer.told()["ended"] == 0
    assert set(seen) == set(IDS)
    assert [path.name for path in folder.iterdir()] == ["s"]
