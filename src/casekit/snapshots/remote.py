"""A folder at a URL, through fsspec: what is read and written there, without a word of what gives access to it.

Storage that keeps objects (S3, Google Cloud, Azure) has no folders, no renaming and no locks: a file is put whole, read
whole, listed and taken away, and that is all that is asked of it here.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa

from casekit.errors import CasekitError, ConfigError, MissingExtraError, SnapshotError, one_line

__all__ = ["RemoteFolder", "each", "inside", "is_url", "without_secrets"]

REQUESTS: Final = 8  # that are on their way at a time
SHOWN: Final = 1200  # characters of a place in messages; a key of S3 has 1,024 bytes at most

Given = TypeVar("Given")
Found = TypeVar("Found")

# A letter alone before the colon is a drive of Windows. "simplecache::s3://" and the like are URLs of fsspec's.
_URL: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]+::)*[A-Za-z][A-Za-z0-9+.-]+://")
# Of errors that a library gives without the system's number.
_NUMBERS: Final[dict[type[OSError], int]] = {FileNotFoundError: errno.ENOENT, PermissionError: errno.EACCES}
_USER: Final = re.compile(r"//(?:[^/]*@|[^/]*:(?!\d+(?:[/?#]|$)).*@)")  # also where the password has a slash in it


def is_url(path: object) -> bool:
    r"""Whether a place is given as a URL.

    Examples
    --------
    >>> [is_url(one) for one in ("s3://bucket/a", "C:\\data", "c://data", "data/a", Path("a"))]
    [True, False, False, False, False]
    """
    return isinstance(path, str) and _URL.match(path) is not None


def without_secrets(place: str | os.PathLike[str]) -> str:
    """A path or URL as it may be shown: of a URL, without user, password, query and fragment.

    Examples
    --------
    >>> without_secrets("https://someone:word@host:8443/snapshots/a?signature=word")
    'https://host:8443/snapshots/a'
    """
    text = os.fspath(place)
    if not is_url(text):
        return one_line(text, SHOWN)
    bare = _USER.sub("//", text).partition("?")[0]
    return one_line(bare.partition("#")[0] if bare.startswith("http") else bare, SHOWN)


def inside(folder: str | os.PathLike[str], name: str) -> str | Path:
    """The place of that name in a folder, be it on this machine or at a URL.

    Examples
    --------
    >>> inside("s3://bucket/snapshots/", "acme-1.0.0")
    's3://bucket/snapshots/acme-1.0.0'
    """
    if not isinstance(folder, str) or not is_url(folder):
        return Path(folder) / name
    place, mark, query = folder.partition("?")
    return f"{place.rstrip('/')}/{name}{mark}{query}"


def each(work: Callable[[Given], Found], things: Sequence[Given], threads: int = REQUESTS) -> list[Found]:
    """The results for some things, in their order, several worked on at a time."""
    if len(things) < 2:
        return [work(thing) for thing in things]
    with ThreadPoolExecutor(threads, thread_name_prefix="casekit-storage") as pool:
        return list(pool.map(work, things))


class RemoteFolder:
    """A folder of files in some storage.

    Names of files are relative to it, with ``/``. Whatever a library says of its storage becomes a `SnapshotError`
    that names the file and the kind of the fault, and no more: its own words may hold what gives access.

    Parameters
    ----------
    filesystem, path
        As fsspec has them.
    title
        The URL as it may be shown.
    query
        What follows each path on the web, with its question mark.
    """

    def __init__(self, filesystem: Any, path: str, title: str, query: str = "") -> None:
        self._filesystem, self._path, self._query, self.title = filesystem, path.rstrip("/"), query, title

    @classmethod
    def at(cls, url: str) -> RemoteFolder:
        """The folder at a URL.

        Raises
        ------
        MissingExtraError
            fsspec, or the package for this kind of storage, is not installed.
        ConfigError
            The URL is of no kind that fsspec knows, or names no folder.
        SnapshotError
            The storage cannot be reached.
        """
        title = without_secrets(url)
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise MissingExtraError(f"{title} is reached through fsspec: pip install 'casekit[remote]'.") from None
        with _spoken_of(title):
            try:
                filesystem, path = url_to_fs(url)
            except ImportError as error:
                raise MissingExtraError(f"{title} needs one package more: {error}.") from None
            except ValueError as error:
                unknown = str(error).startswith("Protocol not known")
                why = "fsspec knows no such kind of URL" if unknown else "fsspec cannot take it apart"
                raise ConfigError(f"{title} cannot be used: {why}") from None
        path, mark, query = path.partition("?") if path.startswith("http") else (path, "", "")
        if not path.strip("/"):
            raise ConfigError(f"{title} names no folder: give one, such as {title}bucket/snapshots")
        return cls(filesystem, path, title.rstrip("/"), mark + query)

    @property
    def location(self) -> str:
        """Where it is, without what gives access to it."""
        return self.title

    def _at(self, name: str) -> str:
        return f"{self._path}/{name}".rstrip("/") + self._query

    def shown(self, name: str) -> str:
        """A file of it, for messages."""
        return one_line(f"{self.title}/{name}".rstrip("/"), SHOWN)

    # ------------------------------------------------------------ reading

    def text(self, name: str, limit: int) -> bytes:
        """The bytes of a file, at most so many.

        Raises
        ------
        FileNotFoundError
            There is none.
        """
        with _spoken_of(self.shown(name), missing=False):
            found: bytes = self._filesystem.cat_file(self._at(name), start=0, end=limit)
        return found

    def stamps(self, names: Iterable[str]) -> dict[str, tuple[int, ...] | None]:
        """The size of each file; None where there is none."""
        wanted = list(names)
        folders = sorted({name.rpartition("/")[0] for name in wanted})
        try:
            listed = {name: size for folder in folders for name, size in self._listed(folder)}
        except SnapshotError:
            listed = {}
        # Storage that lists nothing, such as a web server, or not to everybody, is asked for each file.
        unknown = [name for name in wanted if listed.get(name) is None]
        listed |= dict(zip(unknown, each(self._size, unknown), strict=True))
        return {name: None if (size := listed[name]) is None else (size,) for name in wanted}

    def has(self, name: str) -> bool:
        """Whether there is a file of that name."""
        return self._size(name) is not None

    def _size(self, name: str) -> int | None:
        with _spoken_of(self.shown(name)):
            self._filesystem.invalidate_cache()
            try:
                found = self._filesystem.info(self._at(name))
            except FileNotFoundError:
                return None
            return found["size"] if found["type"] == "file" else None

    def open(self, name: str, stamp: tuple[int, ...]) -> pa.NativeFile:
        """The whole of a file, fetched at once.

        Raises
        ------
        FileNotFoundError
            It is there no more, or another.
        """
        found = self.text(name, stamp[0])
        if len(found) != stamp[0]:
            raise FileNotFoundError(self.shown(name))
        return pa.BufferReader(found)

    def names(self, folder: str = "") -> list[str]:
        """What stands in it, or in a folder of it; of a file, nothing."""
        start = f"{folder}/" if folder else ""
        return sorted(name.removeprefix(start) for name, _ in self._listed(folder) if name not in ("", folder))

    def _listed(self, folder: str) -> list[tuple[str, int | None]]:
        """Names and, of files, sizes."""
        with _spoken_of(self.shown(folder)):
            self._filesystem.invalidate_cache()  # fsspec keeps listings, and others may have written since
            try:
                found = self._filesystem.ls(self._at(folder), detail=True)
            except (FileNotFoundError, NotADirectoryError):
                return []
            return [(self._name(one["name"]), one["size"] if one["type"] == "file" else None) for one in found]

    def _name(self, path: str) -> str:
        """The name, relative to this folder, of what fsspec names."""
        return path.partition("?")[0].removeprefix(self._path).strip("/")

    def files(self) -> list[str]:
        """Names of all files below it."""
        with _spoken_of(self.title):
            self._filesystem.invalidate_cache()
            return sorted(name for path in self._filesystem.find(self._at("")) if (name := self._name(path)))

    def modified(self, name: str) -> datetime | None:
        """When a file was put there, by the storage's clock; None where it is gone or nobody keeps the time."""
        with _spoken_of(self.shown(name)):
            self._filesystem.invalidate_cache()
            try:
                found: datetime = self._filesystem.modified(self._at(name))
            except (FileNotFoundError, NotImplementedError):
                return None
            return found

    # ------------------------------------------------------------ other folders

    def child(self, name: str) -> RemoteFolder:
        """A folder inside it."""
        return RemoteFolder(self._filesystem, f"{self._path}/{name}", self.shown(name), self._query)

    def parent(self) -> RemoteFolder | None:
        """The folder it is in; None for the root of the storage."""
        above = self._path.rpartition("/")[0]
        if not above.strip("/"):
            return None
        return RemoteFolder(self._filesystem, above, self.title.rpartition("/")[0], self._query)

    @property
    def name(self) -> str:
        """Its own name."""
        return self._path.rpartition("/")[2]

    @classmethod
    def matching(cls, pattern: str) -> list[RemoteFolder] | None:
        """Folders that match a pattern, by name; None where the URL is no pattern."""
        above, name = _parted(pattern)
        if not name:
            return None
        root = cls.at(above)
        with _spoken_of(without_secrets(pattern)):
            root._filesystem.invalidate_cache()
            found = root._filesystem.glob(root._at(name))
        return [root.child(root._name(path)) for path in sorted(found)]

    # ------------------------------------------------------------ writing

    def put(self, file: Path, name: str) -> None:
        """Put a file there, in place of any other."""
        with _spoken_of(self.shown(name)):
            self._filesystem.put_file(str(file), self._at(name))

    def put_text(self, name: str, text: bytes) -> None:
        """Put some bytes there as a file, in place of any other."""
        with _spoken_of(self.shown(name)):
            self._filesystem.pipe_file(self._at(name), text)

    def remove(self, names: Sequence[str]) -> None:
        """Take files and whole folders away; those that are gone already are no fault."""
        each(self._remove, names)

    def _remove(self, name: str) -> None:
        with _spoken_of(self.shown(name)):
            self._filesystem.invalidate_cache()
            try:
                self._filesystem.rm(self._at(name), recursive=True)
            except FileNotFoundError:
                return  # somebody else was quicker


def _parted(pattern: str) -> tuple[str, str]:
    """The folder that a pattern starts from, and the rest of it, which is empty where there is no pattern."""
    begin = pattern.index("://") + 3
    server = len(pattern[begin:].partition("/")[0])  # with a password that may have any sign in it
    sign = re.search(r"[*?\[]", pattern[begin + server :])
    if sign is None:
        return pattern, ""
    start = pattern[: begin + server + sign.start()].rpartition("/")[0]
    return start, pattern[len(start) + 1 :]


@contextmanager
def _spoken_of(title: str, *, missing: bool = True) -> Iterator[None]:
    """Whatever goes wrong is told in casekit's words, except, where the caller asks for it, that a file is missing."""
    try:
        yield
    except CasekitError:
        raise
    except Exception as error:  # of any library: each kind of storage has its own
        if isinstance(error, FileNotFoundError) and not missing:
            raise
        number = (error.errno or _NUMBERS.get(type(error))) if isinstance(error, OSError) else None
        why = os.strerror(number) if isinstance(number, int) else type(error).__name__
        raise SnapshotError(
            f"{title} cannot be reached ({why}): see that the address is right, and what gives access to it"
        ) from None
