"""The folder of a snapshot on this machine, and the folders that a path, a pattern or a URL means."""

from __future__ import annotations

import errno
import glob
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from casekit.errors import ConfigError, SnapshotError, one_line
from casekit.files import STAGED
from casekit.snapshots.manifest import MANIFEST
from casekit.snapshots.remote import RemoteFolder, each, is_url, without_secrets

__all__ = ["Folder", "LocalFolder", "Place", "damaged", "folder_at", "folders_at", "local_path"]

Place = str | os.PathLike[str]


class LocalFolder:
    """A folder of files on this machine.

    Parameters
    ----------
    path
        Where it is.

    Attributes
    ----------
    location, title : str
        Where it is, as text, and as messages show it.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.location, self.title = path, str(path), one_line(str(path), 500)

    @property
    def name(self) -> str:
        """Its own name."""
        return self.path.name

    def shown(self, name: str) -> str:
        """A file of it, for messages."""
        return one_line(str(self.path / name), 500)

    def text(self, name: str, limit: int) -> bytes:
        """The bytes of a file, at most so many.

        Raises
        ------
        FileNotFoundError
            There is none.
        SnapshotError
            It is no plain file, or cannot be read.
        """
        path = self.path / name
        try:
            if path.is_symlink() or (path.exists() and not path.is_file()):
                raise SnapshotError(f"{self.shown(name)} is no plain file: the folder is no snapshot")
            with path.open("rb") as file:
                return file.read(limit)
        except NotADirectoryError as error:
            raise FileNotFoundError(self.shown(name)) from error
        except FileNotFoundError:
            raise
        except OSError as error:
            raise damaged(self.shown(name), error) from error

    def stamps(self, names: Iterable[str]) -> dict[str, tuple[int, ...] | None]:
        """What tells each file from any other that has stood or will stand there, its size first; None: no such file.

        A symbolic link, and a file in a folder that is one, is none.
        """
        return {name: self._stamp(self.path / name) for name in names}

    def _stamp(self, path: Path) -> tuple[int, ...] | None:
        if path.is_symlink() or not path.is_file() or (path.parent != self.path and path.parent.is_symlink()):
            return None
        found = path.stat()
        return found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev

    def open(self, name: str, stamp: tuple[int, ...]) -> pa.NativeFile:
        """A file, opened.

        Raises
        ------
        FileNotFoundError
            It is there no more, or another.
        """
        file = pa.OSFile(str(self.path / name))
        if self._stamp(self.path / name) != stamp:  # asked once it is open: so it is this very file
            file.close()
            raise FileNotFoundError(self.shown(name))
        return file

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return (self.path / name).is_file()

    def names(self, folder: str = "") -> list[str]:
        """What stands in it, or in a folder of it; of a file, nothing."""
        path = self.path / folder
        return sorted(os.listdir(path)) if path.is_dir() and (not folder or not path.is_symlink()) else []

    def child(self, name: str) -> LocalFolder:
        """A folder inside it."""
        return LocalFolder(self.path / name)

    def parent(self) -> LocalFolder:
        """The folder it is in."""
        return LocalFolder(self.path.parent)


Folder = LocalFolder | RemoteFolder


def damaged(name: str, error: BaseException) -> SnapshotError:
    """What the system, or a reader of Parquet, said of a file."""
    why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else type(error).__name__
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return SnapshotError(f"{name} cannot be read ({why}): read fewer snapshots at a time, or raise `ulimit -n`")
    return SnapshotError(f"{name} cannot be read ({why}): the snapshot is damaged; pull again")


def local_path(place: Place) -> Path | None:
    """The path that is meant, on this machine; None for a URL of elsewhere.

    Raises
    ------
    ConfigError
        It is neither a path nor a URL; or a URL came as a Path, which has taken a slash out of it.
    """
    given: object = place
    text = os.fspath(given) if isinstance(given, (str, os.PathLike)) else None
    if not isinstance(text, str) or "\0" in text:
        shown = without_secrets(text) if isinstance(text, str) else repr(given)
        raise ConfigError(f"a place is given as a path or a URL, not as {one_line(shown, 100)}")
    if text.encode(errors="replace").decode() != text:  # pyarrow opens no such file
        raise ConfigError(f"the name {without_secrets(text)} is not in UTF-8: rename the folder")
    if not isinstance(place, str):
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:[/\\]", text):
            raise ConfigError(f"give the URL {one_line(text.partition(':')[0], 50)}://... as a text, not as a Path")
        return Path(place)
    here = re.sub(r"^(?:file|local)://(?:/(?=[A-Za-z]:))?", "", text)
    return None if is_url(here) else Path(here)


def folder_at(place: Place) -> Folder:
    """The folder at a path or a URL."""
    path = local_path(place)
    return LocalFolder(path) if path is not None else RemoteFolder.at(os.fspath(place))


def folders_at(place: Place | Sequence[Place]) -> list[Folder]:
    """The snapshots' folders that are meant by a folder, a folder of folders, a pattern, or a list of these."""
    if isinstance(place, Iterable) and not isinstance(place, (str, bytes, os.PathLike)):
        return [folder for found in each(folders_at, list(place)) for folder in found]
    path = local_path(place)
    if path is None:
        return _remote_folders(os.fspath(place))
    if glob.has_magic(str(path)) and not path.exists():
        start, pattern = _parted(path)
        matching = sorted(start / one for one in glob.glob(pattern, root_dir=start))
        found = [one for one in matching if (one / MANIFEST).is_file()]
        if not found:
            raise SnapshotError(f"no snapshot matches {one_line(str(path), 500)}")
        return [LocalFolder(one) for one in found]
    if path.is_dir() and not (path / MANIFEST).exists():
        inside = sorted(p.parent for p in path.glob(f"*/{MANIFEST}") if not p.parent.name.endswith(STAGED))
        return [LocalFolder(one) for one in inside or [path]]
    return [LocalFolder(path)]


def _parted(pattern: Path) -> tuple[Path, str]:
    """The folders that a pattern starts with, which are there by that very name, and the pattern below them."""
    start, rest = Path(pattern.anchor), list(pattern.parts[bool(pattern.anchor) :])
    while (start / rest[0]).exists():
        start /= rest.pop(0)
    return start, os.path.join(*rest)


def _remote_folders(url: str) -> list[Folder]:
    folder = RemoteFolder.at(url)
    if folder.has(MANIFEST):
        return [folder]
    matching = RemoteFolder.matching(url)
    among = matching if matching is not None else [folder.child(name) for name in folder.names()]
    found = [one for one, there in zip(among, each(lambda one: one.has(MANIFEST), among), strict=True) if there]
    if matching is not None and not found:
        raise SnapshotError(f"no snapshot matches {folder.title}")
    return [*found] or [folder]
