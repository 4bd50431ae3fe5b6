"""Needles are found as Python's own search finds them, and frames are read as they were packed."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casekit.erasure import needles
from casekit.erasure.needles import Needles
from casekit.erasure.zstd import MAGIC, DamagedFrame, content, runs, whole

FEW = st.text("ab", min_size=4, max_size=32).map(str.encode)  # letters so few that many needles share a start
ANY = st.binary(min_size=4, max_size=32)


@given(
    wanted=st.lists(FEW | ANY, max_size=20),
    parts=st.lists(st.text("ab", max_size=40).map(str.encode) | st.binary(max_size=40), max_size=12),
    inside=st.booleans(),
    block=st.integers(1, 64),
)
@settings(max_examples=60, deadline=None)
def test_needles_are_found_as_python_finds_them(
    wanted: list[bytes], parts: list[bytes], inside: bool, block: int
) -> None:
    """However the bytes come in pieces, each needle must be found where it first stands, and no other."""
    if inside:
        parts = [piece for pair in zip(parts, wanted, strict=False) for piece in pair]
    whole = b"".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(needles, "BLOCK", block)
        assert Needles(wanted).found(parts) == {one: whole.find(one) for one in wanted if one in whole}


def test_no_needles_are_never_found() -> None:
    """Without a needle, and in no bytes, nothing must be found."""
    assert Needles([]).found([b"some bytes"]) == {}
    assert Needles([b"some"]).found([]) == {}
    assert Needles([b"some"]).found([b"", b"som", b""]) == {}


def test_many_needles_are_found() -> None:
    """A hundred thousand needles must be found in one look."""
    wanted = [f"needle {n:06}".encode() for n in range(100_000)]
    found = Needles(wanted).found([b" ".join(wanted[::7]), b" needle 99999 "])
    assert sorted(found) == wanted[::7]


def read(data: bytes, start: int = 0) -> tuple[bytes, bool]:
    """What a frame gives, and whether it was sound."""
    out = b""
    try:
        for piece in content(data, start):
            out += piece
    except DamagedFrame:
        return out, False
    return out, True


@given(text=st.binary(max_size=400), times=st.integers(1, 3000), tail=st.binary(max_size=20))
@settings(max_examples=40, deadline=None)
def test_a_frame_gives_what_was_packed(text: bytes, times: int, tail: bytes) -> None:
    """Whatever follows a frame, it must give all that was packed and no error."""
    packed = pa.compress(text * times, "zstd", asbytes=True)
    assert read(b"head" + packed + tail, 4) == (text * times, True)


def test_a_stream_of_frames_is_found() -> None:
    """Each frame must be found, whatever stands between, also one of a stream that does not tell its size."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(b"streamed" * 100_000)
    data = b"a" + sink.getvalue().to_pybytes() + MAGIC[:3] + pa.compress(b"second", "zstd", asbytes=True)
    assert [read(data, at) for run in runs(data) for at in run] == [(b"streamed" * 100_000, True), (b"second", True)]


def test_frames_that_touch_are_a_run() -> None:
    """Frames right behind each other must be told from those apart, and from one that stands within another."""
    first, second = (pa.compress(text, "zstd", asbytes=True) for text in (b"first", b"second"))
    outer = by_hand(0x20, (0, len(first), first))
    data = b"a" + first + second + b"b" + first + outer + second
    at, behind = 1, 1 + len(first) + len(second) + 1
    nested = behind + len(first) + 9
    touching = [behind, behind + len(first), behind + len(first) + len(outer)]
    assert sorted(runs(data)) == [[at, at + len(first)], touching, [nested]]
    assert list(whole(first + second)) == [b"first", b"second"]
    for other in (first + b"x", b"x" + first, first[:-1]):
        with pytest.raises(DamagedFrame):
            list(whole(other))


def test_a_cut_frame_gives_its_start() -> None:
    """Wherever a frame is cut, what can be read of it must come, and that it is damaged be told."""
    packed = pa.compress(os.urandom(300_000), "zstd", asbytes=True)
    every, _ = read(packed)
    for size in (5, 6, 10, 11, 140_000, 270_000, len(packed) - 1):
        out, sound = read(packed[:size])
        assert every.startswith(out)
        assert not sound
        assert len(out) > size - 2**17 - 20
    assert read(MAGIC) == (b"", False)


def test_a_damaged_frame_gives_its_start() -> None:
    """Bytes that were changed in the middle must not hide what stands before them."""
    given = os.urandom(300_000)
    packed = bytearray(pa.compress(given, "zstd", asbytes=True))
    second = packed.index(given[2**17 : 2**17 + 40]) - 3  # the head of the second block
    packed[second : second + 3] = b"\xff\xff\xff"
    assert read(bytes(packed)) == (given[: 2**17], False)


def by_hand(descriptor: int, *blocks: tuple[int, int, bytes]) -> bytes:
    """A frame of blocks (kind, size, bytes), with one byte that says its size."""
    head = MAGIC + bytes([descriptor, 16])
    last = len(blocks) - 1
    parts = ((n == last) | kind << 1 | size << 3 for n, (kind, size, _) in enumerate(blocks))
    return head + b"".join(word.to_bytes(3, "little") + block[2] for word, block in zip(parts, blocks, strict=True))


def test_frames_are_taken_apart_as_the_standard_says() -> None:
    """Raw blocks, repeated bytes and checksums must be read; what no frame can be is none."""
    raw, same = (0, 12, b"exactly thus"), (1, 4, b"x")
    frame = by_hand(0x20, raw, same)
    assert read(frame + b"after") == (b"exactly thusxxxx", True)
    assert read(by_hand(0x24, raw, same) + b"\x00\x00\x00\x00after") == (b"exactly thusxxxx", False)  # a wrong checksum
    assert read(by_hand(0x28, raw, same)) == (b"", True)  # a bit that no frame has: the number stood there by chance
    assert read(by_hand(0x20, (3, 0, b""), same)) == (b"", True)
    assert read(by_hand(0x20, raw, (3, 0, b""))) == (b"exactly thus", False)
    assert read(by_hand(0x20, raw, (0, 2**17 + 1, b"more"))) == (b"exactly thus", False)
    assert read(MAGIC + bytes(40)) == (b"", False)  # empty blocks, and no last one
