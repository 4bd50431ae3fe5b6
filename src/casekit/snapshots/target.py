"""Where a snapshot is written: a folder on this machine, or one at a URL, which it takes whole.

On this machine it is written beside its place and swapped in (`casekit.files`).

At a URL there is nothing to swap and nobody to lock. The tables are written to a folder for temporary files, then put
into a new folder inside the target, the generation, and the manifest that names it is put last::

    <target>/snapshot.json       names the generation
    <target>/g-<16 hex digits>/  <table>.parquet; "committed", an empty file, once the manifest has named it

A reader sees the old manifest with the old files, or the new one with the new files. Then what was before goes:

* Generations that were named once, and are not by the manifest as it is read after they were listed. A manifest is put
  once, so what it named is never named again. "committed" says that it was put, and so does having seen it.
* Generations of writers that were killed: those of this machine at once, since the lock tells that their writer is
  gone; others a day after their last file came. Until then they may be a living writer's: the snapshot stands, and
  `SnapshotBusyError` tells of them.

So two writers on two machines harm no reader: the manifest that is put last wins, whole.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from filelock import FileLock

from casekit.errors import SnapshotBusyError, SnapshotError, one_line
from casekit.files import file_error, locked, locked_by_name, staging_for, swap, sweep, sync, write_whole
from casekit.snapshots.folder import Folder, LocalFolder, Place, local_path
from casekit.snapshots.manifest import (
    COMMITTED,
    DROPPINGS,
    FILES,
    FORMAT,
    GENERATION,
    MANIFEST,
    MANIFEST_MAX,
    SnapshotInfo,
)
from casekit.snapshots.remote import RemoteFolder, each
from casekit.snapshots.stored import opened

__all__ = ["Target", "standing", "target_at"]

UNFINISHED: Final = timedelta(days=1)  # after which a generation that is not committed is taken for a dead writer's
PUTTING: Final = 2  # files on their way at a time, since storage libraries hold a file of middling size in memory


class LocalTarget:
    """A folder on this machine, locked; tables are written to ``staging`` beside it.

    Parameters
    ----------
    path
        The folder to make or replace.

    Attributes
    ----------
    title, scene : str
        What messages call it, and the place where tables are written.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.abspath(path))
        self.title = self.scene = one_line(str(self.path), 500)
        self._lock = locked(self.path)
        try:
            if (self.path.parent / MANIFEST).exists():
                raise SnapshotError(f"{self.title} would stand inside another snapshot: give a folder beside it")
            self.path.parent.mkdir(parents=True, exist_ok=True)
            sweep(self.path)
            if self.path.is_symlink() or (self.path.exists() and not self.path.is_dir()):
                raise SnapshotError(f"{self.title} is not a folder: give a folder for the snapshot")
            _refuse_strangers(LocalFolder(self.path))
            self.staging = staging_for(self.path)
        except BaseException as error:
            self._lock.release()
            if isinstance(error, OSError):
                raise file_error(self.path, error) from error
            raise

    def commit(self, info: SnapshotInfo) -> SnapshotInfo:
        """Write the manifest, and swap the folder in."""
        try:
            write_whole(self.staging / MANIFEST, info.to_json())
            sync(self.staging)
            swap(self.staging, self.path)
        except OSError as error:
            raise file_error(self.path, error) from error
        return info

    def close(self) -> None:
        """Leave nothing beside it, and let others write."""
        try:
            shutil.rmtree(self.staging, ignore_errors=True)  # gone already after a swap
        finally:
            self._lock.release()


class RemoteTarget:
    """A folder at a URL; tables are written to ``staging``, a folder for temporary files.

    Parameters
    ----------
    url
        The folder to make or replace.

    Attributes
    ----------
    title, scene : str
        What messages call it, and the place where tables are written.
    """

    def __init__(self, url: str) -> None:
        self._folder = RemoteFolder.at(url)
        self.title = self._folder.title
        self._generation = f"g-{secrets.token_hex(8)}"
        self._begun = False  # whether files of the generation may be there that are not committed
        self._lock = locked_by_name(self.title.encode(), self.title)
        self._own = _uploads(self._lock)
        self.scene = f"{self.title}, whose files are first written to {one_line(str(self._own), 300)}"
        try:
            _refuse_strangers(self._folder)
            _sweep(self._folder, self._own)
            self._before = _named(self._folder)
            self.staging = self._own / self._generation
            self.staging.mkdir(mode=0o700, parents=True)
        except BaseException as error:
            self._lock.release()
            if isinstance(error, OSError):
                raise file_error(self.scene, error) from error
            raise

    def commit(self, info: SnapshotInfo) -> SnapshotInfo:
        """Put the files there and the manifest last, and take away what was before."""
        info = replace(info, generation=self._generation)
        text = info.to_json()
        try:
            self._begun = True
            each(lambda name: self._folder.put(self.staging / name, info.place(name)), list(info.files), PUTTING)
            stamps = self._folder.stamps(info.place(name) for name in info.files)
            for name, file in info.files.items():
                if stamps[info.place(name)] != (file.bytes,):
                    raise SnapshotError(f"{self._folder.shown(info.place(name))} did not arrive whole")
        except BaseException as error:
            kept = self._take_back()
            if isinstance(error, SnapshotError):
                raise SnapshotError(f"{error}. What stood there before stands{kept}") from None
            raise
        try:
            self._folder.put_text(MANIFEST, text)
        except SnapshotError as error:
            # The storage may have taken it all the same: what it may name is never taken away.
            if _named(self._folder) != self._generation:
                raise SnapshotError(
                    f"{error}. What stood there before stands; the next writer takes away {self._generation} beside it"
                ) from None
        try:
            self._folder.put_text(info.place(COMMITTED), b"")
            self._begun = False
            self._take_away_old()
        except SnapshotError as error:
            raise type(error)(f"{self.title} is the new snapshot, but old texts may still be there: {error}") from None
        return info

    def _take_back(self) -> str:
        """Take away what was put there in vain; what to say where it cannot be."""
        try:
            self._folder.remove([self._generation])
            self._begun = False
        except SnapshotError:
            return f", and {self._generation} beside it could not be taken away: the next writer does"
        return ""

    def _take_away_old(self) -> None:
        files = self._folder.files()  # listed before the manifest is read: see above
        named = _named(self._folder)
        generations: defaultdict[str, list[str]] = defaultdict(list)
        for file in files:
            generations[file.partition("/")[0]].append(file)
        old = [name for name in FILES - {MANIFEST} if name in generations and named is not None]
        unfinished: list[str] = []
        for name, of_it in generations.items():
            if name != named and GENERATION.fullmatch(name):
                over = name == self._before or f"{name}/{COMMITTED}" in of_it or self._is_old(of_it)
                (old if over else unfinished).append(name)
        self._folder.remove(old)
        left = sorted(set(old) & set(self._folder.names()))
        if left:
            raise SnapshotError(f"delete {one_line(', '.join(left), 300)} in it, which could not be taken away")
        if unfinished:
            raise SnapshotBusyError(
                f"somebody else is writing there, or was stopped within the last day, and left "
                f"{one_line(', '.join(sorted(unfinished)), 300)} in it: write again a day later, or delete it"
            )

    def _is_old(self, files: Iterable[str]) -> bool:
        """Whether the last file of a generation came long before this one's, by the storage's own clock."""
        now = self._folder.modified(f"{self._generation}/{COMMITTED}")
        times = [self._folder.modified(file) for file in files]
        return now is not None and all(time is not None and now - time > UNFINISHED for time in times)

    def close(self) -> None:
        """Leave no texts in the folder for temporary files, and let others write."""
        try:
            shutil.rmtree(self.staging if self._begun else self._own, ignore_errors=True)
            if self._begun:
                with suppress(OSError):  # else it is taken for a living writer's for a day
                    self.staging.mkdir(mode=0o700)  # for the next writer, who learns from it what was begun
        finally:
            self._lock.release()


Target = LocalTarget | RemoteTarget


def target_at(place: Place) -> Target:
    """The target at a path or a URL.

    Raises
    ------
    SnapshotBusyError
        Somebody else is writing there.
    SnapshotError
        Something that is no snapshot stands there, or it cannot be written.
    """
    path = local_path(place)
    return LocalTarget(path) if path is not None else RemoteTarget(os.fspath(place))


def standing(place: Place) -> SnapshotInfo:
    """The snapshot that stands there whole by its manifest and sizes, cleaned up after writers that were killed.

    Raises
    ------
    SnapshotBusyError
        Somebody is writing there.
    SnapshotError
        There is none, or a damaged one.
    """
    path = local_path(place)
    if path is not None:
        path = Path(os.path.abspath(path))
        folder: Folder = LocalFolder(path)
        lock = locked(path)
    else:
        folder = RemoteFolder.at(os.fspath(place))
        lock = locked_by_name(folder.title.encode(), folder.title)
    try:
        if isinstance(folder, LocalFolder):
            sweep(folder.path)
        else:
            _sweep(folder, _uploads(lock))
    except OSError as error:
        raise file_error(folder.title, error) from error
    finally:
        lock.release()
    return opened(folder, keep_open=False)[0]


def _uploads(lock: FileLock) -> Path:
    """Where tables wait on this machine to be put at the URL that is locked.

    Its folders have the names of generations: what a killed writer left tells the next one what it had begun.
    """
    return Path(lock.lock_file).with_suffix(".files")


def _sweep(folder: RemoteFolder, uploads: Path) -> None:
    """Take away what writers of this machine left when they were killed; call with the lock held."""
    begun = set(LocalFolder(uploads).names())
    if begun:
        dead = begun - {_named(folder)}
        folder.remove([name for name in folder.names() if name in dead and GENERATION.fullmatch(name)])
        shutil.rmtree(uploads)


def _named(folder: RemoteFolder) -> str | None:
    """The generation that the manifest names, of whatever version; None where it names none, or is damaged."""
    found = _manifest(folder)
    name = found.get("generation") if isinstance(found, dict) else None
    return name if isinstance(name, str) else None


def _refuse_strangers(folder: Folder) -> None:
    """Nothing but a snapshot, or an empty folder, is ever replaced."""
    others = []
    for name in folder.names():
        if GENERATION.fullmatch(name):
            parts = FILES | DROPPINGS | {COMMITTED}
            others += [f"{name}/{inside}" for inside in folder.names(name) if inside not in parts]
        elif name not in FILES | DROPPINGS:
            others.append(name)
    if others:
        raise SnapshotError(
            f"{folder.title} holds other files ({one_line(', '.join(others), 200)}): give another folder"
        )
    manifest = _manifest(folder)
    # One so damaged that it is no JSON is nobody's, and may go.
    if manifest is not None and not (isinstance(manifest, dict) and manifest.get("format") == FORMAT):
        raise SnapshotError(f"{folder.title} holds a {MANIFEST} that is not casekit's: give another folder")


def _manifest(folder: Folder) -> Any:
    """The JSON of the manifest, whatever it says; None where there is none, or no JSON."""
    try:
        return json.loads(folder.text(MANIFEST, MANIFEST_MAX + 1))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
