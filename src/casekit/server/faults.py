"""Faults on demand: the next requests fail, lose their answer, or wait."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Literal

from casekit.errors import ConfigError

__all__ = ["Fault", "Faults"]


@dataclass(eq=False)
class Fault:
    """One kind of fault, for the next ``times`` requests of a method (``None``: of any).

    ``status``, ``code`` and ``retry_after`` (whole seconds; ``None``: no header) belong to ``"fail"``, ``seconds`` to
    ``"delay"``.
    """

    kind: Literal["fail", "lose", "delay"]
    times: int
    method: str | None
    status: int = 0
    code: str = ""
    retry_after: int | None = None
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.times < 1:
            raise ConfigError(f"A fault happens once or more, not {self.times} times.")
        if self.kind == "fail" and not 400 <= self.status <= 599:
            raise ConfigError(f"The status of an error is 400 to 599, not {self.status}.")
        if not 0 <= self.seconds < float("inf"):
            raise ConfigError(f"A delay is a number of seconds from 0 up, not {self.seconds}.")


class Faults:
    """The faults still to come, in the order they were asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Put a fault at the end of the queue."""
        with self._lock:
            self._waiting.append(fault)

    def take(self, kind: Literal["fail", "lose", "delay"], method: str) -> Fault | None:
        """Return the first fault of a kind that fits a request's method, and count it as used once."""
        with self._lock:
            for fault in self._waiting:
                if fault.kind == kind and fault.method in (None, method):
                    fault.times -= 1
                    if fault.times == 0:
                        self._waiting.remove(fault)
                    return fault
        return None
