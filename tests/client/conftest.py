"""Servers that answer what a test tells them to, and clients of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest
from cases.player import Player
from client.pages import QUICK, TOKEN, Spec

import casekit as ck


class Serve(Protocol):
    """Starts a server with its responses, and those of another origin if there are any."""

    def __call__(self, *responses: Spec, other: list[Spec] | None = None) -> Player:
        """Start it."""


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start servers that run until the test ends."""
    with ExitStack() as stack:

        def start(*responses: Spec, other: list[Spec] | None = None) -> Player:
            more = {} if other is None else {"other_responses": other}
            return stack.enter_context(Player({"responses": list(responses), **more}, Path()))

        yield start


@pytest.fixture
def client_of() -> Iterator[Callable[..., ck.Client]]:
    """Make clients of servers, quick to give up; they are closed when the test ends."""
    with ExitStack() as stack:

        def make(player: Player, *, timeout: float = 1.0, retry: ck.Retry = QUICK) -> ck.Client:
            return stack.enter_context(ck.Client(player.url, token=TOKEN, timeout=timeout, retry=retry))

        yield make
