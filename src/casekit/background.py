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

from casekit.connection import Connection
from casekit.errors import TransportError

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
        Is given this object, and yields results.
    ahead
        How many results may wait to be taken.

    Attributes
    ----------
    deadline : float
        Time (`time.monotonic`) at which the request under way must have ended; the work sets it.
    """

    def __init__(
        self, connection: Connection, work: Callable[[Background[Result]], Iterator[Result]], ahead: int
    ) -> None:
        self.connection = connection
        self.deadline = math.inf
        self._work = work
        self._ready: queue.Queue[tuple[Result | None, BaseException | None]] = queue.Queue(ahead)
        self._ended = threading.Event()
        # A daemon: where the system below does not let go, the process still ends.
        self._thread = threading.Thread(target=self._run, name="casekit-background", daemon=True)

    def pause(self, seconds: float) -> bool:
        """Let the work wait; False when nobody waits for it any more."""
        return not self._ended.wait(seconds)

    def _run(self) -> None:
        try:
            for result in self._work(self):
                if not self._give(result, None):
                    return
            self._give(None, None)
        except BaseException as error:  # handed to the caller, who raises it
            self._give(None, error)
        finally:
            if self.connection.aborted:
                self.connection.close()  # also what was opened after the caller had closed it

    def _give(self, result: Result | None, error: BaseException | None) -> bool:
        while not self._ended.is_set():
            try:
                self._ready.put((result, error), timeout=POLL_SECONDS)
            except queue.Full:
                continue
            return True
        return False

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
