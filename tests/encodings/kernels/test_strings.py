"""Kernels of strings and views do what a few lines of Python do, and refuse what is broken."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_df.encodings.kernels import COMPILED, strings
from lance_df.encodings.kernels.pages import Page

SIZES = (0, 1, 7, 8, 9, 255, 256, 257, 1023, 1024, 1025) if COMPILED else (0, 1, 7, 8, 9, 33)
SAMPLES = st.binary(max_size=20) | st.sampled_from(
    [b"", b"a", b"abc", b"abcd", b"e" * 12, b"f" * 13, b"\xff"]
)
VALUES = st.lists(SAMPLES, min_size=1, max_size=30)


def view_of(value: bytes, start: int) -> bytes:
    """Return the 16 bytes of a view of buffer 0."""
    size = len(value).to_bytes(4, "little")
    if len(value) <= 12:
        return size + value.ljust(12, b"\0")
    return size + value[:4] + bytes(4) + start.to_bytes(4, "little")


def views_of(values: list[bytes], starts: list[int]) -> bytes:
    return b"".join(map(view_of, values, starts))


def offsets_of(values: list[bytes], dtype: str, first: int = 0) -> np.ndarray:
    return np.cumsum([first, *map(len, values)]).astype(dtype)


def frozen(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def some(count: int, longest: int) -> list[bytes]:
    rng = np.random.default_rng(count)
    return [bytes(rng.integers(97, 123, size, np.uint8)) for size in rng.integers(0, longest + 1, count)]


class Chunks(NamedTuple):
    """What a page is made of."""

    data: np.ndarray
    positions: np.ndarray
    items: np.ndarray
    width: int
    levels: int
    wide: bool

    def page(self) -> Page:
        return Page(*self[:3], self.levels, int(self.wide), self.width, frozen(b""), -1, self.width)


def chunks_of(
    chunks: list[list[bytes]], width: int = 4, levels: int = 0, *, wide: bool = False, first: int = 0
) -> Chunks:
    """Return chunks of strings, whose first one is ``first`` bytes after the offsets."""
    data, positions = b"", [0]
    for values in chunks:
        offsets = offsets_of(values, f"<i{width}", width * (len(values) + 1) + first)
        body = offsets.tobytes() + bytes(first) + b"".join(values)
        header = len(values).to_bytes(2, "little")
        header += (21).to_bytes(2, "little") * levels
        header += len(body).to_bytes(4 if wide else 2, "little")
        data += header.ljust(8, b"\0") + bytes(24 * levels) + body
        data += bytes(-len(data) % 8)
        positions.append(len(data))
    items = np.cumsum([0, *map(len, chunks)])
    return Chunks(frozen(data), np.array(positions), items, width, levels, wide)


@given(VALUES, st.integers(0, 20), st.integers(0, 20))
def test_string_views(values, before, after):
    data = frozen(bytes(before) + b"".join(values) + bytes(after))
    offsets = offsets_of(values, "<i4", before)
    out = np.zeros(16 * len(values), np.uint8)
    assert strings.string_views(offsets.view(np.uint8), data, out)
    assert out.tobytes() == views_of(values, offsets.tolist())


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("longest", [1, 12, 40])
def test_many_string_views(count, longest):
    values = some(count, longest)
    offsets = offsets_of(values, "<i4")
    offsets.flags.writeable = False
    out = np.zeros(16 * count, np.uint8)
    assert strings.string_views(offsets.view(np.uint8), frozen(b"".join(values)), out)
    assert out.tobytes() == views_of(values, offsets.tolist())


def test_string_views_of_single_bytes():
    values = [bytes([i % 256]) for i in range(SIZES[-1])]
    offsets = offsets_of(values, "<i4")
    out = np.zeros(16 * len(values), np.uint8)
    assert strings.string_views(offsets.view(np.uint8), frozen(b"".join(values)), out)
    assert out.tobytes() == views_of(values, offsets.tolist())


@pytest.mark.parametrize(
    "offsets", [[0, 3, 2, 5], [-1, 2, 3, 5], [0, 2, 3, 6], [0, 9, 3, 5], [-(2**31), 0, 2**31 - 1, 5]]
)
def test_string_views_of_broken_offsets(offsets):
    bounds = np.array(offsets, "<i4").view(np.uint8)
    assert not strings.string_views(bounds, frozen(b"12345"), np.zeros(48, np.uint8))


def test_too_few_offsets_are_an_error():
    with pytest.raises(ValueError, match="offsets"):
        strings.string_views(np.zeros(8, np.uint8), frozen(b"12345"), np.zeros(32, np.uint8))


@given(VALUES, st.data(), st.integers(0, 20))
def test_ends(values, data, after):
    content = frozen(b"".join(values) + bytes(after))
    ends = np.cumsum([len(value) for value in values], dtype=np.uint64)
    start = data.draw(st.integers(0, len(values) - 1))
    stop = data.draw(st.integers(start + 1, len(values)))
    first = int(ends[start - 1]) if start else 0
    limit = int(ends[-1])
    wanted = offsets_of(values[start:stop], "i8")
    for width in (4, 8):
        out = np.full(stop - start + 1, 77, f"<i{width}")
        size = strings.read_ends(ends.view(np.uint8), start, stop, limit, width, out.view(np.uint8))
        assert size == int(ends[stop - 1]) - first
        assert out.tolist() == wanted.tolist()

    views = np.zeros(16 * (stop - start), np.uint8)
    part = b"".join(values[start:stop])
    for is_checked in (False, True):
        status = strings.view_ends(ends.view(np.uint8), start, stop, limit, content, is_checked, views)
        if not is_checked and not part.isascii():
            assert status == -2
        else:
            assert status == -1
            assert views.tobytes() == views_of(values[start:stop], wanted.tolist())


@pytest.mark.parametrize(
    ("ends", "start"),
    [([3, 2, 5], 0), ([1, 6, 5], 0), ([1, 2, 6], 0), ([6, 2, 5], 0), ([2**63 + 1, 2, 5], 0), ([4, 2, 5], 1)],
)
def test_ends_that_are_broken_or_of_nulls(ends, start):
    stored = np.array(ends, np.uint64).view(np.uint8)
    out = np.zeros(48, np.uint8)
    assert strings.read_ends(stored, start, 3, 5, 4, out) == -3
    assert strings.read_ends(stored, start, 3, 5, 8, out) == -3
    assert strings.view_ends(stored, start, 3, 5, frozen(b"12345"), False, out) == -3


@pytest.mark.parametrize(("start", "stop"), [(-1, 1), (1, 1), (2, 1), (0, 4)])
def test_ends_of_rows_that_are_not_there(start, stop):
    ends, out = np.array([1, 2, 5], np.uint64).view(np.uint8), np.zeros(99, np.uint8)
    with pytest.raises(ValueError, match="values"):
        strings.read_ends(ends, start, stop, 5, 4, out)
    with pytest.raises(ValueError, match="values"):
        strings.view_ends(ends, start, stop, 5, frozen(b"12345"), True, out)


def read_all(chunks: Chunks, values: list[bytes], start: int, stop: int) -> None:
    page, width = chunks.page(), chunks.width
    room = strings.room_for_strings(page, start, stop)
    wanted = b"".join(values[start:stop])
    assert room >= len(wanted)
    offsets, out = np.full(stop - start + 1, 77, f"<i{width}"), np.zeros(room, np.uint8)
    assert strings.read_strings(page, start, stop, offsets.view(np.uint8), out) == -1
    assert offsets.tolist() == offsets_of(values[start:stop], "i8").tolist()
    assert out[: len(wanted)].tobytes() == wanted

    rows = np.arange(start, stop, 1 + start % 3)
    starts, ends = np.zeros((2, len(rows)), np.int64)
    assert strings.find_strings(page, rows, starts, ends) == -1
    found = [chunks.data[low:high].tobytes() for low, high in zip(starts, ends, strict=True)]
    assert found == [values[row] for row in rows.tolist()]


@given(
    st.lists(VALUES, min_size=1, max_size=4),
    st.data(),
    st.sampled_from([4, 8]),
    st.integers(0, 1),
    st.booleans(),
    st.integers(0, 9),
)
@settings(deadline=None)
def test_strings_of_pages(parts, data, width, levels, wide, first):
    chunks = chunks_of(parts, width, levels, wide=wide, first=first)
    values = [value for part in parts for value in part]
    start = data.draw(st.integers(0, len(values) - 1))
    stop = data.draw(st.integers(start + 1, len(values)))
    read_all(chunks, values, start, stop)
    if width == 4:
        out = np.zeros(16 * (stop - start), np.uint8)
        status = strings.read_views(chunks.page(), start, stop, out)
        assert status == (-1 if b"".join(values[start:stop]).isascii() else -2)
        rows = np.arange(start, stop)
        starts, ends = np.zeros((2, len(rows)), np.int64)
        assert strings.find_strings(chunks.page(), rows, starts, ends) == -1
        origin = chunks.positions[chunks.items.searchsorted(start, "right") - 1]
        assert out.tobytes() == views_of(values[start:stop], (starts - origin).tolist())


@pytest.mark.parametrize("count", [size for size in SIZES if size])
@pytest.mark.parametrize("width", [4, 8])
def test_pages_of_many_strings(count, width):
    parts = [some(count, 30), some(8, 3), some(count, 12)]
    values = [value for part in parts for value in part]
    chunks = chunks_of(parts, width, wide=True)
    read_all(chunks, values, 0, len(values))
    read_all(chunks, values, count // 2, len(values) - 1)


@pytest.mark.parametrize("width", [4, 8])
@pytest.mark.parametrize(
    ("index", "value"), [(0, -1), (1, 2), (1, 99), (1, -5), (3, 4), (3, 99), (3, -1), (2, -(2**31))]
)
def test_broken_offsets_of_pages(index, value, width):
    chunks = chunks_of([[b"aa", b"bbb", b"c" * 20]], width)
    data = chunks.data.copy()
    data[8 : 8 + 4 * width].view(f"<i{width}")[index] = value
    page = chunks._replace(data=data).page()
    offsets, out = np.zeros(4 * width, np.uint8), np.zeros(100, np.uint8)
    assert strings.read_strings(page, 0, 3, offsets, out) == 0
    if width == 4:
        assert strings.read_views(page, 0, 3, np.zeros(48, np.uint8)) == 0
    starts, ends = np.zeros((2, 3), np.int64)
    assert strings.find_strings(page, np.arange(3), starts, ends) == 0


def test_chunks_without_room_for_their_offsets():
    chunks = chunks_of([[b"aa", b"bbb"], [b"cc"]])
    page = chunks._replace(items=np.array([0, 2, 90])).page()
    assert strings.room_for_strings(page, 0, 2) == 5
    assert strings.room_for_strings(page, 0, 3) == -2
    assert strings.read_strings(page, 2, 4, np.zeros(12, np.uint8), np.zeros(9, np.uint8)) == 1
    assert strings.read_views(page, 2, 4, np.zeros(32, np.uint8)) == 1
    starts, ends = np.zeros((2, 1), np.int64)
    assert strings.find_strings(page, np.array([5]), starts, ends) == 1
    assert strings.find_strings(page, np.array([90]), starts, ends) == 2
    assert strings.find_strings(page, np.array([-1]), starts, ends) == 0


def test_no_room_for_the_bytes():
    page = chunks_of([[b"aa", b"bbb"]]).page()
    assert strings.read_strings(page, 0, 2, np.zeros(12, np.uint8), np.zeros(4, np.uint8)) == 0
    with pytest.raises(ValueError, match="offsets"):
        strings.read_strings(page, 0, 2, np.zeros(8, np.uint8), np.zeros(5, np.uint8))


def test_no_values_are_found():
    none = np.zeros(0, np.int64)
    page = chunks_of([[b"aa", b"bbb"]]).page()
    assert strings.find_strings(page, none, none, none.copy()) == -1
    with pytest.raises(ValueError, match="do not fit"):
        strings.find_strings(page, np.array([1]), none, none)
