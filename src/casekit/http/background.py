"""Work on a connection in a thread of its own, while the caller only waits.

So Ctrl-C ends the wait at once, no request is without bound whatever the system below does, and no traceback that
reaches the caller holds a frame of the HTTP library with the token in it.
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Final, Generic, TypeVar

from casekit.errors import TransportError
from casekit.http.connection import Connection

__all__ = ["Background"]

POLL_SECONDS: Final = 0.1  # between looks at the time and at who wants to stop; a result is taken at once
GRACE_SECONDS: Final = 1.0  # after a deadline, before the connection is cut, and again before the thread is left behind

Result = TypeVar("Result")


class Background(Generic[Result]):
    """Results of some work that a thread does on a connection, a few ahead of who takes them.

    Parameters
    ----------
    connection
        Used by the thread alone; aborted when the work has to end early.
    work
        Is given this object; waits for `room` before it makes a result, and gives it with `give`.
    ahead
        How many results may be made before one is taken.

    Attributes
    ----------
    deadline : float
        Time (`time.monotonic`) at which the request under way must have ended; the work sets it.
    """

    def __init__(self, connection: Connection, work: Callable[[Background[Result]], None], ahead: int) -> None:
        self.connection = connection
        self.deadline = math.inf
        self._work = work
        self._room = threading.Semaphore(ahead)
        self._ready: queue.SimpleQueue[tuple[Result | None, BaseException | None]] = queue.SimpleQueue()
        self._ended = threading.Event()
        # A daemon: where the system below does not let go, the process still ends.
        self._thread = threading.Thread(target=self._run, name="casekit-background", daemon=True)

    def pause(self, seconds: float) -> bool:
        """Let the work wait; False when nobody waits for it any more."""
        return not self._ended.wait(min(seconds, threading.TIMEOUT_MAX))

    def room(self, *, at_once: bool = False) -> bool:
        """Take room for one more result.

        Parameters
        ----------
        at_once
            Do not wait for it.

        Returns
        -------
        bool
            False where there is none at once, or where nobody waits for results any more.
        """
        if at_once:
            return self._room.acquire(blocking=False)
        while not self._ended.is_set():
            if self._room.acquire(timeout=POLL_SECONDS):
                return True
        return False

    def give(self, result: Result) -> None:
        """Hand a result to the caller."""
        self._ready.put((result, None))

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self._work(self)
        except BaseException as raised:  # handed to the caller, who raises it
            error = raised
        if self.connection.aborted:
            self.connection.close()  # also what was opened after the caller had closed it
        self._ready.put((None, error))

    def results(self, stop: threading.Event | None = None) -> Iterator[Result]:
        """Start the work and give its results.

        Parameters
        ----------
        stop
            Set it from another thread to end the wait.

        Raises
        ------
        TransportError
            Somebody set ``stop``, or the thread did not keep its deadline.
        BaseException
            Whatever the work raised.
        """
        done = False
        try:
            if stop is None or not stop.is_set():
                self._thread.start()
            while True:
                result, error = self._taken(stop)
                done = result is None
                if error is not None:
                    raise error
                if result is None:
                    return
                self._room.release()
                yield result
        finally:
            self._ended.set()
            if not done:
                self.connection.abort()
            if self._thread.ident is not None:
                self._thread.join(GRACE_SECONDS)

    def _taken(self, stop: threading.Event | None) -> tuple[Result | None, BaseException | None]:
        while True:
            if stop is not None and stop.is_set():
                raise TransportError("stopped before the end, because other work failed or was interrupted")
            try:
                return self._ready.get(timeout=POLL_SECONDS)
            except queue.Empty:
                late = time.monotonic() - self.deadline
            if late > GRACE_SECONDS:
                self.connection.abort()
            if late > 2 * GRACE_SECONDS:
                raise TransportError("no answer in time: the network or the name service does not let go")
