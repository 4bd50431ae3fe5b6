from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from casekit import journal as journal_module
from casekit.errors import JournalError
from casekit.http.secret import Token
from casekit.journal import Journal, Write, state_folder

TOKEN = Token("tok-0123456789")
WORDS = "the reviewer said the tool was removed"


def write(
    body: str = WORDS, *, server: str = "https://api.example.com", token: Token = TOKEN, path: str = "/v1"
) -> Write:
    """Return a write."""
    return Write.of(server, token, "POST", path, body.encode())


def test_the_same_write_keeps_its_key_until_its_outcome_is_known() -> None:
    """Begun again it has the same key, and after the outcome a new one."""
    journal = Journal()
    first, again = journal.begin(write()), journal.begin(write())
    assert (first.again, again.again, again.key) == (False, True, first.key)
    journal.settle(first.key)
    anew = journal.begin(write())
    assert not anew.again
    assert anew.key != first.key


@pytest.mark.parametrize(
    "other",
    [
        write("other words"),
        write(server="https://other.example.com"),
        write(token=Token("tok-another-one")),
        write(path="/v2"),
        Write.of("https://api.example.com", TOKEN, "PUT", "/v1", WORDS.encode()),
    ],
)
def test_another_server_caller_method_path_or_body_is_another_write(other: Write) -> None:
    """Only the very same write has the same key."""
    journal = Journal()
    assert journal.begin(write()).key != journal.begin(other).key


def test_a_key_that_was_shown_before_is_taken_for_a_new_write_alone() -> None:
    """A write under way keeps the key it was sent with."""
    journal = Journal()
    assert journal.begin(write(), "shown").key == "shown"
    assert journal.begin(write(), "later").key == "shown"


def test_looking_for_a_pending_write_makes_nothing(state: Path) -> None:
    """There is no folder after a look."""
    assert Journal().pending(write()) is None
    assert not state.exists()


def test_neither_token_nor_words_are_in_the_folder(state: Path) -> None:
    """Not while the write is pending, not after; not in any file."""
    journal = Journal()
    begun = journal.begin(write())
    for _ in ("pending", "settled"):
        held = b"".join(file.read_bytes() for file in state.iterdir())
        assert begun.key.encode() in held or _ == "settled"
        assert b"tok-0123456789" not in held
        assert not any(word.encode() in held for word in WORDS.split())
        journal.settle(begun.key)


def test_after_its_outcome_nothing_of_a_write_is_left(state: Path) -> None:
    """Key, path and hashes are gone from the file's bytes."""
    journal, one = Journal(), write(path="/v1/agents/acme.drafting")
    begun = journal.begin(one)
    journal.settle(begun.key)
    held = b"".join(file.read_bytes() for file in state.iterdir())
    assert not any(part.encode() in held for part in (begun.key, one.body, one.caller, "acme.drafting"))


def test_a_hash_cannot_be_guessed_without_the_token() -> None:
    """The same words under two tokens have two hashes."""
    assert write().body != write(token=Token("tok-another-one")).body


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_nobody_else_can_read_the_journal(state: Path) -> None:
    """The folder and the file are the user's alone, also where the file was open to others."""
    journal = Journal()
    journal.begin(write())
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert stat.S_IMODE(journal.file.stat().st_mode) == 0o600
    journal.file.chmod(0o644)
    journal.pending(write())
    assert stat.S_IMODE(journal.file.stat().st_mode) == 0o600


def test_a_write_long_past_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server remembers its key any more."""
    journal = Journal()
    first = journal.begin(write())
    month = journal_module.KEPT_SECONDS
    later = time.time() + month + 60
    monkeypatch.setattr(time, "time", lambda: later)
    anew = journal.begin(write())
    assert (anew.again, anew.key == first.key) == (False, False)


def test_a_process_that_dies_leaves_the_key_behind(state: Path) -> None:
    """What began before the end of a process is pending after it, and has the key that was sent."""
    program = (
        "import os\nfrom casekit.journal import Journal, Write\nfrom casekit.http.secret import Token\n"
        "write = Write.of('https://api.example.com', Token('tok-0123456789'), 'POST', '/v1', b'{}')\n"
        "print(Journal().begin(write).key, flush=True)\nos._exit(9)\n"
    )
    died = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert died.returncode == 9
    assert Journal().pending(write("{}")) == died.stdout.strip()


def test_many_threads_begin_one_write_under_one_key() -> None:
    """One is first, and all have its key."""
    ready = threading.Barrier(8)

    def begin(_: int) -> tuple[str, bool]:
        ready.wait()
        begun = Journal().begin(write())
        return begun.key, begun.again

    with ThreadPoolExecutor(8) as pool:
        begun = list(pool.map(begin, range(8)))
    assert len({key for key, _ in begun}) == 1
    assert sorted(again for _, again in begun) == [False] + [True] * 7


def test_a_file_of_another_program_is_left_alone(state: Path) -> None:
    """It is an error that says the way out, and the file stays as it is."""
    state.mkdir()
    with sqlite3.connect(state / "writes.sqlite3") as db:
        db.execute("CREATE TABLE notes (text TEXT)")
    db.close()
    before = (state / "writes.sqlite3").read_bytes()
    with pytest.raises(JournalError, match=r"another program or version.*no write is sent: set CASEKIT_STATE"):
        Journal().begin(write())
    assert (state / "writes.sqlite3").read_bytes() == before


def test_a_damaged_file_is_an_error(state: Path) -> None:
    """A journal that cannot be read must not be taken for an empty one."""
    state.mkdir()
    (state / "writes.sqlite3").write_bytes(b"no database" * 100)
    for use in (Journal().begin, Journal().pending):
        with pytest.raises(JournalError, match="file is not a database"):
            use(write())


def test_a_journal_that_somebody_holds_is_an_error(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait is bounded."""
    monkeypatch.setattr(journal_module, "LOCK_SECONDS", 0.01)
    Journal().begin(write())
    holder = sqlite3.connect(state / "writes.sqlite3", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(JournalError, match="database is locked"):
            Journal().begin(write())
    finally:
        holder.close()


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    """The message names the variable to set."""
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="set CASEKIT_STATE"):
        Journal(tmp_path / "file" / "state").begin(write())


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_STATE_HOME": "/x"}, Path("/x/casekit")),
        ("linux", {}, Path("/home/u/.local/state/casekit")),
        ("darwin", {}, Path("/home/u/Library/Application Support/casekit")),
        ("win32", {"LOCALAPPDATA": "/l"}, Path("/l/casekit")),
        ("win32", {}, Path("/home/u/AppData/Local/casekit")),
        ("linux", {"CASEKIT_STATE": "/mine"}, Path("/mine")),
    ],
)
def test_the_folder_is_the_systems_place_for_state(
    monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], expected: Path
) -> None:
    """CASEKIT_STATE goes first."""
    for name in ("CASEKIT_STATE", "XDG_STATE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("/home/u"))
    assert state_folder() == expected


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no place for the journal then."""

    def none() -> Path:
        raise RuntimeError

    monkeypatch.delenv("CASEKIT_STATE")
    monkeypatch.setattr(Path, "home", none)
    with pytest.raises(JournalError, match="no home folder: set CASEKIT_STATE"):
        state_folder()
