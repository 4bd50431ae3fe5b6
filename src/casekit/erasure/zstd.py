"""Zstandard frames in any bytes: where they stand, and what is in them (RFC 8878)."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterator
from typing import Final, Protocol

import pyarrow as pa

__all__ = ["MAGIC", "Bytes", "DamagedFrame", "content", "runs", "whole"]

MAGIC: Final = b"\x28\xb5\x2f\xfd"
PIECE: Final = 2**18  # bytes given out at a time
BLOCK_MAX: Final = 2**17  # bytes of a block, by the standard
CHECKSUM: Final = 4  # bytes
_DICTIONARY_SIZES: Final = (0, 1, 2, 4)  # bytes in a frame's head, by two bits of its descriptor
_CONTENT_SIZES: Final = (0, 2, 4, 8)


class Bytes(Protocol):
    """Bytes in memory, or a file that is mapped there."""

    def __getitem__(self, place: slice, /) -> bytes:
        """A copy of some of them."""

    def __len__(self) -> int:
        """How many there are."""

    def find(self, part: bytes, start: int, /) -> int:
        """Where a part first stands from there on; -1 for nowhere."""


class DamagedFrame(Exception):
    """A frame is cut or damaged; what could be read of it was given out."""


def runs(data: Bytes) -> Iterator[list[int]]:
    """Where frames may begin: wherever the magic number stands.

    Those that stand one right behind the other are a run: a text may begin in one and end in the next. What begins
    within another frame is a run of its own.
    """
    run: list[int] = []
    end = -1
    at = data.find(MAGIC, 0)
    while at >= 0:
        if at < end:
            yield [at]
        else:
            if run and at > end:
                yield run
                run = []
            run.append(at)
            end = _cuts(data, at)[0][-1]
        at = data.find(MAGIC, at + 1)
    if run:
        yield run


def whole(data: Bytes) -> Iterator[bytes]:
    """What is in frames that fill some bytes from the first to the last.

    Raises
    ------
    DamagedFrame
        There is something else, or a frame is cut or damaged.
    """
    at = 0
    while at < len(data):
        cuts, sound = _cuts(data, at)
        if data[at : at + len(MAGIC)] != MAGIC or not sound:
            raise DamagedFrame
        yield from content(data, at)
        at = cuts[-1]


def content(data: Bytes, start: int) -> Iterator[bytes]:
    """What is in a frame, piece by piece, in bounded memory; nothing where the magic number stood by chance.

    Raises
    ------
    DamagedFrame
        After the last piece that could be read.
    """
    cuts, sound = _cuts(data, start)
    given = 0
    try:
        for piece in _pieces(data, cuts):
            given += len(piece)
            yield piece
    except OSError:
        rest = _rest(data, cuts, given)
        if rest:
            yield rest
        if sound or given or rest:
            raise DamagedFrame from None


def _cuts(data: Bytes, start: int) -> tuple[list[int], bool]:
    """Where a frame starts, where each part of it ends, and whether the parts are a frame's, be it cut or whole."""
    at = start + len(MAGIC)
    descriptor = data[at : at + 1]
    if not descriptor:
        return [start, len(data)], True
    flags = descriptor[0]
    single, checked = flags & 0x20, flags & 0x04
    sizes = (_DICTIONARY_SIZES[flags & 3], _CONTENT_SIZES[flags >> 6] or (1 if single else 0), 0 if single else 1)
    if flags & 0x08:
        return [start, at], False
    at += 1 + sum(sizes)
    cuts = [start]
    while True:
        cuts.append(at)
        head = int.from_bytes(data[at : at + 3], "little")
        last, kind, size = head & 1, (head >> 1) & 3, head >> 3
        if at + 3 <= len(data) and (kind == 3 or size > BLOCK_MAX):
            return cuts, False
        at += 3 + (1 if kind == 1 else size)  # kind 1 is one byte, over and over
        if at > len(data) or len(data) < cuts[-1] + 3:
            return [*(cut for cut in cuts if cut < len(data)), len(data)], True
        if last:
            return [*cuts, at, *([min(at + CHECKSUM, len(data))] if checked else [])], True


class _Parts(io.RawIOBase):
    """The parts of a frame as a file. None is read together with the next, whose damage would take it along."""

    def __init__(self, data: Bytes, cuts: list[int]) -> None:
        self._data, self._at, self._cuts = data, cuts[0], deque(cuts[1:])

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """The next bytes, at most so many."""
        while self._cuts and self._cuts[0] <= self._at:
            self._cuts.popleft()
        end = self._cuts[0] if self._cuts else self._at
        part = self._data[self._at : end if size < 0 else min(self._at + size, end)]
        self._at += len(part)
        return part


def _pieces(data: Bytes, cuts: list[int]) -> Iterator[bytes]:
    with pa.CompressedInputStream(_Parts(data, cuts), "zstd") as stream:
        while piece := stream.read(PIECE):
            yield piece


def _rest(data: Bytes, cuts: list[int], given: int) -> bytes:
    """What a damaged frame gives beyond the pieces before: byte by byte, for a piece is given whole or not at all."""
    rest = bytearray()
    try:
        with pa.CompressedInputStream(_Parts(data, cuts), "zstd") as stream:
            while given:
                given -= len(stream.read(min(given, PIECE)))
            while byte := stream.read(1):
                rest += byte
    except OSError:
        pass  # what came before is all there is
    return bytes(rest)
