"""uvicorn in a thread: it serves on a socket that listens already, and stops at once."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Callable
from uuid import uuid4

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from casekit.errors import ConfigError
from casekit.server.problems import bad_input

__all__ = ["Listener", "listen"]

HOST = "127.0.0.1"
BACKLOG = 128  # connections that wait to be accepted
KEEP_ALIVE = 30  # seconds; longer than the 5 s clients keep an idle connection, so that the client closes first
GRACE = 0.5  # seconds that a stop waits for answers on their way


def listen(port: int) -> socket.socket:
    """Return a socket that listens on a port of this machine alone; 0 takes a free one."""
    # asyncio turns Nagle's algorithm off only where the protocol is named; with it on, each answer waits 40 ms.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if sys.platform != "win32":  # where the option would let two servers share a port
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((HOST, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise ConfigError(f"Port {port} on {HOST} cannot be used: {error.strerror or error}. Take port 0.") from error
    return listening


class _Protocol(H11Protocol):
    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP with the API's envelope too."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):  # else an answer is out, or half out, already
            answer = bad_input(f"The request cannot be read as HTTP: {msg}").answer(f"req_{uuid4().hex}")
            self.transport.write(
                b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\n"
                + f"x-request-id: {answer.request_id}\r\ncontent-length: {len(answer.body)}\r\n\r\n".encode()
                + answer.body
            )
        self.transport.close()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: threading.Event, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self.ready = ready
        self.stopping = stopping
        self.loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        """Wait for the stop; uvicorn's own loop looks for it ten times a second."""
        self.loop = asyncio.get_running_loop()
        self.ready.set()
        await self.stopping.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close idle connections now, and the others after a short grace; uvicorn's own waits for its clients."""
        for listening in self.servers:
            listening.close()
        state = self.server_state
        for connection in list(state.connections):
            connection.shutdown()
        deadline = asyncio.get_running_loop().time() + GRACE
        while state.connections and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(0.002)
        for connection in list(state.connections):
            connection.transport.abort()
        await asyncio.gather(*state.tasks, return_exceptions=True)


class Listener:
    """A thread that serves an app on a listening socket until it is stopped.

    Parameters
    ----------
    make_app
        Called with two things the app needs of its server: an event that is set when the server stops, and a function
        that cuts the connection of a client (its address), without an answer.
    listening
        A listening TCP socket; closed at the end.
    """

    def __init__(
        self, make_app: Callable[[asyncio.Event, Callable[[object], None]], ASGIApp], listening: socket.socket
    ) -> None:
        stopping = asyncio.Event()
        config = uvicorn.Config(
            make_app(stopping, self._cut),
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,  # whoever imports a library configures logging
            proxy_headers=False,  # a client's address finds its connection again
            server_header=False,
            date_header=False,
            timeout_keep_alive=KEEP_ALIVE,
        )
        self._ready = threading.Event()
        self._server = _Server(config, self._ready, stopping)
        self._socket = listening
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="casekit-local-server", daemon=True)

    def start(self) -> None:
        """Start the thread, and return when it serves."""
        self._thread.start()
        self._ready.wait()
        if self._server.loop is None:
            self._end()

    def stop(self) -> None:
        """Stop serving, and return when the thread has ended; raise what ended it before."""
        if self._server.loop is not None and not self._server.loop.is_closed():
            self._server.loop.call_soon_threadsafe(self._server.stopping.set)
        self._end()

    def _end(self) -> None:
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def wait(self) -> None:
        """Return when the thread has ended."""
        while self._thread.is_alive():
            self._thread.join(0.5)  # in steps: on Windows, Ctrl-C reaches Python only between two waits

    def _run(self) -> None:
        try:
            asyncio.run(self._server.serve(sockets=[self._socket]))
        except BaseException as failure:  # given to the thread that started this one
            self._failure = failure
        finally:
            self._socket.close()
            self._ready.set()

    def _cut(self, client: object) -> None:
        for connection in list(self._server.server_state.connections):
            if isinstance(connection, _Protocol) and connection.client == client:
                connection.transport.abort()
