"""`LocalServer`: the API on a loopback port, with its data, its tokens and its faults."""

from __future__ import annotations

import atexit
import hashlib
import os
import secrets
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from casekit.errors import ConfigError, MissingExtraError
from casekit.server import jsontext
from casekit.server.faults import Fault, Faults
from casekit.server.identifiers import PROJECT_ID, TOKEN, VERSION
from casekit.server.records import Caller, RequestRecord
from casekit.server.store import Run, Store

if TYPE_CHECKING:
    from casekit.server.listener import Listener

__all__ = ["LocalServer"]

DEFAULT_PROJECT = "00000000-0000-4000-8000-000000000001"
RECORDS_KEPT = 10_000  # requests; older ones are dropped

Method = Literal["GET", "POST"]


class LocalServer:
    """The corrections API on 127.0.0.1, in a thread of this process, with a real database.

    It takes and refuses what the documented API does; nothing is sent off the machine. Used in ``with``, it serves
    from the start of the block to its end. It runs beside a notebook's own event loop.

    Parameters
    ----------
    db
        A SQLite file that keeps cases, idempotency answers, the key that seals cursors, and the tokens' hashes over
        restarts. Without it everything is in memory and gone at the end.
    port
        TCP port; 0 takes a free one, and keeps it when the server is stopped and started again.
    token
        Token of the first caller, the user ``local``, who may write; visible ASCII. Without it one is made up.

    Raises
    ------
    MissingExtraError
        Starlette or uvicorn is not installed.
    ConfigError
        The token, the port or the database file cannot be used.

    Examples
    --------
    >>> case = {
    ...     "caseId": "case-1", "subject": {"kind": "agent", "id": "acme.drafting", "version": "1.4.0"},
    ...     "input": "hello", "output": "hi", "items": [],
    ... }
    >>> with LocalServer() as server:
    ...     server.add_test_set("acme.drafting-accuracy", "1.2.0", [case])
    ...     server.url.startswith("http://127.0.0.1:")
    1
    True
    """

    def __init__(self, db: str | os.PathLike[str] | None = None, port: int = 0, token: str | None = None) -> None:
        _check_extra()
        if not 0 <= port <= 65_535:
            raise ConfigError(f"A port is a number from 0 to 65535, not {port}.")
        self._port = port
        self._lifecycle = threading.RLock()
        self._listener: Listener | None = None
        self._closed = False
        self._faults = Faults()
        self._records: deque[RequestRecord] = deque(maxlen=RECORDS_KEPT)
        self._store = Store(":memory:" if db is None else os.fspath(db))
        try:
            self._token = self.add_token(token, caller_id="local")
        except BaseException:
            self._store.close()
            raise

    # Life ------------------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Serve; a server that serves already is left alone.

        Returns
        -------
        LocalServer
            This server.

        Raises
        ------
        ConfigError
            The port is taken, or the server was closed.
        """
        with self._lifecycle:
            self._open()
            if self._listener is None:
                from casekit.server.app import Api
                from casekit.server.listener import Listener, listen

                listening = listen(self._port)
                self._port = listening.getsockname()[1]
                listener = Listener(
                    lambda stopping, cut: Api(self._store, self._faults, self._records, stopping, cut), listening
                )
                listener.start()
                self._listener = listener
                atexit.register(self.close)
        return self

    def stop(self) -> None:
        """Stop serving, and keep all data; `start` serves again on the same port. Stopping twice is nothing.

        A request that waits, or that has not come in whole, gets no answer and has not run.
        """
        with self._lifecycle:
            listener, self._listener = self._listener, None
            if listener is not None:
                atexit.unregister(self.close)
                listener.stop()

    def close(self) -> None:
        """Stop serving and close the database; what was in memory is gone. Closing twice is nothing."""
        with self._lifecycle:
            self._closed = True
            try:
                self.stop()
            finally:
                self._store.close()

    def wait(self) -> None:
        """Return when the server has stopped; Ctrl-C raises KeyboardInterrupt here as everywhere."""
        if listener := self._listener:
            listener.wait()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else "stopped" if self._listener is None else self.url
        return f"<LocalServer {state}>"

    @property
    def url(self) -> str:
        """Base URL, ``http://127.0.0.1:<port>``.

        Raises
        ------
        ConfigError
            No port was chosen, and the server has not served yet.
        """
        if self._port == 0:
            raise ConfigError("The server has no port yet: use it in a with block, or call start() first.")
        return f"http://127.0.0.1:{self._port}"

    @property
    def token(self) -> str:
        """Token of the user ``local``, who may read and write."""
        return self._token

    @property
    def requests(self) -> list[RequestRecord]:
        """The last 10,000 requests, in the order of their answers; a request is here before its answer is read."""
        return list(self._records)

    # Data ------------------------------------------------------------------------------------------------------------

    def add_test_set(self, test_set_id: str, version: str, cases: Iterable[Mapping[str, Any] | bytes | str]) -> int:
        """Add a version of a corrections test set.

        Parameters
        ----------
        test_set_id
            Id of the test set, one character or more.
        version
            Three numbers, such as ``"1.2.0"``.
        cases
            Case documents in the order to list them, as dicts or as JSON text. Text is served byte for byte. Each needs
            a ``caseId`` of its own; nothing else is checked, so that a test may serve an odd case.

        Returns
        -------
        int
            How many cases the version has.

        Raises
        ------
        ConfigError
            An argument cannot be used, or the version is there with other cases. The same cases again are nothing: a
            program may load its data at each start into one database file.

        Examples
        --------
        >>> with LocalServer() as server:
        ...     server.add_test_set("acme.demo", "1.0.0", [{"caseId": "case-1"}, '{"caseId": "case-2"}'])
        2
        """
        database = self._open()
        if not test_set_id:
            raise ConfigError("A test set needs an id.")
        if not VERSION.fullmatch(version):
            raise ConfigError(f"The version of a test set is three numbers, such as 1.2.0, not {version!r}.")
        indexed = []
        for place, case in enumerate(cases):
            try:
                indexed.append(jsontext.index_case(jsontext.encode(case)))
            except ConfigError as error:
                raise ConfigError(f"Case {place} (from 0) of {test_set_id} {version}: {error}") from error
        if len({case.case_id for case in indexed}) < len(indexed):
            raise ConfigError(f"A caseId stands twice in {test_set_id} {version}.")
        database.add_version(test_set_id, version, indexed)
        return len(indexed)

    def load_pages(self, folder: str | os.PathLike[str], test_set_id: str, version: str) -> int:
        """Add a version of a corrections test set from saved answers of its route.

        Parameters
        ----------
        folder
            Has the answers as ``page-*.json``, taken in the order of their numbers; each case is served as the bytes
            that stand in the file.
        test_set_id, version
            As in `add_test_set`.

        Returns
        -------
        int
            How many cases the version has.

        Raises
        ------
        ConfigError
            The folder has no page, a file is none, or an argument cannot be used, as in `add_test_set`.

        Examples
        --------
        >>> from casekit import sample
        >>> with LocalServer() as server:
        ...     server.load_pages(sample.pages_folder(), sample.TEST_SET_ID, sample.VERSION)
        1814
        """
        files = sorted(Path(folder).glob("page-*.json"), key=lambda file: (len(file.name), file.name))
        if not files:
            raise ConfigError(f"The folder {os.fspath(folder)!r} has no file page-*.json.")
        cases: list[bytes] = []
        for file in files:
            try:
                cases += jsontext.split_page(file.read_bytes())
            except ConfigError as error:
                raise ConfigError(f"{file.name} is no page of cases: {error}") from error
        return self.add_test_set(test_set_id, version, cases)

    def add_run(
        self,
        agent_id: str,
        run_id: str,
        *,
        project_id: str = DEFAULT_PROJECT,
        version: str = "1.0.0",
        output: Any = None,
        finished: bool = True,
        erased: bool = False,
        replay_of: str | None = None,
    ) -> None:
        """Add a run of an agent, from which a case may be added by hand.

        Parameters
        ----------
        agent_id, run_id
            The agent, and the run's own id, new to this server.
        project_id
            UUID of the run's project.
        version
            Version of the agent that ran.
        output
            What the run gave out, any JSON value: an item's pointer must lead to something in it.
        finished
            False: it has no output yet, and a case of it is refused with 409 ``run-not-finished``.
        erased
            True: an erasure cleared it, and a case of it is refused with 410 ``run-erased``.
        replay_of
            Id of the run that a comparison ran again as this one; a replay cannot be a case.

        Raises
        ------
        ConfigError
            An id is empty or known already, the project's is no UUID, or the output no JSON value.

        Examples
        --------
        >>> from casekit import Client
        >>> with LocalServer() as server, Client(server.url, token=server.token) as client:
        ...     server.add_run("acme.drafting", "run-1", output={"answer": "hi"})
        ...     client.add_case("acme.drafting", "run-1", answer="right").kind
        'hand'
        """
        if not agent_id or not run_id:
            raise ConfigError("A run needs an agent's id and an id of its own.")
        if not PROJECT_ID.fullmatch(project_id):
            raise ConfigError(f"A project's id is a UUID, not {project_id!r}.")
        text = jsontext.encode_value(output) if finished and not erased else None
        self._open().add_run(Run(run_id, agent_id, project_id, version, text, erased, replay_of))

    def add_agent_case(self, agent_id: str, document: Mapping[str, Any] | bytes | str) -> None:
        """Add a case to an agent's test set as its newest, such as one that a correction made.

        Parameters
        ----------
        agent_id
            The agent.
        document
            The case as the list gives it, a dict or JSON text; text is served byte for byte until it is retired. It
            needs an ``id`` new to the agent and a UUID as ``projectId``; nothing else is checked.

        Raises
        ------
        ConfigError
            The agent's id is empty, the document is no JSON object with these two, or the agent has the case already.

        Examples
        --------
        >>> from casekit import Client
        >>> case = {"id": "case-1", "projectId": "00000000-0000-4000-8000-000000000001"}
        >>> with LocalServer() as server, Client(server.url, token=server.token) as client:
        ...     server.add_agent_case("acme.drafting", case)
        ...     [page] = client.agent_case_pages("acme.drafting")
        >>> page.body
        b'{"data":[{"id":"case-1","projectId":"00000000-0000-4000-8000-000000000001"}],"hasMore":false}'
        """
        if not agent_id:
            raise ConfigError("An agent needs an id.")
        case = jsontext.index_agent_case(jsontext.encode(document))
        database = self._open()
        with database.transaction():
            database.insert_agent_case(agent_id, case)

    def erase_case(self, *case_ids: str) -> int:
        """Clear cases of corrections test sets, as an erasure of a person's words does.

        Input and output become null and the items empty; corrections, expectations, segments, context and every other
        member that may hold words are gone, from the database file too.

        Parameters
        ----------
        *case_ids
            Ids of the cases; each is cleared in every version it stands in.

        Returns
        -------
        int
            How many cases that were: a case may stand in several versions.

        Raises
        ------
        ConfigError
            A case is in no version (nothing was erased), or another process holds the file's log.

        Examples
        --------
        >>> with LocalServer() as server:
        ...     _ = server.add_test_set("acme.demo", "1.0.0", [{"caseId": "case-1", "input": "call me at noon"}])
        ...     server.erase_case("case-1")
        1
        """
        return self._open().erase_cases(case_ids)

    def erase_run(self, run_id: str) -> int:
        """Clear a run, and each case copied from it as in `erase_case`.

        Adding a case of the run is refused with 410 ``run-erased`` from now on.

        Parameters
        ----------
        run_id
            Id of the run, one of `add_run` or the ``runId`` of a case.

        Returns
        -------
        int
            How many cases of test sets were cleared: 0 where none was copied from the run.

        Raises
        ------
        ConfigError
            There is no such run and no case of one (nothing was erased), or another process holds the file's log.

        Examples
        --------
        >>> with LocalServer() as server:
        ...     _ = server.add_test_set("acme.demo", "1.0.0", [{"caseId": "case-1", "runId": "run-1"}])
        ...     server.erase_run("run-1")
        1
        """
        return self._open().erase_run(run_id)

    def add_token(
        self,
        token: str | None = None,
        *,
        caller_id: str,
        kind: Literal["user", "service"] = "user",
        can_write: bool = True,
    ) -> str:
        """Let a token in.

        Parameters
        ----------
        token
            Visible ASCII; ``None`` makes one up. Only its SHA-256 is kept.
        caller_id, kind
            Who it stands for. Callers have their own idempotency keys and cursors; two tokens of one caller share them.
        can_write
            False: a write is refused with 403 ``permission-denied``.

        Returns
        -------
        str
            The token.

        Raises
        ------
        ConfigError
            The token is empty, or has other characters.

        Examples
        --------
        >>> with LocalServer() as server:
        ...     server.add_token("reader-token", caller_id="reviewer-1", can_write=False)
        'reader-token'
        """
        if token is None:
            token = f"local_{secrets.token_urlsafe(32)}"
        elif not TOKEN.fullmatch(token):
            raise ConfigError("A token is one or more visible ASCII characters, without spaces.")
        digest = hashlib.sha256(token.encode("ascii")).digest()
        self._open().put_token(digest, Caller(kind, caller_id, can_write))
        return token

    # Faults ----------------------------------------------------------------------------------------------------------

    def fail_next(
        self,
        status: int = 503,
        code: str = "database-busy",
        retry_after: int | None = 1,
        times: int = 1,
        method: Method | None = None,
    ) -> None:
        """Answer the next requests with an error; nothing of them runs.

        Parameters
        ----------
        status, code
            HTTP status, 400 to 599, and the envelope's code.
        retry_after
            ``Retry-After`` in whole seconds; ``None``: no such header.
        times
            How many requests.
        method
            Only requests of this method; ``None``: of any.

        Raises
        ------
        ConfigError
            ``times`` is less than 1, or the status is none of an error.

        Examples
        --------
        >>> from casekit import Client, Retry
        >>> quick = Retry(first=0.001)
        >>> with LocalServer() as server, Client(server.url, token=server.token, retry=quick) as client:
        ...     _ = server.add_test_set("acme.demo", "1.0.0", [])
        ...     server.fail_next(503, "database-busy", retry_after=None)
        ...     [page] = client.test_set_pages("acme.demo", "1.0.0")
        >>> page.retries
        1
        """
        self._faults.add(Fault("fail", times, method, status=status, code=code, retry_after=retry_after))

    def lose_next(self, times: int = 1, method: Method | None = None) -> None:
        """Run the next requests, and cut the connection instead of answering: what they wrote stays written.

        Parameters
        ----------
        times, method
            As in `fail_next`.

        Raises
        ------
        ConfigError
            ``times`` is less than 1.

        Examples
        --------
        >>> from casekit import Client, Retry, load_agent_cases
        >>> quick = Retry(first=0.001)
        >>> with LocalServer() as server, Client(server.url, token=server.token, retry=quick) as client:
        ...     server.add_run("acme.drafting", "run-1")
        ...     server.lose_next(method="POST")
        ...     _ = client.add_case("acme.drafting", "run-1", answer="right")  # sent twice, done once
        ...     len(load_agent_cases("acme.drafting", client=client))
        1
        """
        self._faults.add(Fault("lose", times, method))

    def delay_next(self, seconds: float, times: int = 1, method: Method | None = None) -> None:
        """Let the next requests wait before they run; a write has claimed its ``Idempotency-Key`` by then.

        Parameters
        ----------
        seconds
            How long each waits, from 0.
        times, method
            As in `fail_next`.

        Raises
        ------
        ConfigError
            ``times`` is less than 1, or the wait is negative or has no end.

        Examples
        --------
        >>> from casekit import Client
        >>> with LocalServer() as server, Client(server.url, token=server.token) as client:
        ...     _ = server.add_test_set("acme.demo", "1.0.0", [])
        ...     server.delay_next(0.01)
        ...     [page] = client.test_set_pages("acme.demo", "1.0.0")
        >>> page.retries
        0
        """
        self._faults.add(Fault("delay", times, method, seconds=seconds))

    def _open(self) -> Store:
        if self._closed:
            raise ConfigError("The server was closed: make a new LocalServer.")
        return self._store


def _check_extra() -> None:
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(f"LocalServer needs {error.name}: pip install 'casekit[server]'.") from error
