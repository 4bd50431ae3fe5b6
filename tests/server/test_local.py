from __future__ import annotations

import asyncio
import gc
import logging
import socket
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

import casekit.server
from casekit.errors import ConfigError, MissingExtraError
from casekit.server import LocalServer

AGENT_CASES = "/v1/agents/acme.drafting/test-set/cases"


def get(server: LocalServer) -> int:
    """Ask on a connection of its own, and return the status."""
    headers = {"Authorization": f"Bearer {server.token}"}
    with httpx.Client(base_url=server.url, headers=headers, trust_env=False, verify=False) as client:
        return client.get(AGENT_CASES).status_code


def connect(server: LocalServer) -> socket.socket:
    """Return a plain connection."""
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def server_threads() -> list[str]:
    """Return the names of this process's server threads."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("casekit")]


def test_it_serves_in_the_block_and_not_after_it() -> None:
    """In the block the URL answers; after it no thread is left and the port is closed."""
    with LocalServer() as server:
        assert get(server) == 404
        assert len(server_threads()) == 1
    assert server_threads() == []
    with pytest.raises(ConnectionRefusedError):
        connect(server)


def test_it_can_be_stopped_and_started_again_with_its_data() -> None:
    """A stopped server keeps its data, token and port, and serves again after a start."""
    server = LocalServer()
    server.add_run("acme.drafting", "run-1")
    assert server.start() is server.start()
    url = server.url
    server.stop()
    server.stop()
    assert server_threads() == []
    server.add_run("acme.drafting", "run-2")
    server.start()
    assert server.url == url
    assert get(server) == 200
    server.close()
    server.close()
    server.stop()


def test_a_closed_server_says_so() -> None:
    """After close, starting and every way to add data are refused with the way out."""
    server = LocalServer()
    server.close()
    for use in (
        server.start,
        lambda: server.add_run("acme.drafting", "run-1"),
        lambda: server.add_test_set("acme.set", "1.0.0", []),
        lambda: server.erase_case("case-1"),
        lambda: server.add_token(caller_id="reviewer-1"),
    ):
        with pytest.raises(ConfigError, match="make a new LocalServer"):
            use()


def test_the_url_needs_a_port() -> None:
    """Before the first start there is no URL unless the port was given."""
    server = LocalServer()
    with pytest.raises(ConfigError, match="start"):
        _ = server.url
    server.close()
    server = LocalServer(port=8765)
    assert server.url == "http://127.0.0.1:8765"
    server.close()


def test_a_taken_port_is_named_and_the_database_closed() -> None:
    """A port that another server has is an error that names it; the server in the block is closed."""
    with LocalServer() as first:
        port = int(first.url.rsplit(":", 1)[1])
        second = LocalServer(port=port)
        with pytest.raises(ConfigError, match=str(port)), second:
            pass
        assert repr(second) == "<LocalServer closed>"
        assert get(first) == 404


def test_a_server_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stops the thread from serving is raised where the start was asked for, and no thread is left."""

    async def fail(*_: object, **__: object) -> None:
        raise OSError("no more files")

    server = LocalServer()
    with monkeypatch.context() as patch:
        patch.setattr("uvicorn.Server.startup", fail)
        with pytest.raises(OSError, match="no more files"):
            server.start()
    assert server_threads() == []
    assert repr(server) == "<LocalServer stopped>"
    with server:
        assert get(server) == 404


def test_a_server_that_ended_by_itself_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ended the thread is raised by the stop, and the server is closed all the same."""

    async def fail(server: Any) -> None:
        server.loop = asyncio.get_running_loop()
        server.ready.set()
        raise OSError("the loop broke")

    monkeypatch.setattr("casekit.server.listener._Server.main_loop", fail)
    server = LocalServer().start()
    server.wait()
    with pytest.raises(OSError, match="the loop broke"):
        server.close()
    assert server_threads() == []
    assert repr(server) == "<LocalServer closed>"


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_out_of_range_is_refused(port: int) -> None:
    """A port is a number from 0 to 65535."""
    with pytest.raises(ConfigError, match="65535"):
        LocalServer(port=port)


@pytest.mark.parametrize("token", ["", "two words", "line\n", "é"])
def test_a_token_that_fits_in_no_header_is_refused(token: str) -> None:
    """A token of characters that a header cannot carry is refused, and not shown."""
    with pytest.raises(ConfigError, match="visible ASCII") as caught:
        LocalServer(token=token)
    assert not token or token not in str(caught.value)


def test_a_given_token_is_the_token() -> None:
    """The token given is let in, and no repr shows it."""
    with LocalServer(token="secret-1") as server:
        assert server.token == "secret-1"
        assert get(server) == 404
        assert "secret-1" not in repr(server)
        assert server.url in repr(server)
    assert "secret-1" not in repr(server)


def test_two_servers_have_tokens_of_their_own() -> None:
    """Tokens that are made up are long and never the same."""
    first, second = LocalServer(), LocalServer()
    assert first.token != second.token
    assert len(first.token) > 40
    first.close()
    second.close()


def test_it_listens_on_loopback_alone() -> None:
    """The socket is bound to 127.0.0.1: another address of this machine is refused."""
    with LocalServer() as server:
        port = int(server.url.rsplit(":", 1)[1])
        with pytest.raises(OSError), socket.create_connection(("127.0.0.2", port), timeout=5):  # noqa: PT011
            pass


def test_an_answer_is_not_held_back() -> None:
    """Nagle's algorithm is off on each connection: small answers leave at once."""
    with LocalServer() as server, connect(server):
        assert get(server) == 404  # the connection above was accepted before this one
        listener = server._listener
        assert listener is not None
        states = [
            connection.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            for connection in listener._server.server_state.connections
        ]
    assert states
    assert all(states)


def test_it_runs_beside_a_running_event_loop() -> None:
    """As in a notebook, a running loop in the main thread neither stops the server nor is stopped by it."""

    async def cell() -> int:
        with LocalServer() as server:
            return await asyncio.to_thread(get, server)

    assert asyncio.run(cell()) == 404


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HT",
        b"POST " + AGENT_CASES.encode() + b" HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n"
        b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    ],
    ids=["nothing", "half a line", "half a body"],
)
def test_a_stop_ends_connections_whatever_was_sent(sent: bytes) -> None:
    """A stop closes a connection that is idle or half-way through a request, and leaves no thread or socket."""
    server = LocalServer().start()
    with connect(server) as connection:
        connection.sendall(sent.replace(b"{token}", server.token.encode()))
        get(server)  # so that the connection is accepted and its bytes are read
        server.close()
        assert connection.recv(100) == b""
    assert server_threads() == []
    gc.collect()  # an unclosed socket would warn here, and warnings are errors


def test_a_stop_ends_a_waiting_request_without_running_it() -> None:
    """A write that waits when the server stops gets no answer, and has not run."""
    with LocalServer() as server:
        server.add_run("acme.drafting", "run-1")
        server.delay_next(60, method="POST")
        headers = {"Authorization": f"Bearer {server.token}"}
        with (
            httpx.Client(base_url=server.url, headers=headers, trust_env=False, verify=False) as client,
            ThreadPoolExecutor(1) as pool,
        ):
            body = {"runId": "run-1", "answer": "right"}
            waiting = pool.submit(client.post, AGENT_CASES, json=body, headers={"Idempotency-Key": "key-1"})
            while server._faults._waiting:
                threading.Event().wait(0.001)
            server.stop()
            with pytest.raises(httpx.RemoteProtocolError):
                waiting.result()
            server.start()
            assert client.get(AGENT_CASES).json()["data"] == []
            assert client.post(AGENT_CASES, json=body, headers={"Idempotency-Key": "key-1"}).status_code == 201


def test_wait_returns_when_another_thread_stops_it() -> None:
    """Waiting blocks while the server serves, and returns when it has stopped."""
    server = LocalServer()
    server.wait()
    server.start()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(server.wait)
        assert not waiting.done()
        server.stop()
        waiting.result(timeout=10)
    server.close()


def test_threads_may_start_stop_and_load_together(server: LocalServer, api: httpx.Client) -> None:
    """Loading from several threads while requests are served mixes nothing up."""

    def load(number: int) -> int:
        cases = [{"caseId": f"{number}-{n}"} for n in range(200)]
        return server.add_test_set(f"acme.{number}", "1.0.0", cases)

    with ThreadPoolExecutor(4) as pool:
        loads = [pool.submit(load, number) for number in range(8)]
        statuses = [pool.submit(api.get, AGENT_CASES) for _ in range(20)]
        assert [future.result() for future in loads] == [200] * 8
        assert {future.result().status_code for future in statuses} == {200}
    for number in range(8):
        page = api.get(f"/v1/test-sets/acme.{number}/versions/1.0.0/cases", params={"limit": 100}).json()
        assert [case["caseId"] for case in page["data"]] == [f"{number}-{n}" for n in range(100)]


def test_its_logs_are_quiet_and_never_show_the_token(
    server: LocalServer, api: httpx.Client, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """At any log level the token is nowhere, and nothing is printed."""
    with caplog.at_level(logging.DEBUG):
        api.get(AGENT_CASES)
        api.get("/nowhere")
        server.stop()
    assert server.token not in caplog.text
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("module", ["starlette", "uvicorn"])
def test_a_missing_library_names_the_extra(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    """Without Starlette or uvicorn, making a server says what to install."""
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'casekit\[server\]'") as caught:
        LocalServer()
    assert module in str(caught.value)


def run_python(code: str, *, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter, warnings as errors."""
    source = Path(casekit.server.__file__).parents[2]
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        cwd=cwd, env={"PYTHONPATH": str(source)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_importing_it_needs_no_server_library(tmp_path: Path) -> None:
    """The package imports without Starlette and uvicorn, and imports no part of the client."""
    done = run_python(
        """
        import sys
        sys.modules["starlette"] = sys.modules["uvicorn"] = None
        import casekit.server
        client = {"casekit.wire", "casekit.client", "casekit.documents", "casekit.schema"}
        print(sorted(client & set(sys.modules)))
        """,
        cwd=tmp_path,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_process_that_forgets_to_close_ends_cleanly(tmp_path: Path) -> None:
    """A notebook that ends with the server running ends without a word, and the data is in the file."""
    done = run_python(
        """
        from casekit.server import LocalServer
        server = LocalServer(db="server.db").start()
        server.add_run("acme.drafting", "run-1")
        """,
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [path.name for path in tmp_path.iterdir()] == ["server.db"]
    server = LocalServer(db=tmp_path / "server.db")
    with pytest.raises(ConfigError, match="run-1"):
        server.add_run("acme.drafting", "run-1")
    server.close()
