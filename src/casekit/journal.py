"""The journal of writes: which were begun, and have no known outcome yet.

A write's idempotency key is kept here before the write is sent, and taken out when its outcome is known. Whoever makes
the same write again (same server, token, path and body) meanwhile repeats it under the same key, also after a crash:
the server then does it once. Tokens and bodies are here as keyed hashes alone.

The journal is a SQLite file in a folder for state: ``CASEKIT_STATE``, else the system's place for it.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from casekit.errors import JournalError
from casekit.http.secret import Token

__all__ = ["Begun", "Journal", "Write", "state_folder"]

FILE: Final = "writes.sqlite3"
APPLICATION_ID: Final = 0x636B6A6C  # "ckjl", in the file's header: no other program's database is taken for one
FORMAT: Final = 1
SYNCHRONOUS: Final = "FULL"  # a key is on disk before its write leaves, also when the power goes
LOCK_SECONDS: Final = 10.0  # a statement waits for another process
KEPT_SECONDS: Final = 30 * 86_400.0  # no server remembers a key for longer, and hashes of words are no keepsake

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS writes (
    server TEXT NOT NULL, caller TEXT NOT NULL, method TEXT NOT NULL, path TEXT NOT NULL, body TEXT NOT NULL,
    key TEXT NOT NULL UNIQUE, begun REAL NOT NULL,
    PRIMARY KEY (server, caller, method, path, body)
)
"""
_SAME: Final = "server = ? AND caller = ? AND method = ? AND path = ? AND body = ?"


@dataclass(frozen=True)
class Write:
    """What makes two writes the same one.

    Attributes
    ----------
    server : str
        Address of the server.
    caller, body : str
        Hashes of the token, and of the body under the token.
    method, path : str
        Of the request.
    """

    server: str
    caller: str
    method: str
    path: str
    body: str

    @classmethod
    def of(cls, server: str, token: Token, method: str, path: str, body: bytes) -> Write:
        """The write, its token and body as hashes.

        Examples
        --------
        >>> one, same = (Write.of("https://api.example.com", Token("tok-1"), "POST", "/v1", b"{}") for _ in "12")
        >>> one == same
        True
        """
        return cls(server, token.sign(b"caller"), method, path, token.sign(b"body\n" + body))

    def _values(self) -> tuple[str, ...]:
        return self.server, self.caller, self.method, self.path, self.body


@dataclass(frozen=True)
class Begun:
    """A write that may be sent now.

    Attributes
    ----------
    key : str
        Its idempotency key.
    again : bool
        An earlier attempt was begun, and its outcome never became known.
    """

    key: str
    again: bool


class Journal:
    """Keeps the keys of writes under way.

    Parameters
    ----------
    folder
        Where the file is, made when it is not there; else `state_folder`.

    Examples
    --------
    >>> import tempfile
    >>> journal = Journal(tempfile.mkdtemp())
    >>> write = Write.of("https://api.example.com", Token("tok-1"), "POST", "/v1", b"{}")
    >>> first, second = journal.begin(write), journal.begin(write)
    >>> first.key == second.key, first.again, second.again
    (True, False, True)
    >>> journal.settle(first.key)
    >>> journal.pending(write) is None
    True
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.file = (state_folder() if folder is None else Path(folder)) / FILE

    def pending(self, write: Write) -> str | None:
        """The key of a write that was begun and has no known outcome; makes no file.

        Raises
        ------
        JournalError
            The journal cannot be read.
        """
        if not self.file.exists():
            return None
        with self._open() as db:
            found = db.execute(f"SELECT key FROM writes WHERE {_SAME}", write._values()).fetchone()
        return None if found is None else str(found[0])

    def begin(self, write: Write, key: str | None = None) -> Begun:
        """Keep the key of a write before it is sent; on disk when this returns.

        Parameters
        ----------
        write
            The write.
        key
            For a new one; else one is made.

        Raises
        ------
        JournalError
            The journal cannot be kept; the write must not be sent.
        """
        with self._open() as db:
            db.execute("DELETE FROM writes WHERE begun < ?", (time.time() - KEPT_SECONDS,))
            values = (*write._values(), key or str(uuid.uuid4()), time.time())
            new = db.execute("INSERT OR IGNORE INTO writes VALUES (?, ?, ?, ?, ?, ?, ?)", values).rowcount == 1
            (kept,) = db.execute(f"SELECT key FROM writes WHERE {_SAME}", write._values()).fetchone()
        return Begun(kept, again=not new)

    def settle(self, key: str) -> None:
        """The outcome of a write is known: forget it.

        Raises
        ------
        JournalError
            The journal cannot be written.
        """
        with self._open() as db:
            db.execute("DELETE FROM writes WHERE key = ?", (key,))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """One transaction, on a connection of its own: threads, processes and forks share nothing but the file."""
        try:
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.file, os.O_CREAT | os.O_RDWR, 0o600))
            if self.file.stat().st_mode & 0o077:
                self.file.chmod(0o600)
            with closing(sqlite3.connect(self.file, timeout=LOCK_SECONDS, isolation_level=None)) as db:
                db.execute("PRAGMA secure_delete = ON")
                db.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
                db.execute("BEGIN IMMEDIATE")
                self._prepare(db)
                yield db
                db.execute("COMMIT")
        except (OSError, sqlite3.Error) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise JournalError(
                f"the journal of writes cannot be kept ({why}), and without it no write is sent: "
                "set CASEKIT_STATE to a folder of your own on a local disk"
            ) from None

    @staticmethod
    def _prepare(db: sqlite3.Connection) -> None:
        names = ("application_id", "user_version")
        found = tuple(db.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
        if found == (APPLICATION_ID, FORMAT):
            return
        (tables,) = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if tables:
            raise sqlite3.DatabaseError("the file is of another program or version")
        db.execute(_TABLE)
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {FORMAT}")


def state_folder() -> Path:
    """The folder for what casekit has to remember: ``CASEKIT_STATE``, else the system's place for a user's state."""
    if given := os.environ.get("CASEKIT_STATE"):
        return Path(given)
    try:
        home = Path.home()
    except RuntimeError:
        raise JournalError("this user has no home folder: set CASEKIT_STATE to a folder of your own") from None
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local") / "casekit"
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "casekit"
    return Path(os.environ.get("XDG_STATE_HOME") or home / ".local" / "state") / "casekit"
