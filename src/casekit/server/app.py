"""The four routes, and what holds for each: token, request id, envelope, cursors, idempotency, faults on demand."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from urllib.parse import unquote
from uuid import uuid4

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from casekit.server import cursors, rules, writes
from casekit.server.faults import Faults
from casekit.server.identifiers import PROJECT_ID, VERSION
from casekit.server.problems import Answer, Problem, bad_input
from casekit.server.records import Caller, RequestRecord
from casekit.server.store import DatabaseBusy, Store, key_mismatch

__all__ = ["Api"]

DEFAULT_LIMIT = 25  # cases a page

_LIMIT = re.compile(r"[1-9][0-9]?|100")
_CASES = "/v1/agents/{agentId}/test-set/cases"

_log = logging.getLogger("casekit.server")


class _Stopped(Exception):
    """The server stops while a request waits: it has not run, and gets no answer."""


class _Silence(Response):
    """No answer: the connection is cut."""

    def __init__(self, cut: Callable[[object], None]) -> None:
        super().__init__()
        self._cut = cut

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._cut(scope["client"])
        while (await receive())["type"] != "http.disconnect":
            pass


class Api:
    """The ASGI app.

    Parameters
    ----------
    store
        Where everything is kept.
    faults
        The faults still to come.
    records
        Where a record of each request goes.
    stopping
        Set when the server stops.
    cut
        Cuts the connection of a client, given by its address.
    """

    def __init__(
        self,
        store: Store,
        faults: Faults,
        records: deque[RequestRecord],
        stopping: asyncio.Event,
        cut: Callable[[object], None],
    ) -> None:
        self._store = store
        self._faults = faults
        self._records = records
        self._stopping = stopping
        self._cut = cut
        self._running: dict[tuple[str, str], bytes] = {}  # caller and key of each write that runs: its fingerprint
        self._routes = Starlette(
            routes=[
                Route("/v1/test-sets/{testSetId}/versions/{version}/cases", self._endpoint(self._list_test_set_cases)),
                Route(_CASES, self._endpoint(self._agent_cases), methods=["GET", "POST"]),
                Route(_CASES + "/{caseId}/retire", self._endpoint(self._retire_agent_case), methods=["POST"]),
            ],
            exception_handlers={HTTPException: self._on_no_route},
        )
        self._routes.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        # Routes match the path as it was sent: an id may hold an encoded slash.
        scope["path"] = scope["raw_path"].decode("ascii")
        await self._routes(scope, receive, send)

    # What holds for every route --------------------------------------------------------------------------------------

    def _endpoint(self, work: Callable[[Request], Awaitable[Answer]]) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            request.state.request_id = _new_request_id()
            request.state.caller = None
            failing = self._faults.take("fail", request.method)
            losing = None if failing else self._faults.take("lose", request.method)
            headers: dict[str, str] = {}
            try:
                request.state.caller = self._caller(request)
                if failing:
                    retry = {} if failing.retry_after is None else {"Retry-After": str(failing.retry_after)}
                    raise Problem(failing.status, failing.code, "This request was made to fail.", headers=retry)
                answer = await work(request)
            except (ClientDisconnect, _Stopped):
                return self._stay_silent(request)
            except Exception as error:
                problem = self._problem(request, error)
                answer, headers = problem.answer(request.state.request_id), problem.headers
            return self._stay_silent(request) if losing else self._respond(request, answer, headers)

        return endpoint

    def _problem(self, request: Request, error: Exception) -> Problem:
        if isinstance(error, Problem):
            return error
        if isinstance(error, DatabaseBusy):
            code = "idempotency-store-unavailable" if "idempotency-key" in request.headers else "database-busy"
            return Problem(503, code, "The database is busy; nothing ran.", headers={"Retry-After": "1"})
        _log.error("request %s failed", request.state.request_id, exc_info=error)
        return Problem(500, "internal", "The server failed; its log says why.")

    async def _on_no_route(self, request: Request, error: Exception) -> Response:
        request.state.request_id = _new_request_id()
        request.state.caller = None
        if isinstance(error, HTTPException) and error.status_code == 405:
            allowed = ", ".join(sorted((error.headers or {})["Allow"].split(", ")))
            message = f"This route takes {allowed} alone."
            problem = Problem(405, "method-not-allowed", message, headers={"Allow": allowed})
        else:
            problem = Problem(404, "not-found", "There is no such route.")
        return self._respond(request, problem.answer(request.state.request_id), problem.headers)

    def _respond(self, request: Request, answer: Answer, headers: dict[str, str]) -> Response:
        self._record(request, answer.status, answer.request_id)
        headers = {"X-Request-Id": answer.request_id} | headers
        return Response(answer.body, answer.status, headers, media_type="application/json")

    def _stay_silent(self, request: Request) -> Response:
        self._record(request, None, request.state.request_id)
        return _Silence(self._cut)

    def _record(self, request: Request, status: int | None, request_id: str) -> None:
        caller: Caller | None = request.state.caller
        self._records.append(
            RequestRecord(
                method=request.method,
                path=request.scope["path"],
                query=request.scope["query_string"].decode("ascii"),
                status=status,
                request_id=request_id,
                idempotency_key=request.headers.get("idempotency-key"),
                caller_id=caller.id if caller else None,
            )
        )

    async def _wait_if_asked(self, request: Request) -> None:
        delay = self._faults.take("delay", request.method)
        if delay is not None:
            try:
                await asyncio.wait_for(self._stopping.wait(), delay.seconds)
            except TimeoutError:
                return
            raise _Stopped

    def _caller(self, request: Request) -> Caller | None:
        values = request.headers.getlist("authorization")
        scheme, _, token = values[0].partition(" ") if len(values) == 1 else ("", "", "")
        if scheme.lower() != "bearer":
            return None
        return self._store.caller(hashlib.sha256(token.strip(" ").encode("latin-1")).digest())

    # Reading ---------------------------------------------------------------------------------------------------------

    async def _list_test_set_cases(self, request: Request) -> Answer:
        caller = _authorised(request)
        test_set_id, version = _segment(request, "testSetId"), _segment(request, "version")
        if not VERSION.fullmatch(version):
            raise bad_input("A version is three numbers, such as 1.2.0.", parameter="version")
        limit, cursor = _limit(request), _single(request, "cursor")
        await self._wait_if_asked(request)
        number = self._store.version_number(test_set_id, version)
        bound_to = cursors.binding("test set", test_set_id, version, caller.kind, caller.id)
        after = 0 if cursor is None else cursors.unseal(self._store.sealing_key, bound_to, cursor)
        return self._page(request, self._store.cases(number, after, limit + 1), limit, bound_to)

    async def _list_agent_cases(self, request: Request) -> Answer:
        caller = _authorised(request)
        agent_id = _segment(request, "agentId")
        project_id = _single(request, "projectId")
        if project_id is not None and not PROJECT_ID.fullmatch(project_id):
            raise bad_input("A projectId is a UUID.", parameter="projectId")
        limit, cursor = _limit(request), _single(request, "cursor")
        await self._wait_if_asked(request)
        if not self._store.knows_agent(agent_id):
            raise Problem(404, "agent-not-found", f"There is no agent {agent_id[:100]!r}.")
        bound_to = cursors.binding("agent", agent_id, project_id, caller.kind, caller.id)
        before = sys.maxsize if cursor is None else cursors.unseal(self._store.sealing_key, bound_to, cursor)
        return self._page(request, self._store.agent_cases(agent_id, project_id, before, limit + 1), limit, bound_to)

    def _page(self, request: Request, rows: list[tuple[int, bytes]], limit: int, bound_to: bytes) -> Answer:
        """Make a page of at most ``limit`` cases; one row more says that the list goes on."""
        body = b'{"data":[' + b",".join(text for _, text in rows[:limit]) + b"]"
        if len(rows) > limit:
            cursor = cursors.seal(self._store.sealing_key, bound_to, rows[limit - 1][0])
            body += b',"nextCursor":"' + cursor.encode("ascii") + b'","hasMore":true}'
        else:
            body += b',"hasMore":false}'
        return Answer(200, body, request.state.request_id)

    # Writing ---------------------------------------------------------------------------------------------------------

    async def _agent_cases(self, request: Request) -> Answer:
        return await (self._add_agent_case(request) if request.method == "POST" else self._list_agent_cases(request))

    async def _add_agent_case(self, request: Request) -> Answer:
        caller, agent_id = _authorised(request, write=True), _segment(request, "agentId")
        request_id = request.state.request_id
        return await self._write(
            request, caller, lambda body: writes.add_case(self._store, caller, agent_id, body, request_id)
        )

    async def _retire_agent_case(self, request: Request) -> Answer:
        caller, agent_id = _authorised(request, write=True), _segment(request, "agentId")
        case_id, request_id = _segment(request, "caseId"), request.state.request_id
        return await self._write(
            request, caller, lambda body: writes.retire_case(self._store, caller, agent_id, case_id, body, request_id)
        )

    async def _write(self, request: Request, caller: Caller, run: Callable[[bytes], Answer]) -> Answer:
        key = _idempotency_key(request)
        body = await _body(request)
        owner = f"{caller.kind}:{caller.id}"
        fingerprint = hashlib.sha256(f"{request.method} {request.scope['path']}\n".encode() + body).digest()
        if key is not None:
            self._claim((owner, key), fingerprint)
        try:
            await self._wait_if_asked(request)
            return self._store.write_once(owner, key, fingerprint, lambda: run(body))
        finally:
            if key is not None:
                del self._running[owner, key]

    def _claim(self, owner_and_key: tuple[str, str], fingerprint: bytes) -> None:
        """Note that a write runs; 409 while another with its key does."""
        first = self._running.get(owner_and_key)
        if first is None:
            self._running[owner_and_key] = fingerprint
        elif first == fingerprint:
            message = "The first request with this Idempotency-Key still runs: ask again for its answer."
            raise Problem(409, "idempotency-key-in-flight", message, headers={"Retry-After": "1"})
        else:
            raise key_mismatch()


def _new_request_id() -> str:
    return f"req_{uuid4().hex}"


def _authorised(request: Request, *, write: bool = False) -> Caller:
    caller: Caller | None = request.state.caller
    if caller is None:
        message = "The bearer token is missing, malformed or unknown."
        raise Problem(401, "unauthorized", message, headers={"WWW-Authenticate": "Bearer"})
    if write and not caller.can_write:
        raise Problem(403, "permission-denied", "This token may read, but not write.")
    return caller


def _segment(request: Request, name: str) -> str:
    try:
        return unquote(request.path_params[name], errors="strict")
    except UnicodeDecodeError:
        raise bad_input("A part of the path is no UTF-8.", parameter=name) from None


def _single(request: Request, name: str) -> str | None:
    values = request.query_params.getlist(name)
    if len(values) > 1:
        raise bad_input(f"{name} stands in the query {len(values)} times: send it once.", parameter=name)
    return values[0] if values else None


def _limit(request: Request) -> int:
    limit = _single(request, "limit")
    if limit is None:
        return DEFAULT_LIMIT
    if not _LIMIT.fullmatch(limit):
        raise bad_input("limit is a whole number from 1 to 100.", parameter="limit")
    return int(limit)


def _idempotency_key(request: Request) -> str | None:
    keys = request.headers.getlist("idempotency-key")
    if len(keys) > 1 or "" in keys:
        raise bad_input("Send one Idempotency-Key that is not empty, or none.", parameter="Idempotency-Key")
    return keys[0] if keys else None


async def _body(request: Request) -> bytes:
    """Return the body; 413 as soon as it is known to be over the limit."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise bad_input("The Content-Type of a write is application/json.", parameter="Content-Type")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > rules.MAX_BODY_BYTES:
            message = f"The body is over {rules.MAX_BODY_BYTES} bytes."
            raise Problem(413, "request-too-large", message, details={"maxBytes": rules.MAX_BODY_BYTES})
    return bytes(body)
