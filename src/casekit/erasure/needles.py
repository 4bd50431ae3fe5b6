"""Many byte strings, looked for at once in bytes of any length."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["LONGEST", "SHORTEST", "Needles"]

SHORTEST: Final = 4  # bytes of a needle
LONGEST: Final = 32
BLOCK: Final = 2**20  # bytes looked at in one go
_WIDTHS: Final = (8, 4)  # bytes of a needle's start that it is first known by
_ODD: Final = {8: 0x9E3779B97F4A7C15, 4: 0x9E3779B1}  # odd multipliers, whose high bits mix all bits (Knuth)


class _Starts:
    """Needles of at least so many bytes, by their first ones.

    A table of bits, looked up by a hash of the bytes at each place, leaves few places over; those are compared.
    """

    def __init__(self, needles: Iterable[bytes], width: int) -> None:
        self.by_start: dict[int, dict[int, set[bytes]]] = {}  # and by length: many texts begin alike
        for needle in needles:
            alike = self.by_start.setdefault(int.from_bytes(needle[:width], "little"), {})
            alike.setdefault(len(needle), set()).add(needle)
        self.kind = np.dtype(f"<u{width}")
        self.starts = np.array(sorted(self.by_start), dtype=self.kind)
        bits = min(max(len(self.starts).bit_length() + 5, 16), 24)
        self.factor, self.shift = self.kind.type(_ODD[width]), self.kind.type(8 * width - bits)
        self.table = np.zeros(2**bits, dtype=bool)
        self.table[self._hashes(self.starts)] = True

    def _hashes(self, words: npt.NDArray[Any]) -> npt.NDArray[Any]:
        mixed: npt.NDArray[Any] = (words * self.factor) >> self.shift
        return mixed

    def look(self, block: bytes, start: int, found: dict[bytes, int]) -> None:
        """Add what stands in a block, whose own place is ``start``, to what was found before it."""
        width = self.kind.itemsize
        if len(block) < width or not len(self.starts):
            return
        # The word that starts at each byte, without a copy of the bytes.
        words: npt.NDArray[Any] = np.ndarray((len(block) - width + 1,), self.kind, block, strides=(1,))
        places = np.flatnonzero(self.table[self._hashes(words)])
        which = np.minimum(np.searchsorted(self.starts, words[places]), len(self.starts) - 1)
        known = self.starts[which] == words[places]
        places, which = places[known], which[known]
        order = np.argsort(which, kind="stable")
        ends = np.flatnonzero(np.diff(which[order], append=-1)) + 1
        for first, end in zip((0, *ends[:-1].tolist()), ends.tolist(), strict=False):
            alike = self.by_start[int(self.starts[which[order[first]]])]
            wanted = {needle for needles in alike.values() for needle in needles if needle not in found}
            for place in places[order[first:end]].tolist():
                if not wanted:  # what many hold is not looked at again and again
                    break
                for length in alike:
                    if (part := block[place : place + length]) in wanted:
                        found[part] = start + place
                        wanted.remove(part)


class Needles:
    """Byte strings of 4 to 32 bytes, looked for at once; the time does not grow with how many they are.

    Parameters
    ----------
    needles
        The byte strings.

    Examples
    --------
    >>> Needles([b"word", b"long one"]).found([b"a wo", b"rd and a long", b" one"])
    {b'word': 2, b'long one': 13}
    """

    def __init__(self, needles: Iterable[bytes]) -> None:
        wide, narrow = _WIDTHS
        given = set(needles)
        self._tables = [
            _Starts((one for one in given if len(one) >= wide), wide),
            _Starts((one for one in given if len(one) < wide), narrow),
        ]

    def found(self, pieces: Iterable[bytes]) -> dict[bytes, int]:
        """The needles that stand in some pieces of bytes, one after another; each with where it first stands."""
        found: dict[bytes, int] = {}
        kept, start = b"", 0  # the end of what was looked at, in which a needle may have begun, and its place
        for piece in pieces:
            for at in range(0, len(piece), BLOCK):
                block = kept + piece[at : at + BLOCK]
                for table in self._tables:
                    table.look(block, start, found)
                kept = block[1 - LONGEST :]
                start += len(block) - len(kept)
        return found
