"""The HTTP API: its lists and its writes."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, overload
from urllib.parse import quote, urlencode

import pydantic

from casekit.documents import AddCase, AgentCase, PlannedWrite, RetireCase, checked_body, first_problem
from casekit.errors import ApiError, ConfigError, IncompletePull, JournalError, ProtocolError, one_line
from casekit.http.address import checked_version, segment
from casekit.http.background import Background
from casekit.http.body import mended
from casekit.http.connection import Answer, Request, head
from casekit.http.cursor import next_cursor
from casekit.http.problem import MAYBE_DONE, is_settled, refuse_markup, request_id_of
from casekit.http.retry import Retry
from casekit.http.session import OnWait, Session
from casekit.journal import Journal, Write

__all__ = ["Client", "Page", "Retry"]

PAGE_CASES: Final = 100  # cases a page: the most the API gives

Unlike = Callable[[AgentCase], str | None]  # what tells the case in an answer from the one that was asked for

_log = logging.getLogger("casekit")


@dataclass(frozen=True)
class Page:
    """One page of a list.

    Attributes
    ----------
    body : bytes
        As it came, decompressed.
    request_id : str or None
        The server's id of the request.
    retries : int
        How often the request was repeated.
    waited : float
        Seconds waited in between.
    """

    body: bytes = field(repr=False)
    request_id: str | None
    retries: int
    waited: float


class Client(Session):
    """Speaks to the server, in one origin, with one token.

    Close it when it is done with, or use it in a ``with`` block. Threads may share it.
    A pickled client leaves its token behind: where it is unpickled, it takes ``CASEKIT_TOKEN`` when it first needs one.

    Parameters
    ----------
    url
        Address of the server, such as ``"https://api.example.com"``; else ``CASEKIT_URL``.
    token
        Bearer token; else ``CASEKIT_TOKEN``. Never shown, logged or pickled.
    timeout
        Seconds without a byte after which an attempt is given up.
    retry
        How long a request may take in all, 60 s if not given.

    Raises
    ------
    ConfigError
        No URL or no token, or one that cannot be used.

    Examples
    --------
    >>> Client("http://127.0.0.1:8765", token="tok-123456")
    Client('http://127.0.0.1:8765')
    """

    def _open(self) -> None:
        super()._open()
        self._planned: dict[Write, str] = {}  # the keys that dry runs have shown

    # ------------------------------------------------------------ lists

    def test_set_pages(
        self,
        test_set_id: str,
        version: str,
        *,
        on_wait: OnWait | None = None,
        stop: threading.Event | None = None,
    ) -> Generator[Page, None, None]:
        """The pages of a version of a corrections test set, newest corrected run first.

        Parameters
        ----------
        test_set_id, version
            Such as ``"acme.drafting-accuracy"`` and ``"1.2.0"``.
        on_wait
            Called with a few words and the seconds before each wait, from another thread.
        stop
            Set it from another thread to end the walk with a `TransportError`.

        Yields
        ------
        Page
            Fetched ahead, a few at a time.

        Raises
        ------
        ConfigError
            The version is not of the form 1.2.3.
        CasekitError
            See `casekit.errors`; an error ends the walk.

        Examples
        --------
        >>> import casekit as ck
        >>> with ck.LocalServer() as server, ck.Client(server.url, token=server.token) as client:
        ...     _ = server.add_test_set("acme.demo", "1.0.0", [])
        ...     [page] = client.test_set_pages("acme.demo", "1.0.0")
        >>> page.body
        b'{"data":[],"hasMore":false}'
        """
        path = f"/v1/test-sets/{segment(test_set_id, 'test set id')}/versions/{checked_version(version)}/cases"
        return self._pages(path, {}, f"test set {one_line(test_set_id, 120)} {one_line(version, 60)}", on_wait, stop)

    def agent_case_pages(
        self,
        agent_id: str,
        project_id: str | None = None,
        *,
        on_wait: OnWait | None = None,
        stop: threading.Event | None = None,
    ) -> Generator[Page, None, None]:
        """The pages of an agent's live test set; otherwise as `test_set_pages`.

        Parameters
        ----------
        agent_id
            Such as ``"acme.drafting"``.
        project_id
            Only cases of this project (a UUID).
        on_wait, stop
            As in `test_set_pages`.

        Yields
        ------
        Page
            Retired cases stay listed.

        Raises
        ------
        ConfigError
            The project is no UUID.
        CasekitError
            See `casekit.errors`; an error ends the walk.

        Examples
        --------
        >>> import casekit as ck
        >>> with ck.LocalServer() as server, ck.Client(server.url, token=server.token) as client:
        ...     server.add_run("acme.drafting", "run-1")
        ...     [page] = client.agent_case_pages("acme.drafting")
        >>> page.body
        b'{"data":[],"hasMore":false}'
        """
        query = {} if project_id is None else {"projectId": _checked_uuid(project_id)}
        path = f"/v1/agents/{segment(agent_id, 'agent id')}/test-set/cases"
        return self._pages(path, query, f"test set of agent {one_line(agent_id, 120)}", on_wait, stop)

    def _pages(
        self, path: str, query: Mapping[str, str], about: str, on_wait: OnWait | None, stop: threading.Event | None
    ) -> Generator[Page, None, None]:
        def walk(work: Background[Page]) -> None:
            cursor: str | None = None
            seen: set[str] = set()
            held: list[Page] = []  # until the next request is out: who reads a page keeps Python from sending it

            def hand_over() -> None:
                while held:
                    work.give(held.pop())

            while True:
                if not work.room(at_once=True):
                    hand_over()
                    if not work.room():
                        return
                parameters = {"limit": str(PAGE_CASES), **query, **({} if cursor is None else {"cursor": cursor})}
                target = f"{path}?{urlencode(parameters, quote_via=quote, safe='')}"
                request = Request("GET", target, about, cursor=cursor is not None)
                try:
                    answer, attempts, waited = self._send(work, request, on_wait, hand_over)
                finally:
                    hand_over()
                cursor = self._following(answer, request, seen)
                held.append(Page(answer.body, request_id_of(answer, self._secret()), attempts - 1, waited))
                if cursor is None:
                    hand_over()
                    return

        return self._in_background(walk, stop)

    def _following(self, answer: Answer, request: Request, seen: set[str]) -> str | None:
        """The cursor after an answer, which no answer gave before."""
        refuse_markup(answer, request, self._secret())
        try:
            cursor = next_cursor(answer.body)
            if cursor in seen:
                raise IncompletePull(
                    "the server gave the same nextCursor twice: its pages go in a circle; report it to its operator"
                )
        except ProtocolError as error:
            request_id = request_id_of(answer, self._secret())
            raise type(error)(f"{request.about}: {error}", status=answer.status, request_id=request_id) from None
        if cursor is not None:
            seen.add(cursor)
        return cursor

    # ------------------------------------------------------------ writes

    @overload
    def add_case(
        self,
        agent_id: str,
        run_id: str,
        *,
        decisions: str | None = ...,
        should_call: Sequence[Mapping[str, Any]] | None = ...,
        must_not_call: Sequence[str] | None = ...,
        answer: str | None = ...,
        should_say: str | None = ...,
        why: str | None = ...,
        items: Sequence[Mapping[str, Any]] | None = ...,
        dry_run: Literal[False] = ...,
    ) -> AgentCase: ...

    @overload
    def add_case(
        self,
        agent_id: str,
        run_id: str,
        *,
        decisions: str | None = ...,
        should_call: Sequence[Mapping[str, Any]] | None = ...,
        must_not_call: Sequence[str] | None = ...,
        answer: str | None = ...,
        should_say: str | None = ...,
        why: str | None = ...,
        items: Sequence[Mapping[str, Any]] | None = ...,
        dry_run: Literal[True],
    ) -> PlannedWrite: ...

    def add_case(
        self,
        agent_id: str,
        run_id: str,
        *,
        decisions: str | None = None,
        should_call: Sequence[Mapping[str, Any]] | None = None,
        must_not_call: Sequence[str] | None = None,
        answer: str | None = None,
        should_say: str | None = None,
        why: str | None = None,
        items: Sequence[Mapping[str, Any]] | None = None,
        dry_run: bool = False,
    ) -> AgentCase | PlannedWrite:
        """Add a case by hand, from one of the agent's finished runs.

        Parameters
        ----------
        agent_id, run_id
            The agent, and the run the case is made of.
        decisions
            ``"right"`` or ``"wrong"``: the run's tool calls. ``"wrong"`` needs ``should_call`` or ``must_not_call``.
        should_call
            Calls the run should have made: ``{"tool": …, "args": {…}}``, args where they matter.
        must_not_call
            Tools it should not have called.
        answer
            ``"right"`` or ``"wrong"``: the run's answer. ``"wrong"`` needs ``should_say`` or ``why``.
        should_say, why
            What the answer should have said, and why it was wrong.
        items
            Verdicts on a ranked answer's items: ``{"key": …, "verdict": "right"}``, each key once.
        dry_run
            Send nothing, and return what would be sent.

        Returns
        -------
        AgentCase or PlannedWrite
            The case as the server answered it; in a dry run, the request.

        Raises
        ------
        ConfigError
            The case breaks a documented rule; the message names the field. Nothing was sent.
        JournalError
            The journal of writes cannot be kept. Nothing was sent.
        TransportError
            No answer came. The same call again finds out what became of the write, and makes no second case.
        ProtocolError
            The answer is no case of this run; otherwise as a `TransportError`.
        CasekitError
            See `casekit.errors`.

        Examples
        --------
        >>> import casekit as ck
        >>> with ck.LocalServer() as server, ck.Client(server.url, token=server.token) as client:
        ...     server.add_run("acme.drafting", "run-1")
        ...     plan = client.add_case("acme.drafting", "run-1", answer="wrong", why="too long", dry_run=True)
        ...     case = client.add_case("acme.drafting", "run-1", answer="wrong", why="too long")
        >>> plan.body
        '{"runId":"run-1","answer":"wrong","why":"too long"}'
        >>> case.kind, case.run_id, case.retired
        ('hand', 'run-1', None)
        """
        values = {
            "run_id": run_id,
            "decisions": decisions,
            "should_call": None if should_call is None else list(should_call),
            "must_not_call": None if must_not_call is None else list(must_not_call),
            "answer": answer,
            "should_say": should_say,
            "why": why,
            "items": None if items is None else list(items),
        }
        path = f"/v1/agents/{segment(agent_id, 'agent id')}/test-set/cases"
        about = f"adding a case to agent {one_line(agent_id, 120)}"

        def unlike(case: AgentCase) -> str | None:
            return None if case.run_id == run_id else f"is a case of another run, {one_line(case.run_id, 120)!r}"

        request = Request("POST", path, about, body=checked_body(AddCase, values), good=range(200, 300))
        return self._write(request, unlike, dry_run)

    @overload
    def retire_case(self, agent_id: str, case_id: str, *, reason: str, dry_run: Literal[False] = ...) -> AgentCase: ...

    @overload
    def retire_case(self, agent_id: str, case_id: str, *, reason: str, dry_run: Literal[True]) -> PlannedWrite: ...

    def retire_case(
        self, agent_id: str, case_id: str, *, reason: str, dry_run: bool = False
    ) -> AgentCase | PlannedWrite:
        """Retire a case of an agent's live test set, for good: it stays listed, and no test run checks it.

        Parameters
        ----------
        agent_id, case_id
            The agent and its case.
        reason
            Why the case no longer applies, 1 to 4,000 characters.
        dry_run
            Send nothing, and return what would be sent.

        Returns
        -------
        AgentCase or PlannedWrite
            The case, retired; in a dry run, the request.

        Raises
        ------
        ConflictError
            The case was retired before (code ``test-case-retired``); ``perhaps_own`` where that may be the doing of an
            earlier attempt whose answer was lost.
        ConfigError
            The reason is missing or too long. Nothing was sent.
        JournalError
            The journal of writes cannot be kept. Nothing was sent.
        TransportError
            No answer came. The same call again finds out what became of the write.
        ProtocolError
            The answer is not this case, retired; otherwise as a `TransportError`.
        CasekitError
            See `casekit.errors`.

        Examples
        --------
        >>> import casekit as ck
        >>> with ck.LocalServer() as server, ck.Client(server.url, token=server.token) as client:
        ...     server.add_run("acme.drafting", "run-1")
        ...     case = client.add_case("acme.drafting", "run-1", answer="right")
        ...     retired = client.retire_case("acme.drafting", case.id, reason="the tool was removed")
        >>> retired.id == case.id, retired.retired.reason
        (True, 'the tool was removed')
        """
        agent, case = segment(agent_id, "agent id"), segment(case_id, "case id")
        path, body = f"/v1/agents/{agent}/test-set/cases/{case}/retire", checked_body(RetireCase, {"reason": reason})
        about = f"retiring case {one_line(case_id, 120)} of agent {one_line(agent_id, 120)}"

        def unlike(case: AgentCase) -> str | None:
            if case.id != case_id:
                return f"is another case, {one_line(case.id, 120)!r}"
            return "is the case, but not retired" if case.retired is None else None

        return self._write(Request("POST", path, about, body=body), unlike, dry_run)

    def _write(self, request: Request, unlike: Unlike, dry_run: bool) -> AgentCase | PlannedWrite:
        """Send a write under one idempotency key, however often it is sent, and by how many calls after a crash."""
        body = request.body or b""
        journal, write = Journal(), Write.of(self.url, self._secret(), request.method, request.target, body)
        if dry_run:
            pending = journal.pending(write)
            with self._lock:
                key = pending or self._planned.setdefault(write, str(uuid.uuid4()))
            headers = head(replace(request, key=key))
            url = self.url + request.target
            return PlannedWrite(request.method, url, headers, body.decode(), key, pending is not None)
        with self._lock:
            planned = self._planned.pop(write, None)
        begun = journal.begin(write, planned)
        try:
            case = self._written(replace(request, key=begun.key, unsure=begun.again), unlike)
        except ApiError as error:
            if is_settled(error):
                _forget(journal, begun.key)
            raise
        _forget(journal, begun.key)
        return case

    def _written(self, request: Request, unlike: Unlike) -> AgentCase:
        """The case as the server answered it, once it is the one that was asked for."""

        def send(work: Background[Answer]) -> None:
            answer, _, _ = self._send(work, request)
            work.give(answer)

        [answer] = self._in_background(send)
        refuse_markup(answer, request, self._secret())
        found = _case_in(answer.body, unlike)
        if isinstance(found, AgentCase):
            return found
        raise ProtocolError(
            f"{request.about}: its answer {self._secret().hide(found)}; {MAYBE_DONE}",
            status=answer.status,
            request_id=request_id_of(answer, self._secret()),
        )


def _case_in(body: bytes, unlike: Unlike) -> AgentCase | str:
    """The case in a write's answer, or what is wrong with it: who raises that must hold no word of the case."""
    try:
        case = AgentCase.model_validate_json(mended(body))
    except pydantic.ValidationError as error:
        return f"is not a case: {first_problem(error)}"
    except ValueError as error:
        return f"is not a case: {error}"
    return unlike(case) or case


def _forget(journal: Journal, key: str) -> None:
    """Take out a write whose outcome is known; that it is, matters more than that it stays in for a while."""
    try:
        journal.settle(key)
    except JournalError as error:
        _log.warning("a write is done with, but stays in the journal: %s", error)


def _checked_uuid(value: str) -> str:
    try:
        return str(uuid.UUID(value))
    except (ValueError, AttributeError, TypeError):
        raise ConfigError(f"project_id {one_line(str(value), 60)!r} is not a UUID") from None
