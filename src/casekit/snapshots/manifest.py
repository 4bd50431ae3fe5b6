"""What a snapshot says of itself: ``snapshot.json``, written and read.

Format 1::

    format          "casekit-snapshot"
    format_version  1
    test_sets       [{"test_set_id", "version"}]   empty for an agent's live test set
    agent_id        null, or the agent
    origin          scheme, host and port of the server
    fetched_at      when the last page came, RFC 3339 in UTC
    casekit         version that wrote it
    content_hash    SHA-256 over the sorted digests of the cases (casekit.wire.digest): the same
                    for any page size, order of cases or version of casekit
    files           {"<table>.parquet": {"sha256", "bytes", "rows"}}
    report          what the load met (casekit.report)
    left_out        what filters left out before it was written
    generation      only of a snapshot that was written to a URL: the folder inside it that holds the files,
                    "g-" and 16 hexadecimal digits, a new one each time
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from casekit import __version__
from casekit.card import Facts, html_card, sized, text_card
from casekit.errors import ConfigError, SnapshotError, one_line
from casekit.report import PullReport
from casekit.schema import TABLES
from casekit.source import LeftOut, Source

__all__ = [
    "COMMITTED",
    "DROPPINGS",
    "FILES",
    "FORMAT",
    "FORMAT_VERSION",
    "GENERATION",
    "MANIFEST",
    "MANIFEST_MAX",
    "MARK",
    "FileInfo",
    "SnapshotInfo",
    "mark",
]

FORMAT: Final = "casekit-snapshot"
FORMAT_VERSION: Final = 1
SUPPORTED_VERSIONS: Final = (1,)
MANIFEST: Final = "snapshot.json"
MANIFEST_MAX: Final = 64 * 2**20  # bytes; a larger manifest is not ours

FILES: Final = frozenset({MANIFEST, *(f"{name}.parquet" for name in TABLES)})
DROPPINGS: Final = frozenset({".DS_Store", "Thumbs.db", "desktop.ini"})  # of file managers; they hold no case
GENERATION: Final = re.compile("g-[0-9a-f]{16}")  # name of a folder that one writing to a URL filled
COMMITTED: Final = "committed"  # empty file in such a folder, once the manifest has named it
MARK: Final = b"casekit"  # key, in each Parquet file, of its own word about the snapshot it belongs to

_Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
_Count = Annotated[int, Meta(ge=0)]


def check_age(max_age: Any) -> None:
    """Refuse what is no age.

    Raises
    ------
    ConfigError
        It is no timedelta, or a negative one.
    """
    if not isinstance(max_age, timedelta) or max_age < timedelta(0):
        raise ConfigError(
            "max_age is a datetime.timedelta of zero or more, such as timedelta(hours=6), "
            f"not {one_line(repr(max_age), 100)}"
        )


def mark(content: str, rows: int) -> dict[str, Any]:
    """What each file says of the snapshot it belongs to, so that mixed files are found out."""
    return {"content_hash": content, "rows": rows}


@dataclass(frozen=True)
class FileInfo:
    """Hash, size and rows of one file."""

    sha256: _Hash
    bytes: _Count
    rows: _Count


class _Ref(Struct):
    """A version of a test set."""

    test_set_id: str
    version: str


class _Head(Struct):
    """What every version of the format has."""

    format: str
    format_version: int


class _Manifest(Struct):
    """Format 1, as it stands in the file."""

    test_sets: list[_Ref]
    agent_id: str | None
    origin: str | None
    fetched_at: Annotated[datetime, Meta(tz=True)]
    casekit: str
    content_hash: _Hash
    files: dict[str, FileInfo]
    report: dict[str, Any]
    left_out: list[LeftOut]
    generation: Annotated[str, Meta(pattern=rf"^{GENERATION.pattern}\Z")] | None = None


@dataclass(frozen=True, repr=False)
class SnapshotInfo:
    """What a snapshot says of itself: its manifest.

    Attributes
    ----------
    test_sets : tuple of (str, str)
        Test set and version; empty for an agent's live test set.
    agent_id : str or None
        The agent, for its live test set.
    origin : str or None
        Scheme, host and port of the server.
    fetched_at : datetime
        When the last page came, in UTC.
    casekit : str
        Version that wrote it.
    content_hash : str
        The same for the same cases, however they were fetched.
    files : dict
        Hash, size and rows of each file.
    report : PullReport
        What the load did and met.
    left_out : tuple of LeftOut
        What filters left out before it was written.
    generation : str or None
        The folder inside it that holds the files; None where they stand beside the manifest.

    Examples
    --------
    >>> import casekit as ck, tempfile
    >>> from casekit.schema import empty_tables
    >>> cases = ck.CaseSet(empty_tables(), Source(test_sets=(("acme.demo", "1.0.0"),)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     info = ck.write_snapshot(cases, folder)
    >>> info.title(), info.rows("cases"), info.place("items.parquet")
    ('acme.demo 1.0.0', 0, 'items.parquet')
    """

    test_sets: tuple[tuple[str, str], ...]
    agent_id: str | None
    origin: str | None
    fetched_at: datetime
    casekit: str
    content_hash: str
    files: Mapping[str, FileInfo]
    report: PullReport
    left_out: tuple[LeftOut, ...]
    generation: str | None = None

    @property
    def age(self) -> timedelta:
        """How long ago its last page came, by this machine's clock; less than zero where the clocks disagree."""
        return datetime.now(UTC) - self.fetched_at

    def place(self, file: str) -> str:
        """Where in the snapshot's folder a file stands.

        Parameters
        ----------
        file
            Its name, such as ``"items.parquet"``.

        Returns
        -------
        str
            With ``/`` on every system; whether the file is there is not looked at.
        """
        return file if self.generation is None else f"{self.generation}/{file}"

    def rows(self, table: str) -> int:
        """How many rows a table has.

        Parameters
        ----------
        table
            One of the names in ``casekit.schema.TABLES``, such as ``"items"``.

        Returns
        -------
        int
            As the manifest says.

        Raises
        ------
        KeyError
            No table has that name.
        """
        return self.files[f"{table}.parquet"].rows

    def title(self) -> str:
        """What was kept, in a few words.

        Returns
        -------
        str
            As `Source.title`: the test sets, the first three by name, or the agent.
        """
        return Source(self.test_sets, self.agent_id).title()

    def _facts(self) -> Facts:
        erased = f", {self.report.erased:,} erased" if self.report.erased else ""
        size = sum(file.bytes for file in self.files.values())
        return [
            ("cases", f"{self.rows('cases'):,}{erased}"),
            ("items", f"{self.rows('items'):,}"),
            *([("left out", "; ".join(map(str, self.left_out)))] if self.left_out else []),
            ("fetched", f"{self.fetched_at:%Y-%m-%d %H:%M} UTC from {self.origin or 'an unknown server'}"),
            ("content", self.content_hash),
            ("written by", f"casekit {self.casekit}, {sized(size)}"),
        ]

    def __repr__(self) -> str:
        """What it is, in words."""
        return text_card(self.title(), self._facts(), kind="SnapshotInfo")

    def _repr_html_(self) -> str:
        """The card that a notebook shows."""
        return html_card(self.title(), self._facts(), kind="SnapshotInfo")

    def to_json(self) -> bytes:
        """The manifest's bytes.

        Returns
        -------
        bytes
            JSON in UTF-8, as it stands in ``snapshot.json``; a lone surrogate is a question mark.

        Raises
        ------
        SnapshotError
            They are more than a manifest may have.
        """
        document: dict[str, Any] = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "test_sets": [{"test_set_id": name, "version": version} for name, version in self.test_sets],
            "agent_id": self.agent_id,
            "origin": self.origin,
            "fetched_at": self.fetched_at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
            "casekit": self.casekit,
            "content_hash": self.content_hash,
            "files": {name: asdict(file) for name, file in self.files.items()},
            "report": self.report.to_dict(),
            "left_out": [asdict(part) for part in self.left_out],
        }
        if self.generation is not None:
            document["generation"] = self.generation
        text = (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode(errors="replace")  # lone surrogates
        if len(text) > MANIFEST_MAX:
            raise SnapshotError(
                f"{MANIFEST} would have {len(text):,} bytes, more than {MANIFEST_MAX:,}: "
                "too many unreadable or unlisted cases to keep a list of; keep fewer cases in one snapshot"
            )
        return text

    @classmethod
    def from_json(cls, text: bytes, folder: Path | str) -> SnapshotInfo:
        """Read a manifest.

        Parameters
        ----------
        text
            Its bytes.
        folder
            Where it stands, for the message.

        Returns
        -------
        SnapshotInfo
            What it says.

        Raises
        ------
        SnapshotError
            It is no manifest of casekit, of a format this version does not know, or was changed or cut; the message
            names it.
        """
        name = f"{one_line(str(folder))}: {MANIFEST}"
        try:
            head = msgspec.json.decode(text, type=_Head)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            head = None
        if head is None or head.format != FORMAT:
            raise SnapshotError(
                f"{name} is not the manifest of a casekit snapshot; make one with ck.write_snapshot or ck.pull"
            )
        if head.format_version not in SUPPORTED_VERSIONS:
            raise SnapshotError(
                f"{name} has format {head.format_version}, which casekit {__version__} does not know: "
                "update casekit, or pull again"
            )
        try:
            manifest = msgspec.json.decode(text, type=_Manifest)
            report = PullReport.from_dict(manifest.report)
            files = {f"{table}.parquet": manifest.files[f"{table}.parquet"] for table in TABLES}
            fetched_at = manifest.fetched_at.astimezone(UTC)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError, KeyError, OverflowError) as error:
            raise SnapshotError(
                f"{name} cannot be read ({type(error).__name__}): it was changed or cut; pull again"
            ) from None
        return cls(
            test_sets=tuple((one.test_set_id, one.version) for one in manifest.test_sets),
            agent_id=manifest.agent_id,
            origin=manifest.origin,
            fetched_at=fetched_at,
            casekit=manifest.casekit,
            content_hash=manifest.content_hash,
            files=files,
            report=report,
            left_out=tuple(manifest.left_out),
            generation=manifest.generation,
        )
