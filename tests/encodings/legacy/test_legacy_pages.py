"""0.1 pages by hand: bytes, positions, and what is refused."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest

from lance_df.encodings.legacy.lists import read_list_bounds
from lance_df.encodings.legacy.page import Points, RowSlice
from lance_df.encodings.legacy.plain import read_plain
from lance_df.encodings.legacy.var_binary import read_var_binary
from lance_df.encodings.plan import RowRange
from lance_df.errors import CorruptDataError, UnsupportedFeatureError


def run(plan, content: bytes):
    buffers = None
    while True:
        try:
            ranges = plan.send(buffers)
        except StopIteration as end:
            return end.value
        assert all(0 <= wanted.start <= wanted.stop <= len(content) for wanted in ranges)
        buffers = [pa.py_buffer(content[wanted.start : wanted.stop]) for wanted in ranges]


def stretches(content: bytes, *pages: tuple[int, int, int, int]) -> list[RowSlice]:
    return [RowSlice(at, count, len(content), RowRange(start, stop)) for at, count, start, stop in pages]


def points(content: bytes, positions: list[int], rows: list[int]) -> Points:
    return Points(np.array(positions, np.int64), np.array(rows, np.int64), len(content))


def test_plain_pages_at_odd_places() -> None:
    # one stray byte; page of 1, 2, 3; two stray bytes; page of 4, 5
    content = b"?" + struct.pack("<3h", 1, 2, 3) + b"??" + struct.pack("<2h", 4, 5)
    ranges = stretches(content, (1, 3, 1, 3), (9, 2, 0, 2))
    assert run(read_plain(pa.int16(), ranges), content).to_pylist() == [2, 3, 4, 5]
    single = points(content, [1, 9, 1], [2, 1, 0])
    assert run(read_plain(pa.int16(), single), content).to_pylist() == [3, 5, 1]


def test_each_page_of_booleans_starts_on_a_fresh_byte() -> None:
    content = b"\x05\x02"  # 1 0 1 | 0 1
    ranges = stretches(content, (0, 3, 0, 3), (1, 2, 0, 2))
    assert run(read_plain(pa.bool_(), ranges), content).to_pylist() == [True, False, True, False, True]
    assert run(read_plain(pa.bool_(), points(content, [0, 1], [2, 1])), content).to_pylist() == [True, True]


def test_lists_of_booleans_share_bytes() -> None:
    content = bytes([0b110_001, 0])  # (1 0 0) (0 1 1)
    kind = pa.list_(pa.bool_(), 3)
    expected = [[True, False, False], [False, True, True]]
    assert run(read_plain(kind, stretches(content, (0, 2, 0, 2))), content).to_pylist() == expected
    assert run(read_plain(kind, points(content, [0], [1])), content).to_pylist() == expected[1:]


def test_strings_lie_before_their_absolute_offsets() -> None:
    # "ab", "", "c" at bytes 3 to 6; offsets 3, 5, 5, 6 from byte 6 on
    content = b"???abc" + struct.pack("<4q", 3, 5, 5, 6)
    ranges = stretches(content, (6, 3, 0, 3))
    assert run(read_var_binary(pa.string(), ranges, nullable=True), content).to_pylist() == ["ab", None, "c"]
    assert run(read_var_binary(pa.string(), ranges, nullable=False), content).to_pylist() == ["ab", "", "c"]
    single = points(content, [6, 6], [0, 2])
    assert run(read_var_binary(pa.binary(), single, nullable=True), content).to_pylist() == [b"ab", b"c"]


def test_pages_in_any_order() -> None:
    content = b"b" + struct.pack("<2q", 0, 1) + b"a" + struct.pack("<2q", 17, 18)
    single = points(content, [18, 1], [0, 0])
    assert run(read_var_binary(pa.string(), single, nullable=True), content).to_pylist() == ["a", "b"]


def test_list_offsets_count_items() -> None:
    content = struct.pack("<4i", 0, 2, 2, 5)
    ranges = stretches(content, (0, 3, 1, 3))
    ((starts, ends),) = run(read_list_bounds(ranges, large=False, num_items=np.array([5])), content)
    assert (starts.tolist(), ends.tolist()) == ([2, 2], [2, 5])
    with pytest.raises(CorruptDataError, match="a batch has fewer"):
        run(read_list_bounds(ranges, large=False, num_items=np.array([4])), content)


@pytest.mark.parametrize(("position", "count"), [(0, 5), (17, 0), (8, 3), (-4, 1), (0, 2**62)])
def test_pages_that_leave_the_file(position, count) -> None:
    content = bytes(16)
    with pytest.raises(CorruptDataError, match="the file has 16 bytes"):
        run(read_plain(pa.int32(), stretches(content, (position, count, 0, min(count, 3)))), content)


@pytest.mark.parametrize(("position", "row"), [(13, 0), (0, 4), (2**62, 0), (0, 2**61)])
def test_points_that_leave_the_file(position, row) -> None:
    content = bytes(16)
    with pytest.raises(CorruptDataError, match="the file has 16 bytes"):
        run(read_plain(pa.int32(), points(content, [position], [row])), content)


@pytest.mark.parametrize("offsets", [(0, 3), (2, 1), (-1, 1), (0, 99)])
def test_strings_that_cannot_be(offsets) -> None:
    content = b"\xff\xfe\xfd" + struct.pack("<2q", *offsets)
    for wanted in (stretches(content, (3, 1, 0, 1)), points(content, [3], [0])):
        with pytest.raises(CorruptDataError):
            run(read_var_binary(pa.string(), wanted, nullable=True), content)


def test_types_without_pages() -> None:
    with pytest.raises(UnsupportedFeatureError, match="map"):
        run(read_plain(pa.map_(pa.string(), pa.int8()), stretches(b"", (0, 0, 0, 0))), b"")
