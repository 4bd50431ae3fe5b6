"""Plays a case: a loopback HTTP server that answers what a case's ``serve`` says, faults and all, and keeps a log.

``serve`` has ``responses`` for the main origin, ``other_responses`` for a second one (opened only if given) and
``otherwise`` for what none fits. A request gets the first response that has uses left and whose ``when`` fits:

- ``when``: ``method``, ``path`` (raw, still encoded), ``path_regex``, ``query``, ``no_query``, ``header`` (regular
  expressions), ``body_contains``; all that are given must fit. ``times``: how often it can be used, ``"*"`` for ever.
- ``status``, ``reason``, ``headers`` (``{{port}}``, ``{{other_port}}``, ``{{http_date:+3}}`` are filled in).
- one body: ``body_json``, ``body_text`` (with ``template``: ``{{n}}`` is the request's number), ``body_b64``,
  ``body_file`` (beside the case), ``body_parts`` (texts and ``{"repeat": …, "times": …, "join": …}``).
- ``encoding``: gzip, deflate, gzip-corrupt, gzip-truncated. ``framing``: length, chunked (``chunk_size``), close,
  declared (``declared_length``).
- ``delay_ms`` before the answer; ``drip``: ``bytes`` every ``every_ms``.
- ``fault``: close-before-response, reset-before-response, close-after-headers, close-mid-body or reset-mid-body (after
  ``after_bytes``), close-after-response, hang (``hang_ms``). ``raw_text`` or ``raw_b64``: the whole answer as it is.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import struct
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qsl

HOST = "127.0.0.1"
BODIES = ("body_json", "body_text", "body_b64", "body_file", "body_parts")
EXHAUSTED = {"status": 501, "body_json": {"error": {"code": "scenario-exhausted", "message": "", "requestId": "req"}}}


@dataclass
class Request:
    """One request as it came, and when."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes
    came: float
    connection: int
    answered: float | None = None
    spec: Mapping[str, Any] = field(default_factory=dict)  # what it is answered with
    number: int = 0  # of its origin's requests, from 1

    @property
    def path(self) -> str:
        """The path, still encoded."""
        return self.target.partition("?")[0]

    @property
    def query(self) -> list[tuple[str, str]]:
        """Names and values of the query, decoded, in order."""
        return parse_qsl(self.target.partition("?")[2], keep_blank_values=True)

    def header(self, name: str) -> list[str]:
        """The values of a header, named in small letters."""
        return [value for key, value in self.headers if key.lower() == name]


@dataclass
class Origin:
    """One listening port with its responses."""

    specs: list[Mapping[str, Any]]
    requests: list[Request] = field(default_factory=list)
    used: dict[int, int] = field(default_factory=dict)


class Player:
    """Serves a case while its ``with`` block runs."""

    def __init__(self, serve: Mapping[str, Any], folder: Path) -> None:
        self.folder = folder
        self.otherwise = serve.get("otherwise", EXHAUSTED)
        self.origins = {"main": Origin(serve.get("responses", []))}
        if "other_responses" in serve:
            self.origins["other"] = Origin(serve["other_responses"])
        self.ports: dict[str, int] = {}
        self.arrived = threading.Condition()
        self._bodies: dict[int, tuple[bytes, str | None]] = {}
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    @property
    def url(self) -> str:
        """Address of the main origin."""
        return f"http://{HOST}:{self.ports['main']}"

    @property
    def requests(self) -> list[Request]:
        """Requests to the main origin, in order."""
        return self.origins["main"].requests

    def documents(self) -> list[dict[str, Any]]:
        """The cases that the main origin has sent whole, in order: of its last walk from the beginning."""
        pages: dict[str | None, list[dict[str, Any]]] = {}
        for request in self.requests:
            cursor = dict(request.query).get("cursor")
            if cursor is None:
                pages.clear()
            if request.method == "GET" and _is_whole(request.spec):
                body = b"".join(self._plain(request.spec, request.number))
                with suppress(ValueError):  # no JSON: a page that nobody can have read
                    pages[cursor] = json.loads(body.decode("utf-8-sig", "surrogatepass"))["data"]
        return [document for page in pages.values() for document in page]

    def cursors(self, request: Request) -> set[str]:
        """The cursors that the answer to a request gives."""
        if not _is_whole(request.spec):
            return set()
        text = b"".join(self._plain(request.spec, request.number)).decode("utf-8", "replace")
        return {json.loads(f'"{found}"') for found in re.findall(r'"nextCursor"\s*:\s*"((?:[^"\\]|\\.)*)"', text)}

    def __enter__(self) -> Self:
        for name, origin in self.origins.items():
            # Made beforehand, so that what a call needs of memory can be told from what the player does.
            self._bodies |= {id(spec): self._body(spec, 0) for spec in origin.specs if not spec.get("template")}
            listener = socket.create_server((HOST, 0))
            self.ports[name] = listener.getsockname()[1]
            self._sockets.append(listener)
            self._start(self._accept, listener, origin)
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        with self._lock:
            sockets = list(self._sockets)
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(5)

    def _start(self, target: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket, origin: Origin) -> None:
        number = 0
        while not self._over.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            number += 1
            with self._lock:
                self._sockets.append(connection)
            self._start(self._serve, connection, origin, number)

    def _serve(self, connection: socket.socket, origin: Origin, number: int) -> None:
        with suppress(OSError), connection, connection.makefile("rb") as stream:
            while not self._over.is_set() and (request := _read(stream, number)) is not None:
                with self.arrived:
                    spec = self._choose(origin, request)
                    request.spec = spec
                    origin.requests.append(request)
                    request.number = len(origin.requests)
                    self.arrived.notify_all()
                try:
                    if not self._answer(spec, connection, request.number):
                        return
                finally:
                    request.answered = time.monotonic()

    def _choose(self, origin: Origin, request: Request) -> Mapping[str, Any]:
        for n, spec in enumerate(origin.specs):
            times = spec.get("times", 1)
            if (times == "*" or origin.used.get(n, 0) < times) and _fits(spec.get("when", {}), request):
                origin.used[n] = origin.used.get(n, 0) + 1
                return spec
        return self.otherwise  # type: ignore[no-any-return]

    def _answer(self, spec: Mapping[str, Any], connection: socket.socket, number: int) -> bool:
        """Answer a request; False when the connection is done with."""
        fault = spec.get("fault")
        self._over.wait(spec.get("delay_ms", 0) / 1000)
        if fault == "hang":
            self._over.wait(spec.get("hang_ms", 30_000) / 1000)
        if fault == "reset-before-response":
            _reset(connection)
        if fault in ("hang", "reset-before-response", "close-before-response") or self._over.is_set():
            return False
        if "raw_text" in spec or "raw_b64" in spec:
            raw = _bytes(spec["raw_text"]) if "raw_text" in spec else base64.b64decode(spec["raw_b64"])
            connection.sendall(raw)
            return False
        head, body = self._rendered(spec, number)
        connection.sendall(head)
        if fault == "close-after-headers":
            return False
        if fault in ("close-mid-body", "reset-mid-body"):
            body = body[: spec["after_bytes"]]
        step = spec["drip"]["bytes"] if "drip" in spec else 65536
        for start in range(0, len(body), step):
            connection.sendall(body[start : start + step])
            if "drip" in spec and self._over.wait(spec["drip"]["every_ms"] / 1000):
                return False
        if fault == "reset-mid-body":
            self._over.wait(0.02)  # let what was sent arrive first
            _reset(connection)
        return fault is None and spec.get("framing") not in ("close", "declared")

    def _rendered(self, spec: Mapping[str, Any], number: int) -> tuple[bytes, bytes]:
        """Head and framed body of an answer."""
        status = spec.get("status", 200)
        given = spec.get("headers") or {}
        pairs = list(given.items()) if isinstance(given, dict) else [tuple(pair) for pair in given]
        headers = [(name, self._filled(str(value), number)) for name, value in pairs]
        body, label = self._bodies.get(id(spec)) or self._body(spec, number)
        names = {name.lower() for name, _ in headers}
        if label and "content-encoding" not in names:
            headers.append(("Content-Encoding", label))
        framing = spec.get("framing", "length")
        if framing == "chunked":
            headers.append(("Transfer-Encoding", "chunked"))
            size = spec.get("chunk_size", 1024)
            parts = [body[n : n + size] for n in range(0, len(body), size)]
            body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
        elif framing == "close":
            headers.append(("Connection", "close"))
        elif "content-length" not in names and status not in (204, 304):
            length = spec["declared_length"] if framing == "declared" else len(body)
            headers.append(("Content-Length", str(length)))
        phrases = {one.value: one.phrase for one in HTTPStatus}
        lines = [f"HTTP/1.1 {status} {spec.get('reason', phrases.get(status, 'Status'))}"]
        lines += [f"{name}: {value}" for name, value in headers]
        return _bytes("\r\n".join(lines) + "\r\n\r\n"), b"" if status in (204, 304) else body

    def _body(self, spec: Mapping[str, Any], number: int) -> tuple[bytes, str | None]:
        """A body as it goes out, and how it is compressed."""
        return _encoded(b"".join(self._plain(spec, number)), spec.get("encoding"))

    def _plain(self, spec: Mapping[str, Any], number: int) -> Iterator[bytes]:
        if "body_json" in spec:
            yield json.dumps(spec["body_json"], separators=(",", ":")).encode()
        elif "body_text" in spec:
            text = spec["body_text"]
            yield _bytes(self._filled(text, number) if spec.get("template") else text)
        elif "body_b64" in spec:
            yield base64.b64decode(spec["body_b64"])
        elif "body_file" in spec:
            yield (self.folder / spec["body_file"]).read_bytes()
        for part in spec.get("body_parts", []):
            if isinstance(part, str):
                yield _bytes(part)
            else:
                text, times, join = part["repeat"], part["times"], part.get("join", "")
                numbered = (text.replace("{{i}}", str(n)) for n in range(times))
                same = (text + join) * (times - 1) + text if times else ""
                yield _bytes(join.join(numbered) if "{{i}}" in text else same)

    def _filled(self, text: str, number: int) -> str:
        def one(found: re.Match[str]) -> str:
            name, _, rest = found[1].partition(":")
            if name == "http_date":
                return formatdate(time.time() + int(rest), usegmt=True)
            known = {"port": self.ports["main"], "other_port": self.ports.get("other"), "n": number}
            return str(known[name])

        return re.sub(r"\{\{([a-z_]+(?::[+-]?\d+)?)\}\}", one, text)


def _is_whole(spec: Mapping[str, Any]) -> bool:
    """It is a page of cases, and all of it goes out."""
    body = any(name in spec for name in BODIES) and 200 <= spec.get("status", 200) < 300
    return body and spec.get("fault") in (None, "close-after-response") and spec.get("framing") != "declared"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")  # a case may hold half a character on purpose


def _read(stream: Any, connection: int) -> Request | None:
    first = stream.readline().decode("latin-1").split()
    if len(first) != 3:
        return None
    came = time.monotonic()
    headers = []
    while (line := stream.readline()) not in (b"\r\n", b"\n", b""):
        name, _, value = line.decode("latin-1").partition(":")
        headers.append((name.strip(), value.strip()))
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    return Request(first[0], first[1], headers, stream.read(length), came, connection)


def _fits(when: Mapping[str, Any], request: Request) -> bool:
    names = [name for name, _ in request.query]
    return (
        when.get("method", request.method) == request.method
        and when.get("path", request.path) == request.path
        and bool(re.search(when.get("path_regex", ""), request.path))
        and all(pair in request.query for pair in when.get("query", {}).items())
        and not any(name in names for name in when.get("no_query", []))
        and all(
            any(re.search(pattern, value) for value in request.header(name.lower()))
            for name, pattern in when.get("header", {}).items()
        )
        and when.get("body_contains", "").encode() in request.body
    )


def _reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _encoded(body: bytes, encoding: str | None) -> tuple[bytes, str | None]:
    if encoding is None:
        return body, None
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS if encoding == "deflate" else zlib.MAX_WBITS | 16)
    packed = packer.compress(body) + packer.flush()
    if encoding == "gzip-corrupt":
        middle = len(packed) // 2
        broken = bytes(byte ^ 0xFF for byte in packed[middle : middle + 8])
        packed = packed[:middle] + broken + packed[middle + 8 :]
    elif encoding == "gzip-truncated":
        packed = packed[: max(12, len(packed) // 2)]
    return packed, "deflate" if encoding == "deflate" else "gzip"
