"""Codes are expanded as the format defines them, and what is broken is refused."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_df.encodings.kernels import COMPILED, fsst
from lance_df.encodings.kernels.pages import Page

SYMBOLS = [b"a", b"bc", b"def", b"ghij", b"klmnopqr", b"\xff\xfe", b"", b"0123456"]
SIZES = (0, 1, 7, 8, 9, 1023, 1024, 1025, 9000) if COMPILED else (0, 1, 7, 8, 9, 600)


def table_of(symbols: list[bytes]) -> np.ndarray:
    words = b"".join(symbol.ljust(8, b"\0") for symbol in symbols).ljust(2048, b"\0")
    return np.frombuffer(words + bytes(map(len, symbols)).ljust(256, b"\0"), np.uint8)


TABLE = table_of(SYMBOLS)


def plain_of(codes: list[int]) -> bytes:
    """Expand codes, of which those above 255 are escaped bytes."""
    return b"".join(SYMBOLS[code] if code < 256 else bytes([code - 256]) for code in codes)


def coded(codes: list[int]) -> bytes:
    return b"".join(bytes([code]) if code < 256 else bytes([255, code - 256]) for code in codes)


VALUES = st.lists(
    st.lists(
        st.integers(0, len(SYMBOLS) - 1) | st.integers(0, 3) | st.sampled_from([256 + 97, 511]), max_size=40
    ),
    min_size=1,
    max_size=30,
)


def some(count: int, escaped: float) -> list[list[int]]:
    rng = np.random.default_rng(count)
    codes = rng.integers(0, len(SYMBOLS), (count, 20))
    codes[rng.random(codes.shape) < escaped] = 300
    sizes = rng.integers(0, 20, count)
    return [row[:size].tolist() for row, size in zip(codes, sizes, strict=True)]


def expand(values: list[bytes], width: int, first: int, room: int | None = None) -> list[bytes]:
    data = np.frombuffer(bytes(first) + b"".join(values), np.uint8)
    offsets = np.cumsum([first, *map(len, values)]).astype(f"<i{width}")
    ends = np.zeros_like(offsets)
    state = np.array([0, first, 0], np.int64)
    out = np.zeros(8 * len(data) if room is None else room, np.uint8)
    while True:
        rest = ends[1:].view(np.uint8)
        assert fsst.expand_fsst(data, offsets.view(np.uint8), width, TABLE, rest, out, state)
        if state[0] == len(values):
            break
        out = np.concatenate((out, np.zeros(3 * len(out) + 8, np.uint8)))
    assert state[2] == ends[-1]
    return [out[low:high].tobytes() for low, high in pairwise(ends)]


@given(VALUES, st.sampled_from([4, 8]), st.integers(0, 9))
@settings(deadline=None)
def test_codes_of_values(values, width, first):
    assert expand([coded(value) for value in values], width, first) == [plain_of(value) for value in values]


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("escaped", [0, 0.01, 0.4, 1])
@pytest.mark.parametrize("room", [None, 0])
def test_many_codes(count, escaped, room):
    values = some(count, escaped)
    assert expand([coded(value) for value in values], 4, 0, room) == [plain_of(value) for value in values]


@pytest.mark.parametrize("size", [4094, 4095, 4096, 4097, 12345])
@pytest.mark.parametrize("shift", [0, 1])
def test_long_values(size, shift):
    # escapes lie across all multiples of two
    long = [0] * shift + [256 + 97 + i % 20 for i in range(size // 2)] + [1]
    values = [long, [], [2], long]
    assert expand([coded(value) for value in values], 4, 0) == [plain_of(value) for value in values]


@pytest.mark.parametrize(
    ("codes", "offsets"),
    [
        (b"\0\xff", [0, 2]),
        (b"\xff", [0, 1]),
        (b"\0\xff\0", [0, 2, 3]),
        (b"\xff\0", [0, 1, 2]),
        (bytes(8) + b"\xff\xff", [0, 9, 10]),
        (bytes(7) + b"\xff\xff\xff\0", [0, 8, 11]),
        (bytes(4), [0, 3, 2, 4]),
        (bytes(4), [2, 1, 4]),
        (bytes(4), [0, -1, 4]),
        (bytes(4), [0, 5, 4]),
        (bytes(4), [0, 2, 5]),
        (bytes(4), [-1, 2, 4]),
        (bytes(4), [3, 2]),
        (bytes(4095) + b"\xff\0", [0, 4096, 4097]),
        (bytes(4095) + b"\xff", [0, 4096]),
    ],
)
@pytest.mark.parametrize("width", [4, 8])
def test_broken_values(codes, offsets, width):
    bounds = np.array(offsets, f"<i{width}")
    state, ends = np.array([0, offsets[0], 0], np.int64), np.zeros_like(bounds).view(np.uint8)
    data, out = np.frombuffer(codes, np.uint8), np.zeros(9 * len(codes) + 99, np.uint8)
    assert not fsst.expand_fsst(data, bounds.view(np.uint8), width, TABLE, ends, out, state)


def test_arrays_that_are_too_short():
    ok = np.zeros(8, np.uint8)
    state = np.zeros(3, np.int64)
    with pytest.raises(ValueError, match="table"):
        fsst.expand_fsst(ok, ok, 4, TABLE[:-1], ok, ok, state)
    with pytest.raises(ValueError, match="table"):
        fsst.expand_fsst(ok, ok, 4, TABLE, ok[:3], ok, state)


def page_of(chunks: list[list[bytes]], width: int, change: tuple[int, int] | None = None) -> Page:
    """Return a page of chunks of codes; an offset of the first may be another than it should be."""
    data, positions = b"", [0]
    for values in chunks:
        offsets = np.cumsum([width * (len(values) + 1), *map(len, values)]).astype(f"<i{width}")
        if change is not None:
            offsets[change[0]], change = change[1], None
        body = offsets.tobytes() + b"".join(values)
        data += bytes(2) + len(body).to_bytes(4, "little") + bytes(2) + body
        data += bytes(-len(data) % 8)
        positions.append(len(data))
    items = np.cumsum([0, *map(len, chunks)])
    return Page(np.frombuffer(data, np.uint8), np.array(positions), items, 0, 1, width, TABLE, 256, width)


def read(page: Page, start: int, stop: int, width: int, longest: int) -> tuple[list[bytes], int]:
    offsets, out = np.full(stop - start + 1, 77, f"<i{width}"), np.zeros(longest, np.uint8)
    state = np.array([start, 0, 0], np.int64)
    while True:
        assert fsst.read_codes(page, start, stop, offsets.view(np.uint8), out, state) == -1
        if state[0] == stop:
            break
        out = np.concatenate((out, np.zeros(len(out) + 8, np.uint8)))
    assert state[1] == offsets[-1]
    assert offsets[0] == 0
    return [out[low:high].tobytes() for low, high in pairwise(offsets)], int(state[2])


@given(st.lists(VALUES, min_size=1, max_size=4), st.data(), st.sampled_from([4, 8]))
@settings(deadline=None)
def test_codes_of_pages(chunks, data, width):
    values = [value for chunk in chunks for value in chunk]
    page = page_of([[coded(value) for value in chunk] for chunk in chunks], width)
    start = data.draw(st.integers(0, len(values) - 1))
    stop = data.draw(st.integers(start + 1, len(values)))
    wanted = [plain_of(value) for value in values[start:stop]]
    for room in (0, 100, 100_000):
        found, literals = read(page, start, stop, width, room)
        assert found == wanted
        assert (literals >= 128) == any(511 in value for value in values[start:stop])


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize(
    ("index", "value"), [(0, -1), (1, 2), (1, 99), (1, -5), (3, 4), (3, 99), (2, -(2**31))]
)
def test_broken_pages(index, value, width):
    page = page_of([[b"\0\0", b"\0\0\0", b"\0" * 20]], width, (index, value))
    state = np.array([0, 0, 0], np.int64)
    assert fsst.read_codes(page, 0, 3, np.zeros(4 * width, np.uint8), np.zeros(999, np.uint8), state) == 0


@pytest.mark.parametrize("values", [[b"\0", b"\0\xff"], [b"\0\xff", b"\0"], [b"\xff", b""]])
def test_pages_that_end_within_escapes(values):
    page = page_of([[b"\0"], values], 4)
    state = np.array([0, 0, 0], np.int64)
    assert fsst.read_codes(page, 0, 3, np.zeros(16, np.uint8), np.zeros(999, np.uint8), state) == 1


@given(VALUES)
def test_single_values(values):
    parts = [coded(value) for value in values]
    page = page_of([parts], 4)
    ends = 8 + 4 * (len(parts) + 1) + np.cumsum([0, *map(len, parts)])
    out, offsets = np.zeros(8 * sum(map(len, parts)), np.uint8), np.zeros(len(parts) + 1, np.int64)
    literals = fsst.expand_strings(page, ends[:-1], ends[1:], offsets, out)
    assert (literals >= 128) == any(511 in value for value in values)
    found = [out[low:high].tobytes() for low, high in pairwise(offsets)]
    assert found == [plain_of(value) for value in values]


def test_single_values_that_end_within_escapes():
    page = page_of([[b"\0", b"\0\xff"]], 4)
    offsets, out = np.zeros(2, np.int64), np.zeros(16, np.uint8)
    assert fsst.expand_strings(page, np.array([21]), np.array([23]), offsets, out) == -1
    with pytest.raises(ValueError, match="table"):
        fsst.expand_strings(page, np.array([21]), np.array([23]), offsets[:1], out)
