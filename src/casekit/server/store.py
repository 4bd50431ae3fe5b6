"""The server's database: SQLite, in memory or in one file.

Each case stands once, as its JSON text. A write and the answer kept for its ``Idempotency-Key`` are one transaction.
Every method takes the store's lock, so that the server's thread and the notebook's can use it together.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from casekit.errors import ConfigError
from casekit.server import jsontext
from casekit.server.jsontext import IndexedAgentCase, IndexedCase
from casekit.server.problems import Answer, Problem
from casekit.server.records import Caller

__all__ = ["DatabaseBusy", "Run", "Store", "key_mismatch"]

APPLICATION_ID = 0x63617365  # "case", in the file's header: no other program's database is taken for one
FORMAT = 1
BUSY_TIMEOUT = 1.0  # seconds a statement waits for another process

_SCHEMA = """
CREATE TABLE secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE tokens (hash BLOB PRIMARY KEY, kind TEXT NOT NULL, id TEXT NOT NULL, can_write INTEGER NOT NULL);
CREATE TABLE versions (
    number INTEGER PRIMARY KEY, test_set_id TEXT NOT NULL, version TEXT NOT NULL, digest BLOB NOT NULL,
    UNIQUE (test_set_id, version)
);
CREATE TABLE cases (
    position INTEGER PRIMARY KEY, version_number INTEGER NOT NULL REFERENCES versions, case_id TEXT NOT NULL,
    run_id TEXT NOT NULL, json BLOB NOT NULL,
    UNIQUE (version_number, case_id)
);
CREATE INDEX cases_in_order ON cases (version_number, position);
CREATE INDEX cases_by_id ON cases (case_id);
CREATE INDEX cases_by_run ON cases (run_id);
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY, agent_id TEXT NOT NULL, project_id TEXT NOT NULL, version TEXT NOT NULL, output BLOB,
    erased INTEGER NOT NULL, replay_of TEXT
);
CREATE INDEX runs_by_agent ON runs (agent_id);
CREATE TABLE agent_cases (
    position INTEGER PRIMARY KEY, agent_id TEXT NOT NULL, case_id TEXT NOT NULL, project_id TEXT NOT NULL,
    retired INTEGER NOT NULL, json BLOB NOT NULL,
    UNIQUE (agent_id, case_id)
);
CREATE INDEX agent_cases_by_project ON agent_cases (agent_id, project_id, position);
CREATE TABLE answers (
    caller TEXT NOT NULL, key TEXT NOT NULL, fingerprint BLOB NOT NULL, status INTEGER NOT NULL,
    request_id TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (caller, key)
);
"""


class DatabaseBusy(ConfigError):
    """Another process holds the database file."""


@dataclass(frozen=True)
class Run:
    """A run of an agent; ``output`` is JSON text, ``None`` when unfinished or erased."""

    run_id: str
    agent_id: str
    project_id: str
    version: str
    output: bytes | None
    erased: bool
    replay_of: str | None


class Store:
    """The database of one server.

    Parameters
    ----------
    path
        A SQLite file, made when it is not there; ``":memory:"`` for none.
    """

    def __init__(self, path: str) -> None:
        self._lock = threading.RLock()
        self._path = path
        try:
            # Autocommit: transactions are opened by hand, each one write lock from its first statement on.
            self._db = sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise ConfigError(f"The database file {path!r} cannot be opened: {error}.") from error
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise
        self.sealing_key = bytes(self._value("SELECT value FROM secrets WHERE name = 'sealing key'"))

    def _prepare(self) -> None:
        try:
            application, tables = (
                self._value("PRAGMA application_id"),
                self._value("SELECT count(*) FROM sqlite_schema"),
            )
            if (application, self._value("PRAGMA user_version")) != (APPLICATION_ID, FORMAT) and tables:
                raise ConfigError(f"The file {self._path!r} is no database of this server: name another file.")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute("PRAGMA secure_delete = ON")  # an erased text leaves no bytes in free pages
            if not tables:
                self._db.executescript(
                    f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA application_id = {APPLICATION_ID};"
                    f" PRAGMA user_version = {FORMAT};"
                    f" INSERT INTO secrets VALUES ('sealing key', x'{secrets.token_hex(32)}'); COMMIT;"
                )
        except sqlite3.DatabaseError as error:
            raise ConfigError(f"The file {self._path!r} cannot be used as the server's database: {error}.") from error

    def close(self) -> None:
        """Close the database; closing twice is nothing."""
        with self._lock:
            self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Hold the lock, and the file's write lock; commit at the end, or undo all when something was raised."""
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
                self._db.execute("COMMIT")
            except BaseException as error:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                if isinstance(error, sqlite3.OperationalError):
                    raise self._named(error) from error
                raise

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._db.execute(query, values).fetchall()
            except sqlite3.OperationalError as error:
                raise self._named(error) from error

    def _value(self, query: str, *values: Any) -> Any:
        rows = self._rows(query, *values)
        return rows[0][0] if rows else None

    def _named(self, error: sqlite3.OperationalError) -> ConfigError:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return DatabaseBusy(f"Another process holds the database file {self._path!r}: try again when it is done.")
        return ConfigError(f"The database {self._path!r} cannot be used: {error}.")

    # Tokens ----------------------------------------------------------------------------------------------------------

    def put_token(self, digest: bytes, caller: Caller) -> None:
        """Let a token, known by its SHA-256 alone, stand for a caller."""
        with self.transaction() as db:
            values = (digest, caller.kind, caller.id, caller.can_write)
            db.execute("INSERT OR REPLACE INTO tokens VALUES (?, ?, ?, ?)", values)

    def caller(self, digest: bytes) -> Caller | None:
        """Return whose token has this SHA-256."""
        rows = self._rows("SELECT kind, id, can_write FROM tokens WHERE hash = ?", digest)
        return Caller(rows[0][0], rows[0][1], bool(rows[0][2])) if rows else None

    # Corrections test sets -------------------------------------------------------------------------------------------

    def add_version(self, test_set_id: str, version: str, cases: Sequence[IndexedCase]) -> None:
        """Add a version with its cases in order; the same cases again are nothing."""
        digest = hashlib.sha256(b"".join(hashlib.sha256(case.text).digest() for case in cases)).digest()
        with self.transaction() as db:
            query = "SELECT digest FROM versions WHERE test_set_id = ? AND version = ?"
            known = self._value(query, test_set_id, version)
            if known == digest:
                return
            if known is not None:
                raise ConfigError(f"{test_set_id} {version} is there with other cases, and a version never changes.")
            insert = "INSERT INTO versions (test_set_id, version, digest) VALUES (?, ?, ?)"
            number = db.execute(insert, (test_set_id, version, digest)).lastrowid
            insert = "INSERT INTO cases (version_number, case_id, run_id, json) VALUES (?, ?, ?, ?)"
            db.executemany(insert, ((number, *case) for case in cases))

    def version_number(self, test_set_id: str, version: str) -> int:
        """Return the number of a version; 404 for a set or version that is not there."""
        number = self._value("SELECT number FROM versions WHERE test_set_id = ? AND version = ?", test_set_id, version)
        if number is not None:
            return int(number)
        if self._value("SELECT 1 FROM versions WHERE test_set_id = ?", test_set_id):
            raise Problem(
                404, "version-not-found", f"The test set {test_set_id[:100]!r} has no version {version[:100]}."
            )
        raise Problem(404, "test-set-not-found", f"There is no test set {test_set_id[:100]!r}.")

    def cases(self, version_number: int, after: int, most: int) -> list[tuple[int, bytes]]:
        """Return position and JSON text of the cases after a position."""
        query = "SELECT position, json FROM cases WHERE version_number = ? AND position > ? ORDER BY position LIMIT ?"
        return self._rows(query, version_number, after, most)

    def erase_cases(self, case_ids: Iterable[str]) -> int:
        """Clear cases in every version they stand in, and return how many that were."""
        with self.transaction() as db:
            erased = 0
            for case_id in case_ids:
                found = self._clear(db, "case_id", case_id)
                if not found:
                    raise ConfigError(f"No version of a test set has a case {case_id!r}: nothing was erased.")
                erased += found
        self._forget()
        return erased

    def erase_run(self, run_id: str) -> int:
        """Clear a run and the cases copied from it, and return how many cases that were."""
        with self.transaction() as db:
            known = db.execute("UPDATE runs SET output = NULL, erased = 1 WHERE run_id = ?", (run_id,)).rowcount
            erased = self._clear(db, "run_id", run_id)
            if not known and not erased:
                raise ConfigError(f"There is no run {run_id!r}, and no case of one: nothing was erased.")
        self._forget()
        return erased

    def _clear(self, db: sqlite3.Connection, column: str, value: str) -> int:
        found = self._rows(f"SELECT position, json FROM cases WHERE {column} = ?", value)
        cleared = [(jsontext.erase(text), position) for position, text in found]
        db.executemany("UPDATE cases SET json = ? WHERE position = ?", cleared)
        return len(cleared)

    def _forget(self) -> None:
        # The write-ahead log still holds the erased texts until it is written back and emptied.
        if self._value("PRAGMA wal_checkpoint(TRUNCATE)"):
            raise DatabaseBusy(
                f"The erased text is served no more, but another process reads {self._path!r}, so that bytes of it are "
                "still in the log beside it: erase again when that process is done."
            )

    # Agents ----------------------------------------------------------------------------------------------------------

    def add_run(self, run: Run) -> None:
        """Add a run; its id must be new."""
        with self.transaction() as db:
            if self.run(run.run_id):
                raise ConfigError(f"There is a run {run.run_id!r} already.")
            db.execute("INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", tuple(vars(run).values()))

    def run(self, run_id: str) -> Run | None:
        """Return a run."""
        query = "SELECT agent_id, project_id, version, output, erased, replay_of FROM runs WHERE run_id = ?"
        for agent_id, project_id, version, output, erased, replay_of in self._rows(query, run_id):
            return Run(run_id, agent_id, project_id, version, output, bool(erased), replay_of)
        return None

    def knows_agent(self, agent_id: str) -> bool:
        """Whether an agent has a run or a case."""
        query = "SELECT 1 FROM runs WHERE agent_id = ? UNION ALL SELECT 1 FROM agent_cases WHERE agent_id = ? LIMIT 1"
        return self._value(query, agent_id, agent_id) is not None

    def insert_agent_case(self, agent_id: str, case: IndexedAgentCase) -> None:
        """Add a case to an agent's test set, as its newest; for use in a transaction."""
        if self.agent_case(agent_id, case.case_id):
            raise ConfigError(f"The test set of {agent_id} has a case {case.case_id!r} already.")
        insert = "INSERT INTO agent_cases (agent_id, case_id, project_id, retired, json) VALUES (?, ?, ?, ?, ?)"
        self._rows(insert, agent_id, case.case_id, case.project_id.lower(), case.retired, case.text)

    def retire_agent_case(self, agent_id: str, case_id: str, text: bytes) -> None:
        """Put the text of the retired case in place of the case's; for use in a transaction."""
        update = "UPDATE agent_cases SET json = ?, retired = 1 WHERE agent_id = ? AND case_id = ?"
        self._rows(update, text, agent_id, case_id)

    def agent_case(self, agent_id: str, case_id: str) -> tuple[bytes, bool] | None:
        """Return the JSON text of an agent's case, and whether it is retired."""
        query = "SELECT json, retired FROM agent_cases WHERE agent_id = ? AND case_id = ?"
        for text, retired in self._rows(query, agent_id, case_id):
            return text, bool(retired)
        return None

    def agent_cases(self, agent_id: str, project_id: str | None, before: int, most: int) -> list[tuple[int, bytes]]:
        """Return position and JSON text of an agent's cases before a position, newest first."""
        chosen, values = ("AND project_id = ?", (project_id.lower(),)) if project_id is not None else ("", ())
        query = f"SELECT position, json FROM agent_cases WHERE agent_id = ? {chosen} AND position < ?"
        return self._rows(f"{query} ORDER BY position DESC LIMIT ?", agent_id, *values, before, most)

    # Idempotency -----------------------------------------------------------------------------------------------------

    def write_once(self, caller: str, key: str | None, fingerprint: bytes, work: Callable[[], Answer]) -> Answer:
        """Run a write and keep its answer under the caller's key, in one transaction; a known key runs nothing.

        Whatever ``work`` raises undoes the write and keeps no answer.
        """
        with self.transaction():
            kept = self._rows("SELECT * FROM answers WHERE caller = ? AND key = ?", caller, key) if key else []
            for _, _, first, status, request_id, body in kept:
                if first != fingerprint:
                    raise key_mismatch()
                return Answer(status, body, request_id)
            answer = work()
            if key:
                values = (caller, key, fingerprint, answer.status, answer.request_id, answer.body)
                self._rows("INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?)", *values)
            return answer


def key_mismatch() -> Problem:
    """Return the refusal of a key that was used for another request."""
    message = "This Idempotency-Key was used for another request: take a new key for a new write."
    return Problem(409, "idempotency-key-body-mismatch", message)
