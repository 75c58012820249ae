"""Ranges of rows of pages that are made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_pages import MadePage, cut, packed, packed_page, padded, runs_page

from lance_df.encodings import kernels
from lance_df.encodings.kernels import fastlanes, pages
from lance_df.encodings.kernels.pages import Page

UNTOUCHED = 0xA5
EXAMPLES = 60 if kernels.COMPILED else 5
FULL = (1024, 1024, 700) if kernels.COMPILED else (1024, 100)
Reader = Callable[[Page, int, int, np.ndarray], int]


def _read(reader: Reader, page: Page, start: int, stop: int, out_width: int) -> tuple[int, np.ndarray]:
    """Return the status, and the bytes of each value, after which nothing is written."""
    out = np.full((stop - start) * out_width + 16, UNTOUCHED, np.uint8)
    room = out[: (stop - start) * out_width]
    status = reader(page, start, stop, room)
    assert (out[len(room) :] == UNTOUCHED).all()
    return status, room.reshape(-1, out_width)


def _spans(counts: Sequence[int]) -> list[tuple[int, int]]:
    """Return ranges of rows: all, single ones, and those at the edges of chunks."""
    total = sum(counts)
    edges = sorted({0, 1, counts[0] - 1, counts[0], counts[0] + 1, total - 1, total} & set(range(total + 1)))
    return [(low, high) for low in edges for high in edges if low < high]


def _random_span(rng: np.random.Generator, total: int) -> tuple[int, int]:
    start, stop = sorted(rng.choice(total + 1, 2, replace=False).tolist())
    return start, stop


@pytest.mark.parametrize("width", [1, 2, 3, 4, 8, 16])
@pytest.mark.parametrize(("levels", "wide"), [(False, False), (True, False), (False, True), (True, True)])
def test_flat_values(width: int, levels: bool, wide: bool) -> None:
    counts = (8, 16, 5)
    values = np.random.default_rng(width).integers(0, 256, (29, width), np.uint8)
    first = [b"odd levels"] if levels else []
    made = MadePage(
        [(len(part), [*first, part.tobytes()]) for part in cut(values, counts)], levels=levels, wide=wide
    )
    for start, stop in _spans(counts):
        status, found = _read(pages.read_flat, made.page(width), start, stop, width)
        assert status == -1
        assert np.array_equal(found, values[start:stop])


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize(("levels", "wide"), [(False, False), (True, False), (False, True), (True, True)])
def test_packed_values(width: int, levels: bool, wide: bool) -> None:
    rng = np.random.default_rng(width)
    bits_of = {0, 1, 5, 8 * width - 1, 8 * width} if kernels.COMPILED else {0, 5, 8 * width}
    for bits in bits_of:
        values = (rng.integers(0, 256, (sum(FULL), width), np.uint8)).reshape(-1).view(f"u{width}")
        values = values & np.array((1 << bits) - 1, values.dtype)
        made = packed_page(cut(values, FULL), bits, wide=wide, levels=levels)
        for start, stop in _spans(FULL) if kernels.COMPILED else [(0, sum(FULL)), (7, 1030)]:
            status, found = _read(fastlanes.read_packed, made.page(width), start, stop, width)
            assert status == -1
            assert np.array_equal(found.reshape(-1).view(values.dtype), values[start:stop])


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("out_width", [1, 2, 4, 8, 16])
def test_packed_indices(width: int, out_width: int) -> None:
    rng = np.random.default_rng(width * 100 + out_width)
    size = 50
    table = rng.integers(0, 256, (size, out_width), np.uint8)
    indices = rng.integers(0, size, sum(FULL)).astype(f"u{width}")
    made = packed_page(cut(indices, FULL), 6, wide=False)
    looking_up = made.page(width, table=table.reshape(-1), table_size=size, out_width=out_width)
    for start, stop in [(0, sum(FULL)), (1, 2), (1000, 1050), _random_span(rng, sum(FULL))]:
        status, found = _read(fastlanes.read_packed, looking_up, start, stop, out_width)
        assert status == -1
        assert np.array_equal(found, table[indices[start:stop].astype(np.int64)])
        if out_width <= 8:
            plain = made.page(width, table_size=size, out_width=out_width)
            status, found = _read(fastlanes.read_packed, plain, start, stop, out_width)
            assert status == -1
            assert np.array_equal(found.reshape(-1).view(f"u{out_width}"), indices[start:stop])


def test_a_packed_index_beyond_the_table() -> None:
    indices = np.arange(40, dtype=np.uint16)
    made = packed_page([indices], 6, wide=False)
    page = made.page(2, table_size=30, out_width=1)
    assert _read(fastlanes.read_packed, page, 0, 30, 1)[0] == -1
    assert _read(fastlanes.read_packed, page, 0, 36, 1)[0] == -2 - 35


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_packed_blocks_that_are_damaged(width: int) -> None:
    good = packed(np.zeros(10, f"u{width}"), 5)
    for wrong in (
        b"",
        bytes(width - 1),
        (5).to_bytes(width, "little") + good[:-1],
        (8 * width + 1).to_bytes(width, "little") + bytes(128 * (8 * width + 1)),
        (255).to_bytes(width, "little") + bytes(4096),
        ((1 << 8 * width) - 1).to_bytes(width, "little") + bytes(4096),
    ):
        made = MadePage([(10, [(5).to_bytes(width, "little") + good]), (10, [wrong])], wide=True)
        for page in (made.page(width), made.page(width, table_size=1)):
            assert _read(fastlanes.read_packed, page, 0, 10, width)[0] == -1
            assert _read(fastlanes.read_packed, page, 5, 20, width)[0] == 1
    many = MadePage([(1025, [(0).to_bytes(width, "little")])])
    assert _read(fastlanes.read_packed, many.page(width), 0, 1, width)[0] == 0


def _runs(rng: np.random.Generator, width: int, longest: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    values = rng.integers(0, 256, (count, width), np.uint8).reshape(-1).view(f"u{width}")
    return values, rng.integers(0, longest + 1, count)


@pytest.mark.parametrize("width", [1, 2, 4, 8])
@pytest.mark.parametrize("longest", [1, 3, 8, 9, 20, 255])
@pytest.mark.parametrize(("levels", "wide"), [(False, False), (True, True)])
def test_runs(width: int, longest: int, levels: bool, wide: bool) -> None:
    rng = np.random.default_rng(width * 1000 + longest)
    parts = [_runs(rng, width, longest, count) for count in (1, 40, 3)]
    parts[0] = (parts[0][0], np.array([longest]))
    made = runs_page(parts, wide=wide, levels=levels)
    values = np.concatenate([np.repeat(values, lengths) for values, lengths in parts])
    spans = [(0, len(values)), *(_random_span(rng, len(values)) for _ in range(EXAMPLES))]
    for start, stop in spans:
        status, found = _read(pages.read_runs, made.page(width), start, stop, width)
        assert status == -1
        assert np.array_equal(found.reshape(-1).view(values.dtype), values[start:stop])


def test_runs_that_are_damaged() -> None:
    good = (4, [bytes([1, 2]), bytes([3, 1])])
    for wrong in (
        (4, [bytes([1, 2]), bytes([3])]),  # too few lengths
        (4, [bytes([1]), bytes([2, 2])]),  # or values
        (5, [bytes([1, 2]), bytes([3, 1])]),
        (4, [b"", b""]),
    ):
        for wide in (False, True):
            made = MadePage([good, wrong], wide=wide)
            assert _read(pages.read_runs, made.page(1), 0, 4, 1)[0] == -1
            assert _read(pages.read_runs, made.page(1), 2, 4 + wrong[0], 1)[0] == 1


def _cut_off(made: MadePage, chunk: int, num_bytes: int) -> None:
    """Have a chunk, the last one, end after so many bytes, and its page with it."""
    made.data = made.data[: int(made.positions[chunk]) + num_bytes]
    made.positions = np.append(made.positions[: chunk + 1], len(made.data))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("levels", [False, True])
def test_chunks_that_end_early(wide: bool, levels: bool) -> None:
    """No byte after the end of a page is read, of which no other test would know."""
    first = [b"levels"] if levels else []
    flat = [(8, [*first, bytes(32)])] * 2
    runs = [(8, [*first, bytes([7] * 40), bytes([1] * 8)])] * 2
    block = [(8, [*first, (3).to_bytes(4, "little") + bytes(3 * 128)])] * 2
    for reader, chunks, width in (
        (pages.read_flat, flat, 4),
        (pages.read_runs, runs, 4),
        (fastlanes.read_packed, block, 4),
    ):
        size = len(MadePage(chunks, levels=levels, wide=wide).data) // 2
        for end in [*range(0, min(size, 64) - 7, 8), size - 8]:
            made = MadePage(chunks, levels=levels, wide=wide)
            _cut_off(made, 1, end)
            assert _read(reader, made.page(width), 0, 8, width)[0] == -1
            status, _ = _read(reader, made.page(width), 0, 16, width)
            assert status == 1, (reader, end)


@pytest.mark.parametrize("header", [8, 16])
def test_sizes_that_are_damaged(header: int) -> None:
    for size in (0, 31, 33, 0xFFF8, 0xFFFF):
        made = MadePage([(8, [bytes(32)])], wide=header == 16)
        data = made.data.copy()
        data[2:4] = np.array([size], "<u2").view(np.uint8)
        made.data = data
        assert _read(pages.read_flat, made.page(4), 0, 8, 4)[0] == 0
        assert _read(fastlanes.read_packed, made.page(1), 0, 8, 1)[0] in (-1, 0)
        assert _read(pages.read_runs, made.page(1), 0, 8, 1)[0] in (-1, 0)


@settings(max_examples=EXAMPLES)
@given(st.binary(max_size=200), st.booleans(), st.booleans(), st.integers(0, 3), st.integers(1, 30))
def test_any_bytes(data: bytes, levels: bool, wide: bool, log_width: int, count: int) -> None:
    """Whatever the bytes are: it is an error or a result, and no byte beyond is read or written."""
    width = 1 << log_width
    made = MadePage([(count, [bytes(8)])], levels=levels, wide=wide)
    made.data = np.frombuffer(padded(data) or bytes(8), np.uint8)
    made.positions = np.array([0, len(made.data)])
    for reader in (pages.read_flat, fastlanes.read_packed, pages.read_runs):
        assert _read(reader, made.page(width), 0, count, width)[0] in (-1, 0)
    starts, sizes = np.zeros((2, levels + 2, 1), np.int64)
    if pages.chunk_buffers(made.page(width), np.zeros(1, np.int64), starts, sizes) == -1:
        assert (starts + sizes <= len(made.data)).all()
    out = np.empty(count, np.uint8)
    assert fastlanes.read_valid(made.page(1), 0, count, 8, out) in (-1, 0)


def _levels_page(parts: Sequence[np.ndarray], bits: int, *, packed_tail: bool) -> MadePage:
    chunks = []
    for part in parts:
        whole = len(part) // 1024 * 1024
        blocks = [packed(part[at : at + 1024], bits) for at in range(0, whole, 1024)]
        tail = part[whole:]
        if len(tail):
            blocks.append(packed(tail, bits) if packed_tail else tail.tobytes())
        chunks.append((len(part), [b"".join(blocks), bytes(8)]))
    return MadePage(chunks, levels=True)


@pytest.mark.parametrize("bits", [1, 2, 16])
@pytest.mark.parametrize("packed_tail", [False, True])
def test_levels(bits: int, packed_tail: bool) -> None:
    rng = np.random.default_rng(bits)
    counts = (1024, 1031, 5, 2048, 1023) if kernels.COMPILED else (1024, 5, 1030)
    levels = rng.integers(0, 2, sum(counts)).astype(np.uint16)
    made = _levels_page(cut(levels, counts), bits, packed_tail=packed_tail)
    spans = [(0, len(levels)), *(_random_span(rng, len(levels)) for _ in range(EXAMPLES // 5))]
    for start, stop in [*spans, (0, 1), (1023, 1025)]:
        out = np.full(stop - start + 8, UNTOUCHED, np.uint8)
        assert fastlanes.read_valid(made.page(bits), start, stop, 8, out[: stop - start]) == -1
        assert np.array_equal(out[: stop - start], levels[start:stop] == 0)
        assert (out[stop - start :] == UNTOUCHED).all()


def test_levels_that_are_damaged() -> None:
    levels = np.zeros(1030, np.uint16)
    out = np.empty(2060, np.uint8)
    for place in (3, 1028):
        high = levels.copy()
        high[place] = 3
        made = _levels_page([levels, high], 2, packed_tail=False)
        assert fastlanes.read_valid(made.page(2), 0, 1030, 8, out[:1030]) == -1
        assert fastlanes.read_valid(made.page(2), 0, 2060, 8, out) == -2 - 3
    for wrong in ((1029, bytes(256 + 12)), (1030, bytes(256 + 10)), (1030, b""), (1030, bytes(511))):
        made = MadePage([(1030, [bytes(256 + 12), bytes(8)]), (wrong[0], [wrong[1], bytes(8)])], levels=True)
        made.items[-1] = 2060
        assert fastlanes.read_valid(made.page(2), 0, 2060, 8, out) == 1
    for end in range(0, 40, 8):
        made = MadePage([(5, [bytes(10), bytes(8)])] * 2, levels=True)
        _cut_off(made, 1, end)
        status = fastlanes.read_valid(made.page(1), 0, 10, 8, out[:10])
        assert status == (-1 if end >= 24 else 1)


def _found(made: MadePage, chunks: Sequence[int], num_buffers: int) -> tuple[int, Any, Any]:
    starts, sizes = np.zeros((2, num_buffers, len(chunks)), np.int64)
    status = pages.chunk_buffers(made.page(1), np.array(chunks, np.int64), starts, sizes)
    return status, starts, sizes


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("levels", [False, True])
def test_buffers_of_chunks(wide: bool, levels: bool) -> None:
    rng = np.random.default_rng(7)
    for num_buffers in (1, 2, 3):
        buffers = [
            [rng.integers(0, 256, rng.integers(0, 40), np.uint8).tobytes() for _ in range(num_buffers)]
            for _ in range(6)
        ]
        made = MadePage([(7, each) for each in buffers], levels=levels, wide=wide)
        for chunks in ([], [0], [5], [0, 1, 2, 3, 4, 5], [4, 1]):
            status, starts, sizes = _found(made, chunks, num_buffers)
            assert status == -1
            for at, chunk in enumerate(chunks):
                for number, expected in enumerate(buffers[chunk]):
                    start = int(starts[number, at])
                    assert start % 8 == 0
                    assert made.data[start : start + int(sizes[number, at])].tobytes() == expected
        short = MadePage(
            [(7, each) for each in buffers[:-1]] + [(7, [b"123456789"] * num_buffers)], levels=levels
        )
        _cut_off(short, 5, len(short.data) - int(short.positions[5]) - 8)
        assert _found(short, [0, 5], num_buffers)[0] == 5
        _cut_off(short, 5, 0)
        assert _found(short, [0, 5], num_buffers)[0] == 5


def test_as_many_levels_as_values() -> None:
    made = MadePage([(7, [b"", b""])] * 2, levels=True)
    made.items[-1] = 15
    assert _found(made, [0], 2)[0] == -1
    assert _found(made, [0, 1], 2)[0] == 1
