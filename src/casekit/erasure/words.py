"""The words of some cases: their texts, and the bytes that these would be in a file."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from casekit.erasure.needles import LONGEST, SHORTEST, Needles
from casekit.schema import FORMAT_COLUMNS, JSON, STRING, STRINGS, TABLES

__all__ = ["CONTENT", "UnreadableFile", "Words", "batches", "cells", "of_cases"]

ROWS: Final = 1000  # of a table looked at in one go

# Columns that say which case it is, who added it and how: an erasure leaves them, and they hold no one's words.
_IDENTITY: Final = frozenset(f.name for f in FORMAT_COLUMNS) | frozenset(
    {"run_id", "replay_of", "kind", "project_id", "made_on"}
    | {"added_by_kind", "added_by_id", "retired_by_kind", "retired_by_id"}
)
_TEXT_TYPES: Final = (STRING, JSON, STRINGS)
CONTENT: Final = {
    name: [f.name for f in schema if f.type in _TEXT_TYPES and f.name not in _IDENTITY]
    for name, schema in TABLES.items()
}
_IDS: Final = {name: [f.name for f in schema if f.name in _IDENTITY] for name, schema in TABLES.items()}
_LITERAL: Final = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL)  # a text in JSON, a member's name too
_LONG_NUMBER: Final = re.compile(r"\d{8,}")  # of an account, a telephone: no chance number
_ESCAPE: Final = re.compile(r"\\u[0-9a-f]{4}")
_LETTER: Final = re.compile(rb"[0-9A-Za-z\x80-\xff]")


class UnreadableFile(Exception):
    """A table's file cannot be read; the message says why."""


def batches(file: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Some columns of a table's file, a few rows at a time.

    Raises
    ------
    UnreadableFile
        It is damaged, or has not these columns.
    """
    try:
        with pq.ParquetFile(str(file)) as stored:
            for batch in stored.iter_batches(batch_size=ROWS, columns=columns):
                batch.select(columns).validate(full=True)
                yield batch
    except (OSError, pa.ArrowException, ValueError, KeyError) as error:
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else type(error).__name__
        raise UnreadableFile(why) from error


def of_cases(batch: pa.RecordBatch, ids: Collection[str]) -> Any:
    """Which rows are of some cases."""
    return pc.is_in(batch["case_id"], value_set=pa.array(list(ids), STRING))


def cells(file: Path, table: str, ids: Collection[str]) -> Iterator[bytes]:
    """The texts of all other cases in a table's file, and the ids of these cases too."""
    for batch in batches(file, [*_IDS[table], *CONTENT[table]]):
        others = batch.filter(pc.invert(of_cases(batch, ids)))
        yield from (_joined(batch[name]) for name in _IDS[table])
        yield from (_joined(others[name]) for name in CONTENT[table])


def _joined(column: Any) -> bytes:
    """The texts of a column, with something between them: no text begins in one and ends in the next."""
    texts = _plain(column)
    texts = (texts.flatten() if pa.types.is_list(texts.type) else texts).drop_null()
    return b"".join(text.encode() + b"\0" for text in texts.to_pylist())


def _plain(column: Any) -> Any:
    return column.storage if isinstance(column, pa.ExtensionArray) else column


class Words:
    """The texts of some cases, and the needles that would be found where one of them is left.

    Parameters
    ----------
    ids
        The cases.

    Attributes
    ----------
    owners : dict
        The cases whose text each needle is of.
    needles : Needles
        All of them.
    n_short, n_shared, n_texts : int
        Texts too short to be searched for, texts that were set apart, and texts that are searched for.
    """

    def __init__(self, ids: Collection[str]) -> None:
        self._ids = ids
        self._forms: dict[str, set[bytes]] = {}  # of each text: the bytes it would be
        self._cases: dict[str, set[str]] = {}  # that have the text
        self._short: set[str] = set()
        self._known: set[str] = set()
        self.owners: dict[bytes, set[str]] = {}
        self.needles = Needles([])
        self.n_shared = self.n_texts = 0

    @property
    def n_short(self) -> int:
        """Texts that are too short, or have no letter."""
        return len(self._short)

    def unknown(self) -> tuple[str, ...]:
        """Cases of which no text is known."""
        return tuple(case_id for case_id in self._ids if case_id not in self._known)

    def collect(self, file: Path, table: str) -> None:
        """Take the texts of the cases from a table's file."""
        for every in batches(file, ["case_id", *CONTENT[table]]):
            batch = every.filter(of_cases(every, self._ids))
            owners = batch["case_id"].to_pylist()
            for name in CONTENT[table]:
                for case_id, cell in zip(owners, _plain(batch[name]).to_pylist(), strict=True):
                    for text, raw in _texts(cell, in_json=batch.schema.field(name).type == JSON):
                        self._add(case_id, text, raw)

    def _add(self, case_id: str, text: str, raw: str) -> None:
        self._known.add(case_id)
        forms = {one.encode("utf-8", "surrogatepass") for one in _spelled(text, raw)}
        if len(text.encode("utf-8", "surrogatepass")) < SHORTEST or not any(_cut(form) for form in forms):
            self._short.add(text)
            return
        self._forms.setdefault(text, set()).update(forms)
        self._cases.setdefault(text, set()).add(case_id)

    def set_apart(self, held: Iterable[bytes]) -> None:
        """Leave out what stands in a file by right, and make the needles of the rest."""
        for text, forms in self._forms.items():
            for form in forms:
                for needle in _cut(form):
                    self.owners.setdefault(needle, set()).update(self._cases[text])
        by_right = Needles(self.owners).found(held)
        for needle in by_right:
            del self.owners[needle]
        self.needles = Needles(self.owners)
        left = sum(
            any(needle in self.owners for form in forms for needle in _cut(form)) for forms in self._forms.values()
        )
        self.n_texts, self.n_shared = left, len(self._forms) - left


def _texts(cell: Any, *, in_json: bool) -> Iterator[tuple[str, str]]:
    """Each text in a cell, and how it is spelled there."""
    if cell is None:
        return
    if in_json:
        for match in _LITERAL.finditer(cell):
            try:
                yield json.loads(match[0], strict=False), match[1]
            except ValueError:  # no JSON, in a file of somebody else's: a text as it stands there
                yield match[1], match[1]
        for number in _LONG_NUMBER.findall(_LITERAL.sub("", cell)):
            yield number, number
    else:
        for text in cell if isinstance(cell, list) else [cell]:
            yield text, text


def _spelled(text: str, raw: str) -> set[str]:
    """A text as it stands in plain text, in JSON of any program's, and in CSV, which doubles the quotation marks."""
    plain, ascii_alone = json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]
    spelled = {text, raw, plain, ascii_alone, _ESCAPE.sub(lambda escape: "\\u" + escape[0][2:].upper(), ascii_alone)}
    spelled |= {one.replace("/", "\\/") for one in spelled - {text, raw}}
    return spelled | {one.replace('"', '""') for one in spelled}


def _cut(form: bytes) -> list[bytes]:
    """The needles of a text's bytes: the whole, or pieces that leave no 63 bytes of it without one."""
    last = max(len(form) - LONGEST, 0)
    pieces = [form[at : at + LONGEST] for at in (*range(0, last, LONGEST), last)]
    return [piece for piece in pieces if len(piece) >= SHORTEST and _LETTER.search(piece)]
