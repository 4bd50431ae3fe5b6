"""Work in a thread of its own: order, errors, and an end that comes whatever the work does."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from casekit.errors import TransportError
from casekit.http import background as subject
from casekit.http.background import Background


class Line:
    """In the place of a connection: knows whether it was aborted and closed."""

    def __init__(self) -> None:
        self.aborted = self.closed = False

    def abort(self) -> None:
        """Note it."""
        self.aborted = True

    def close(self) -> None:
        """Note it."""
        self.closed = True


def called(work: Callable[[Background[int]], Iterator[int]], ahead: int = 2) -> tuple[Background[int], Line]:
    """Work that makes what an iterator gives, as far as there is room."""

    def run(call: Background[int]) -> None:
        made = work(call)
        while call.room():
            try:
                call.give(next(made))
            except StopIteration:
                return

    line = Line()
    return Background(line, run, ahead), line  # type: ignore[arg-type]


def test_results_come_in_order_and_the_thread_ends() -> None:
    """All results must be given in the order they were made, and nothing stay behind."""
    call, line = called(lambda call: iter(range(50)))
    assert list(call.results()) == list(range(50))
    assert not call._thread.is_alive()
    assert not line.aborted


def test_a_pause_of_any_length_ends_when_nobody_waits() -> None:
    """A pause must be cut off by the end of the work, also one longer than the system can count."""
    call, _ = called(lambda call: iter(()))
    assert list(call.results()) == []
    assert not call.pause(1e300)


@pytest.mark.parametrize("error", [ValueError("x"), TransportError("x"), KeyboardInterrupt(), SystemExit(3)])
def test_an_error_comes_after_the_results_before_it(error: BaseException) -> None:
    """Whatever the work raises must reach the caller, in its place."""

    def work(call: Background[int]) -> Iterator[int]:
        yield 1
        raise error

    call, line = called(work)
    results = call.results()
    assert next(results) == 1
    with pytest.raises(type(error)) as caught:
        next(results)
    assert caught.value is error
    assert not line.aborted


def test_who_leaves_early_ends_the_work() -> None:
    """A caller that stops must end a pause of the work at once, and the connection must be aborted."""
    paused = threading.Event()

    def work(call: Background[int]) -> Iterator[int]:
        yield 1
        paused.set()
        assert not call.pause(60)

    call, line = called(work)
    results = call.results()
    next(results)
    paused.wait(10)
    results.close()  # type: ignore[attr-defined]
    assert line.aborted
    assert not call._thread.is_alive()


def test_no_more_is_made_than_there_is_room_for() -> None:
    """Work must not run further ahead of the caller than it was allowed to."""
    made: list[int] = []

    def work(call: Background[int]) -> Iterator[int]:
        for number in range(10):
            made.append(number)
            yield number

    call, _ = called(work, ahead=3)
    results = call.results()
    for taken in range(10):
        assert next(results) == taken
        time.sleep(0.01)
        assert len(made) <= taken + 1 + 3
    assert list(results) == []


def test_room_can_be_asked_for_without_waiting() -> None:
    """Whoever has something to hand over first must learn that there is no room, and not wait for it."""
    told: list[bool] = []

    def run(call: Background[int]) -> None:
        told.extend(call.room(at_once=True) for _ in range(3))
        call.give(1)

    call = Background(Line(), run, 2)  # type: ignore[arg-type]
    assert list(call.results()) == [1]
    assert told == [True, True, False]


def test_a_full_queue_does_not_keep_the_work() -> None:
    """Work that nobody takes results from any more must end, though it has some to give."""
    call, _ = called(lambda call: iter(range(1000)), ahead=1)
    results = call.results()
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert not call._thread.is_alive()


def test_somebody_else_may_stop_it() -> None:
    """A stop from another thread must end the wait with an error, and never pass for the end."""
    stop = threading.Event()

    def work(call: Background[int]) -> Iterator[int]:
        yield 1
        call.pause(60)

    call, line = called(work)
    results = call.results(stop)
    assert next(results) == 1
    stop.set()
    with pytest.raises(TransportError, match="stopped before the end"):
        list(results)
    assert line.aborted


def test_nothing_begins_once_it_is_stopped() -> None:
    """Work that is stopped before it began must not begin."""
    stop = threading.Event()
    stop.set()
    begun: list[Background[int]] = []

    def work(call: Background[int]) -> Iterator[int]:
        begun.append(call)
        yield 1

    call, _ = called(work)
    with pytest.raises(TransportError, match="stopped before the end"):
        list(call.results(stop))
    assert begun == []


def test_a_thread_that_does_not_let_go_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where even an abort does not help, the caller must get an error and not wait for ever."""
    monkeypatch.setattr(subject, "GRACE_SECONDS", 0.05)
    free = threading.Event()

    def work(call: Background[int]) -> Iterator[int]:
        call.deadline = time.monotonic()
        free.wait(60)
        yield 1

    call, line = called(work)
    with pytest.raises(TransportError, match="does not let go"):
        list(call.results())
    assert line.aborted
    assert call._thread.is_alive()
    assert call._thread.daemon
    free.set()
    call._thread.join(10)
    assert line.closed, "what a thread opens after the caller has left must be closed by the thread"
