"""A server with one finished run, and HTTP clients of its callers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import httpx
import pytest

from casekit.server import LocalServer


@pytest.fixture
def server() -> Iterator[LocalServer]:
    """Return a running server; ``acme.drafting`` has the finished run ``run-1``."""
    with LocalServer() as running:
        running.add_run("acme.drafting", "run-1", version="1.4.0", output={"matches": [{"id": "m-1"}, {"id": "m-2"}]})
        yield running


@pytest.fixture
def client_of(server: LocalServer) -> Iterator[Callable[[str | None], httpx.Client]]:
    """Make the HTTP client of a token; ``None``: of no token."""
    made: list[httpx.Client] = []

    def make(token: str | None) -> httpx.Client:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        # verify=False: there is no TLS here, and reading the CA certificates takes longer than the tests do.
        client = httpx.Client(base_url=server.url, headers=headers, trust_env=False, verify=False, timeout=10)
        made.append(client)
        return client

    yield make
    for client in made:
        client.close()


@pytest.fixture
def api(server: LocalServer, client_of: Callable[[str | None], httpx.Client]) -> httpx.Client:
    """Return the HTTP client of the server's first token."""
    return client_of(server.token)
