"""A folder that is replaced whole: one writer at a time, written beside its place and swapped in.

While ``<name>`` is written there stands beside it::

    .<name>.<8 hex digits>.casekit-tmp   what is being written, or, after an exchange, what stood there before
    .<name>.old.casekit-tmp              what stood there before, where the system cannot exchange two folders

A writer that was killed leaves them there; the next one brings back what was moved aside, and takes away the rest.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import secrets
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

from casekit.errors import SnapshotBusyError, SnapshotError, one_line

__all__ = [
    "STAGED",
    "file_error",
    "locked",
    "locked_by_name",
    "staging_for",
    "swap",
    "sweep",
    "sync",
    "wait_for_swap",
    "write_whole",
]

STAGED: Final = ".casekit-tmp"  # ending of a folder that is being written or taken away
SWAP_SECONDS: Final = 10.0  # how long a reader waits for a writer that has moved the folder aside
BUSY_SECONDS: Final = 0.2  # how long a writer waits for another: a reader that mends holds the lock for an instant
RENAME_EXCHANGE: Final = 2  # of Linux' renameat2
AT_FDCWD: Final = -100  # the same


def file_error(path: Path | str, error: BaseException) -> SnapshotError:
    """What the system said, as an error of casekit's."""
    why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else type(error).__name__
    return SnapshotError(f"{one_line(str(path), 500)}: {why}. What stood there before stands")


def locked(target: Path, seconds: float = BUSY_SECONDS) -> FileLock:
    """The lock of a target folder, taken: one writer on this machine; raises as `locked_by_name` does."""
    return locked_by_name(os.fsencode(os.path.realpath(target)), one_line(str(target), 500), seconds)


def locked_by_name(name: bytes, title: str, seconds: float = BUSY_SECONDS) -> FileLock:
    """The lock of whatever has that name, taken.

    The lock file lies in the system's folder for temporary files, so that no stray file stands beside the snapshot.

    Parameters
    ----------
    name, title
        What tells it apart, and what messages call it.
    seconds
        How long to wait for another who holds it.

    Raises
    ------
    SnapshotBusyError
        Somebody else holds it, and did so for the given seconds.
    SnapshotError
        There is no place for lock files.
    """
    try:
        locks = Path(tempfile.gettempdir()) / f"casekit-locks-{os.getuid() if hasattr(os, 'getuid') else 'all'}"
        locks.mkdir(mode=0o700, exist_ok=True)
        lock = FileLock(locks / f"{hashlib.sha256(name).hexdigest()}.lock", timeout=seconds, thread_local=False)
        lock.acquire()
    except Timeout:
        raise SnapshotBusyError(f"{title} is being written by someone else: wait until they are done") from None
    except OSError as error:
        raise file_error(f"{title}, whose lock is in the folder for temporary files", error) from error
    return lock


def staging_for(target: Path) -> Path:
    """A new folder beside the target; call with the lock held."""
    staging = target.with_name(f".{target.name}.{secrets.token_hex(4)}{STAGED}")
    staging.mkdir()
    return staging


def _aside(target: Path) -> Path:
    return target.with_name(f".{target.name}.old{STAGED}")


def sweep(target: Path) -> None:
    """Clean up after writers that were killed; call with the lock held.

    What one had moved aside comes back, unless its successor stands; all else that one left beside the target goes.
    """
    aside = _aside(target)
    if aside.is_dir() and not target.exists():
        os.rename(aside, target)
    left = re.compile(rf"\.{re.escape(target.name)}\.(?:old|[0-9a-f]{{8}}){re.escape(STAGED)}")
    for entry in os.scandir(target.parent):
        if left.fullmatch(entry.name):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)


def wait_for_swap(target: Path) -> bool:
    """For a reader that finds no folder: wait for a writer between its two steps, or mend what a killed one left.

    Returns
    -------
    bool
        Whether there was anything to wait for, or to mend.
    """
    if not _aside(target).is_dir():
        return False
    lock = locked(target, SWAP_SECONDS)
    try:
        sweep(target)
    finally:
        lock.release()
    return True


def write_whole(path: Path, text: bytes) -> None:
    """Write a file so that it lasts."""
    with path.open("wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def sync(folder: Path) -> None:
    """Make a folder's entries last; systems that cannot open a folder need no such thing."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def swap(staging: Path, target: Path) -> None:
    """Put a finished folder in the place of another, so that either the old or the new one stands there.

    Raises
    ------
    OSError
        It could not be done; what stood there stands.
    SnapshotError
        It was done, and what stood there before could not be taken away.
    """
    before: Path | None = None
    if not target.exists():
        os.rename(staging, target)
    elif exchanged(staging, target):
        before = staging
    else:
        # Two steps where the system cannot exchange: should the second never come, sweep undoes the first.
        before = _aside(target)
        os.rename(target, before)
        try:
            os.rename(staging, target)
        except OSError:
            os.rename(before, target)
            raise
    sync(target.parent)
    if before is not None:
        try:
            shutil.rmtree(before)
        except OSError as error:
            why = os.strerror(error.errno) if error.errno else type(error).__name__
            raise SnapshotError(
                f"{one_line(str(target), 500)} is the new snapshot, but the old one could not be taken away ({why}): "
                f"delete {one_line(str(before), 500)}, which still holds its texts"
            ) from error


def exchanged(one: Path, other: Path) -> bool:
    """Exchange two folders in one step (Linux); False where the system or its file system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    return bool(renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0)
