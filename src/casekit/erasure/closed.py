"""Files that cannot be looked into: all but text, text in Zstandard frames, and Parquet with its texts in one piece."""

from __future__ import annotations

import codecs
import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from casekit.erasure.zstd import MAGIC, DamagedFrame, whole
from casekit.snapshots.manifest import DROPPINGS

__all__ = ["raw", "why_closed"]

RAW: Final = 2**20  # bytes of a file looked at in one go

# What some files are, by how they begin; of any other that is closed, it is only told that it is no text.
_PACKED: Final = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf": "7z",
    b"\x04\x22\x4d\x18": "lz4",
    b"\xff\x06\x00\x00sNaPpY": "snappy",
    b"PARE": "encrypted Parquet",
}
_PARQUET: Final = b"PAR1"
# Ways of a Parquet file to keep a text in one piece; DELTA_BYTE_ARRAY leaves out how the text before it begins.
_OPEN: Final = frozenset(
    {"ZSTD", "UNCOMPRESSED", "PLAIN", "PLAIN_DICTIONARY", "RLE", "RLE_DICTIONARY", "BIT_PACKED"}
    | {"DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "BYTE_STREAM_SPLIT"}
)


def raw(data: mmap.mmap) -> Iterator[bytes]:
    """The bytes of a file, piece by piece."""
    return (data[at : at + RAW] for at in range(0, len(data), RAW))


def why_closed(path: Path, data: mmap.mmap) -> str | None:
    """What keeps a file from being looked into; None where nothing does."""
    head = data[:16]
    for magic, kind in _PACKED.items():
        if head.startswith(magic):
            return f"packed as {kind}"
    if head.startswith(_PARQUET):
        return _closed_parquet(path)
    if head.startswith(MAGIC):
        return None if _is_text(whole(data)) else "packed as Zstandard, and what is in it is no text"
    return None if path.name in DROPPINGS or _is_text(raw(data)) else "neither text in UTF-8 nor Parquet"


def _closed_parquet(path: Path) -> str | None:
    try:
        with pq.ParquetFile(path) as file:
            groups = (file.metadata.row_group(n) for n in range(file.metadata.num_row_groups))
            columns = [group.column(n) for group in groups for n in range(group.num_columns)]
            ways = {way for column in columns for way in (column.compression, *column.encodings)}
    except (OSError, pa.ArrowException):
        return "Parquet without a whole footer: how it is packed is not known"
    other = sorted(ways - _OPEN)
    return f"packed as {', '.join(other)}" if other else None


def _is_text(pieces: Iterable[bytes]) -> bool:
    """Whether all of it is UTF-8, without the zeros that UTF-16 and binary files have."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        return all("\0" not in decoder.decode(piece) for piece in pieces) and not decoder.decode(b"", final=True)
    except (UnicodeDecodeError, DamagedFrame):
        return False
