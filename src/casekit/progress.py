"""One line that says how far a load is: on terminals and in notebooks, in plain text, silent elsewhere."""

from __future__ import annotations

import math
import sys
import threading
from types import TracebackType
from typing import Any, Self

__all__ = ["Progress"]


class Progress:
    """Counts pages on a line of its own; does nothing where nobody looks, or where tqdm is missing.

    Parameters
    ----------
    title
        What is being read.
    show
        True or False; None shows it on a terminal and in a notebook.
    """

    def __init__(self, title: str, show: bool | None) -> None:
        self._bar: Any = None
        self._lock = threading.Lock()
        if show or (show is None and (sys.stderr.isatty() or _in_notebook())):
            try:
                from tqdm import tqdm  # plain text: needs no widgets
            except ImportError:
                return

            class Line(tqdm):  # type: ignore[type-arg]  # only its stub is generic
                """Tqdm without its watching thread and without its lock between processes."""

                monitor_interval = 0
                _lock = threading.RLock()

            self._bar = Line(desc=title, unit=" pages", file=sys.stderr, mininterval=0.2, dynamic_ncols=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def advance(self, pages: int) -> None:
        """Some more pages were read."""
        if self._bar is not None:
            with self._lock:
                self._bar.set_postfix_str("", refresh=False)
                self._bar.update(pages)

    def waiting(self, why: str, seconds: float) -> None:
        """The load waits; say why and how long."""
        if self._bar is not None:
            with self._lock:
                self._bar.set_postfix_str(f"{why}, {math.ceil(seconds)} s")


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return running is not None and "IPKernelApp" in getattr(running, "config", {})
