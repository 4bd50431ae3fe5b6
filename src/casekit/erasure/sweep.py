"""Proof that nothing is left of erased cases: what a snapshot says of them, and every byte of its files."""

from __future__ import annotations

import mmap
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from casekit.card import Facts, html_card, sized, text_card
from casekit.erasure.closed import raw, why_closed
from casekit.erasure.words import CONTENT, UnreadableFile, Words, batches, cells, of_cases
from casekit.erasure.zstd import DamagedFrame, content, runs
from casekit.errors import ConfigError, SnapshotError, counted, one_line
from casekit.files import STAGED
from casekit.report import PullReport
from casekit.schema import TABLES
from casekit.snapshot import snapshot_info
from casekit.snapshots.folder import LocalFolder, Place, folders_at, local_path
from casekit.snapshots.manifest import SnapshotInfo

__all__ = ["Finding", "SweepReport", "sweep_snapshot"]

FINDINGS_SHOWN: Final = 10  # of more, how many


@dataclass(frozen=True)
class Finding:
    """Something that is left of an erased case, or that could not be looked into. It never holds the words.

    Attributes
    ----------
    file : str
        The file, from the snapshot's folder.
    kind : str
        ``"not erased"``: the case is not marked as erased. ``"content"``: a column of its row holds something.
        ``"rows"``: a table has rows of it. ``"words"``: the file's bytes hold some of its texts. ``"unreadable"``: the
        file, or a part of it, cannot be looked into.
    case_id : str or None
        The case; None for a file that cannot be looked into.
    place : str
        The column, the place in the file, or what is wrong with it.

    Examples
    --------
    >>> print(Finding("cases.parquet", "content", "case-1", "input_json"))
    cases.parquet: content of case-1 (input_json)
    """

    file: str
    kind: str
    case_id: str | None
    place: str

    def __str__(self) -> str:
        """One line."""
        about = "" if self.case_id is None else f" of {one_line(self.case_id, 80)}"
        return f"{one_line(self.file, 200)}: {self.kind}{about} ({one_line(self.place, 100)})"


@dataclass(frozen=True, repr=False)
class SweepReport:
    """What a sweep of a snapshot looked at, and what it found.

    Attributes
    ----------
    title : str
        What the snapshot holds, in a few words.
    cases : tuple of str
        The cases asked about, each once.
    absent : tuple of str
        Of those, cases that the snapshot does not have.
    findings : tuple of Finding
        Everything that is left; empty is what an erasure asks for.
    searched : bool
        Whether words were searched for: a copy that still holds them was given.
    without_words : tuple of str
        Cases of which that copy holds no text either: nothing could be searched for.
    n_texts : int
        Texts that were searched for.
    n_shared : int
        Texts that other cases, not asked about, hold as well: they are there by right, and prove nothing.
    n_short : int
        Texts of less than four bytes or without a letter or digit: they would be found by chance anywhere.
    n_files, n_frames, n_bytes : int
        Files looked into, compressed frames in them, and bytes of both.

    Examples
    --------
    >>> import casekit as ck, tempfile
    >>> from casekit.schema import empty_tables
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = ck.write_snapshot(ck.CaseSet(empty_tables()), folder)
    ...     report = sweep_snapshot(folder, ["case-1"])
    >>> report.clean, report.absent, report.searched
    (True, ('case-1',), False)
    """

    title: str
    cases: tuple[str, ...]
    absent: tuple[str, ...]
    findings: tuple[Finding, ...]
    searched: bool
    without_words: tuple[str, ...]
    n_texts: int
    n_shared: int
    n_short: int
    n_files: int
    n_frames: int
    n_bytes: int

    @property
    def clean(self) -> bool:
        """Nothing was found."""
        return not self.findings

    def _facts(self) -> Facts:
        words = "not searched for: give before= a copy that still holds them"
        if self.searched:
            words = f"{counted(self.n_texts, 'text')} searched for"
            words += f", {self.n_shared:,} that other cases hold too" if self.n_shared else ""
            words += f", {self.n_short:,} too short" if self.n_short else ""
            words += f"; none known of {counted(len(self.without_words), 'case')}" if self.without_words else ""
        looked = f"{self.n_files:,}, {counted(self.n_frames, 'frame')} in them, {sized(self.n_bytes)}"
        lines = [
            ("cases", f"{len(self.cases):,}" + (f", {len(self.absent):,} not there" if self.absent else "")),
            ("words", words),
            ("files", looked),
            ("findings", f"{len(self.findings):,}" if self.findings else "none"),
        ]
        lines += [("", str(finding)) for finding in self.findings[:FINDINGS_SHOWN]]
        more = len(self.findings) - FINDINGS_SHOWN
        return lines + ([("", f"and {more:,} more")] if more > 0 else [])

    def __repr__(self) -> str:
        """What was looked at and found, in words."""
        return text_card(self.title, self._facts(), kind="SweepReport")

    def _repr_html_(self) -> str:
        """The card that a notebook shows."""
        return html_card(self.title, self._facts(), kind="SweepReport")


def sweep_snapshot(path: Place, erased_ids: Iterable[str], *, before: Place | None = None) -> SweepReport:
    """Prove that nothing is left of erased cases in a snapshot's folder and beside it.

    First, what the snapshot says: each case is marked as erased or absent, its content columns are null, and no table
    has rows of it. Then, where an older copy is given, what the bytes say: every text of these cases is taken from the
    copy and searched for in every file of the folder, hidden ones and those that a killed writer left beside it among
    them, as it stands and in each Zstandard frame after decompression. Of a longer text, any remnant of 63 bytes is
    found.

    Parameters
    ----------
    path
        The snapshot's folder.
    erased_ids
        Ids of the cases.
    before
        A snapshot, or a folder of snapshots, that was made before the erasure: a backup of the same test set, in any
        version. It is only read. Delete it when the proof is made: it holds the words.

    Returns
    -------
    SweepReport
        ``clean`` says whether nothing was found. What cannot be looked into is a finding too.

    Raises
    ------
    ConfigError
        No id was given, or the older copy is of another test set.
    SnapshotError
        The folder is no snapshot; or the older copy is none, or a damaged one.

    Notes
    -----
    A text as short as four bytes may be found by chance in bytes that mean something else. A finding says where. A file
    that is neither text in UTF-8, nor Parquet, nor text in Zstandard frames is a finding whatever is in it. Numbers of
    eight digits and more count as texts. Words in base64 or a cipher look like other text, and are not found.

    Examples
    --------
    >>> import casekit as ck, tempfile
    >>> case = {"caseId": "case-1", "subject": {"kind": "agent", "id": "acme.a", "version": "1.0.0"},
    ...         "input": "call me at noon", "output": "hi", "items": []}
    >>> with ck.LocalServer() as server, ck.Client(server.url, token=server.token) as client:
    ...     _ = server.add_test_set("acme.demo", "1.0.0", [case])
    ...     cases = ck.load_test_set("acme.demo", "1.0.0", client=client)
    >>> backup, folder = tempfile.mkdtemp(), tempfile.mkdtemp()
    >>> _ = ck.write_snapshot(cases, backup), ck.write_snapshot(cases, folder)
    >>> report = ck.sweep_snapshot(folder, ["case-1"], before=backup)
    >>> report.clean, sorted({finding.kind for finding in report.findings})
    (False, ['content', 'not erased', 'words'])
    """
    folder = _local(path)
    ids = _checked_ids(erased_ids)
    info = snapshot_info(folder)
    words = Words(ids)
    if before is not None:
        for copy in _copies(_local(before), info):
            _collect(words, copy)
        words.set_apart(_held_by_right(folder, ids, info))
    sweep = _Sweep(folder, ids, info)
    present = sweep.look_at_tables()
    if before is not None:  # also where no word is known: what cannot be looked into is told all the same
        sweep.search(words)
    return SweepReport(
        title=info.title(),
        cases=tuple(ids),
        absent=tuple(case_id for case_id in ids if case_id not in present),
        findings=tuple(sweep.findings.values()),
        searched=before is not None,
        without_words=words.unknown() if before is not None else (),
        n_texts=words.n_texts,
        n_shared=words.n_shared,
        n_short=words.n_short,
        n_files=sweep.n_files,
        n_frames=sweep.n_frames,
        n_bytes=sweep.n_bytes,
    )


def _checked_ids(given: Any) -> dict[str, None]:
    if isinstance(given, (str, bytes)):
        raise ConfigError("erased_ids is a list of case ids: put one id into a list too")
    ids = dict.fromkeys(given)
    if not ids or not all(isinstance(one, str) for one in ids):
        raise ConfigError("erased_ids is a list of case ids, one at least, each a text: pass change.erased, or a list")
    return ids


def _local(place: Place) -> Path:
    path = local_path(place)
    if path is None:
        raise ConfigError("every byte is looked at, so the snapshot has to be on this machine: copy it here first")
    return Path(os.path.realpath(path))  # a killed writer leaves its folders beside the snapshot, not beside a link


def _copies(before: Path, info: SnapshotInfo) -> list[Path]:
    """Older copies of the same test sets, in any version: a case of that id in another one is another case."""

    def lists(of: SnapshotInfo) -> set[tuple[str, str | None]]:
        return {("test set", name) for name, _ in of.test_sets} | ({("agent", of.agent_id)} - {("agent", None)})

    copies = [copy.path for copy in cast("list[LocalFolder]", folders_at(before))]
    same = [copy for copy in copies if lists(snapshot_info(copy)) & lists(info)] if lists(info) else copies
    if not same:
        raise ConfigError(
            f"{one_line(str(before), 500)} has no copy of {info.title()}, so it knows no words of these cases: "
            "give an older copy of the same test set"
        )
    return same


def _collect(words: Words, copy: Path) -> None:
    info = snapshot_info(copy)
    for name in TABLES:
        file = copy / info.place(f"{name}.parquet")
        try:
            words.collect(file, name)
        except UnreadableFile as error:
            raise SnapshotError(
                f"{one_line(str(file), 500)} cannot be read ({error}), so the words that it holds are "
                "not known: give another copy"
            ) from error


def _held_by_right(folder: Path, ids: dict[str, None], info: SnapshotInfo) -> Iterator[bytes]:
    """What stands in a snapshot's files by right: the texts of other cases, ids, and the format's own words."""
    yield replace(info, report=PullReport(request_ids=info.report.request_ids)).to_json()
    for name, schema in TABLES.items():
        empty = pa.BufferOutputStream()
        pq.write_table(schema.empty_table(), empty)
        yield empty.getvalue().to_pybytes()
        try:
            yield from cells(folder / info.place(f"{name}.parquet"), name, ids)
        except UnreadableFile:
            continue  # found when the tables are looked at; what it holds is then searched for, not set apart


class _Sweep:
    """A look through a snapshot's folder, and what lies beside it."""

    def __init__(self, folder: Path, ids: dict[str, None], info: SnapshotInfo) -> None:
        self._folder, self._ids, self._info = folder, ids, info
        self.findings: dict[tuple[str | None, ...], Finding] = {}
        self.n_files = self.n_frames = self.n_bytes = 0

    def _note(self, file: str, kind: str, case_id: str | None, place: str) -> None:
        """Keep a finding; of the words of a case in a file, the first place."""
        key = (file, kind, case_id) if kind == "words" else (file, kind, case_id, place)
        self.findings.setdefault(key, Finding(file, kind, case_id, place))

    # ------------------------------------------------------------ tables

    def look_at_tables(self) -> set[str]:
        """See what the tables say of the cases; those that the snapshot has."""
        present: set[str] = set()
        for name in TABLES:
            file = self._info.place(f"{name}.parquet")
            try:
                if name == "cases":
                    present = self._look_at_cases(file)
                else:
                    self._look_for_rows(file)
            except UnreadableFile as error:
                self._note(file, "unreadable", None, str(error))
        return present

    def _look_at_cases(self, file: str) -> set[str]:
        present = set()
        columns = CONTENT["cases"]
        for batch in batches(self._folder / file, ["case_id", "erased", *columns]):
            for row in batch.filter(of_cases(batch, self._ids)).to_pylist():
                case_id = row["case_id"]
                present.add(case_id)
                if row["erased"] is not True:
                    self._note(file, "not erased", case_id, "erased")
                for name in columns:
                    # A text of JSON may say null itself, as the input and output of an erased case do.
                    if (
                        row[name] is not None
                        and row[name] != []
                        and not (name.endswith("_json") and row[name] == "null")
                    ):
                        self._note(file, "content", case_id, name)
        return present

    def _look_for_rows(self, file: str) -> None:
        counts: dict[str, int] = {}
        for batch in batches(self._folder / file, ["case_id"]):
            found = batch.filter(of_cases(batch, self._ids))["case_id"]
            for entry in pc.value_counts(found).to_pylist():
                counts[entry["values"]] = counts.get(entry["values"], 0) + entry["counts"]
        for case_id, count in counts.items():
            self._note(file, "rows", case_id, counted(count, "row"))

    # ------------------------------------------------------------ bytes

    def search(self, words: Words) -> None:
        """Search for words in every file."""
        for path in self._files():
            name = os.path.relpath(path, self._folder)
            named = words.needles.found([os.fsencode(name)])
            if named:
                name = "(a file whose name holds words)"
                self._note_words(name, words, named, "its name")
            try:
                self._search_file(path, name, words)
            except OSError as error:
                self._note(name, "unreadable", None, _why(error))

    def _files(self) -> Iterator[Path]:
        """Every file of the folder, and of what a killed writer left beside it; what is no file too."""
        left = re.compile(rf"\.{re.escape(self._folder.name)}\.(?:old|[0-9a-f]{{8}}){re.escape(STAGED)}")
        beside = sorted(Path(one.path) for one in os.scandir(self._folder.parent) if left.fullmatch(one.name))
        for top in (self._folder, *beside):
            if top != self._folder and (top.is_symlink() or not top.is_dir()):
                yield top
                continue
            for base, folders, names in os.walk(top, onerror=self._unlisted):
                links = [name for name in folders if Path(base, name).is_symlink()]
                yield from (Path(base, name) for name in sorted([*names, *links]))

    def _unlisted(self, error: OSError) -> None:
        self._note(os.path.relpath(error.filename, self._folder), "unreadable", None, _why(error))

    def _search_file(self, path: Path, name: str, words: Words) -> None:
        if not stat.S_ISREG(path.lstat().st_mode):
            self._note(name, "unreadable", None, "a link, or no plain file: not followed")
            return
        with path.open("rb") as file:
            self.n_files += 1
            size = os.fstat(file.fileno()).st_size
            if not size:
                return
            with closing(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)) as data:
                why = why_closed(path, data)
                if why is not None:
                    self._note(name, "unreadable", None, why)
                self._note_words(name, words, words.needles.found(self._counted(raw(data))), "byte {at:,}")
                for run in runs(data):
                    self.n_frames += len(run)
                    parts = (self._sound(content(data, start), name, start) for start in run)
                    found = words.needles.found(self._counted(chain.from_iterable(parts)))
                    self._note_words(name, words, found, f"byte {{at:,}} of the frame at byte {run[0]:,}")

    def _counted(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self.n_bytes += len(piece)
            yield piece

    def _sound(self, pieces: Iterator[bytes], name: str, start: int) -> Iterator[bytes]:
        try:
            yield from pieces
        except DamagedFrame:
            self._note(name, "unreadable", None, f"the frame at byte {start:,} is cut or damaged")

    def _note_words(self, name: str, words: Words, found: dict[bytes, int], place: str) -> None:
        for needle, at in sorted(found.items(), key=lambda pair: pair[1]):
            for case_id in sorted(words.owners[needle]):
                self._note(name, "words", case_id, place.format(at=at))


def _why(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else type(error).__name__
