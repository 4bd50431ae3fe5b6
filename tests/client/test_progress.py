"""The progress line: plain text where somebody looks, nothing elsewhere."""

from __future__ import annotations

import builtins
import io
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from casekit.progress import Progress


class Terminal(io.StringIO):
    """A stream that says whether it is a terminal."""

    def __init__(self, *, tty: bool) -> None:
        super().__init__()
        self.tty = tty

    def isatty(self) -> bool:
        """Whether somebody looks."""
        return self.tty


def shown(monkeypatch: pytest.MonkeyPatch, *, tty: bool, show: bool | None) -> str:
    """What a short load writes to standard error."""
    stream = Terminal(tty=tty)
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress("acme.a 1.0.0", show) as line:
        line.advance(3)
        line.waiting("server busy", 6.2)
        line.advance(4)
    return stream.getvalue()


@pytest.mark.parametrize(("tty", "show"), [(True, None), (True, True), (False, True)])
def test_a_line_tells_pages_and_waits(monkeypatch: pytest.MonkeyPatch, tty: bool, show: bool | None) -> None:
    """A terminal, or whoever asks for it, must get title, pages and what is waited for, in whole seconds."""
    text = shown(monkeypatch, tty=tty, show=show)
    assert "acme.a 1.0.0" in text
    assert "3 pages" in text
    assert "server busy, 7 s" in text
    last = text.rstrip().rsplit("\r", 1)[-1]
    assert "7 pages" in last
    assert "busy" not in last


@pytest.mark.parametrize(("tty", "show"), [(False, None), (False, False), (True, False)])
def test_elsewhere_nothing_is_written(monkeypatch: pytest.MonkeyPatch, tty: bool, show: bool | None) -> None:
    """A log, a pipe and whoever wants quiet must get not one byte."""
    assert shown(monkeypatch, tty=tty, show=show) == ""


@pytest.mark.parametrize("kernel", [True, False])
def test_a_notebook_gets_the_line(monkeypatch: pytest.MonkeyPatch, kernel: bool) -> None:
    """A notebook's kernel must be taken for somebody who looks, and a plain shell without terminal not."""
    shell = SimpleNamespace(config={"IPKernelApp": {}} if kernel else {})
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert bool(shown(monkeypatch, tty=False, show=None)) is kernel


def test_without_tqdm_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load must work where tqdm cannot be imported."""
    really = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "tqdm":
            raise ImportError(name)
        return really(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert shown(monkeypatch, tty=True, show=True) == ""


def test_the_line_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A progress line must not leave a watching thread in the process."""
    before = set(threading.enumerate())
    shown(monkeypatch, tty=True, show=True)
    assert set(threading.enumerate()) == before
