"""What every test has: no settings of the person who runs it, and no figure of the test before."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell's background jobs have it, and their children
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Take away proxies and casekit's own variables; draw without a screen, and keep no state of the user's."""
    for name in list(os.environ):
        if name.upper().endswith("_PROXY") or name.startswith("CASEKIT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("CASEKIT_STATE", str(tmp_path_factory.getbasetemp() / "state"))


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    """Close what a test has drawn."""
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:  # a test may have blocked it
        pyplot.close("all")
