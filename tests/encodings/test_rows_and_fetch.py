"""Row selections, and the bytes asked for to serve them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df.encodings.fetch import fetch_bits, fetch_fixed, fetch_spans, take_spans
from lance_df.encodings.plan import RowRange, together
from lance_df.encodings.rows import as_rows, checked_rows, item_rows, rows_of_spans, shift_rows, split_rows
from lance_df.errors import InvalidInputError
from lance_df.storage import ByteRange


def run(plan, content: bytes, asked: list[ByteRange] | None = None):
    """Run a plan over bytes in memory, and note what it asks for."""
    buffers = None
    while True:
        try:
            ranges = plan.send(buffers)
        except StopIteration as end:
            return end.value
        if asked is not None:
            asked += ranges
        assert all(0 <= wanted.start <= wanted.stop <= len(content) for wanted in ranges)
        buffers = [pa.py_buffer(content[wanted.start : wanted.stop]) for wanted in ranges]


def numbers(rows) -> list[int]:
    return list(range(rows.start, rows.stop)) if isinstance(rows, RowRange) else rows.tolist()


@st.composite
def selections(draw, num_rows: int):
    if draw(st.booleans()):
        start = draw(st.integers(0, num_rows))
        return RowRange(start, draw(st.integers(start, num_rows)))
    chosen = draw(st.sets(st.integers(0, num_rows - 1))) if num_rows else set()
    return np.array(sorted(chosen), np.int64)


@given(rows=selections(50), width=st.sampled_from([1, 2, 3, 4, 8, 16, 24]))
def test_values_of_any_width(rows, width) -> None:
    content = np.random.default_rng(0).bytes(7 + 50 * width)
    found = run(fetch_fixed(ByteRange(7, len(content)), width, rows), content)
    assert found.to_pybytes() == b"".join(content[7 + i * width : 7 + (i + 1) * width] for i in numbers(rows))


@given(rows=selections(61))
def test_bits(rows) -> None:
    content = np.random.default_rng(1).bytes(9)
    bits = np.unpackbits(np.frombuffer(content[1:], np.uint8), bitorder="little")
    found = np.frombuffer(run(fetch_bits(ByteRange(1, 9), rows), content), np.uint8)
    assert np.unpackbits(found, bitorder="little")[: len(rows)].tolist() == bits[numbers(rows)].tolist()


@given(edges=st.lists(st.integers(0, 200), max_size=20).map(sorted))
def test_spans_of_bytes(edges) -> None:
    edges = np.array(edges[: len(edges) // 2 * 2], np.int64)
    starts, ends = edges[::2], edges[1::2]
    content = np.random.default_rng(2).bytes(210)
    expected = [content[10 + low : 10 + high] for low, high in zip(starts, ends, strict=True)]
    for bounds, data in (
        run(fetch_spans(ByteRange(10, 210), starts, ends), content),
        take_spans(pa.py_buffer(content[10:]), starts, ends),
    ):
        assert bounds[0] == 0
        assert [data.to_pybytes()[low:high] for low, high in pairwise(bounds)] == expected


def test_near_values_share_a_range_and_far_ones_do_not() -> None:
    content, asked = bytes(10_000_000), []
    run(fetch_fixed(ByteRange(0, len(content)), 8, np.array([1, 5, 100_000, 100_002])), content, asked)
    assert asked == [ByteRange(8, 48), ByteRange(800_000, 800_024)]


def test_ranges_do_not_get_out_of_hand() -> None:
    content, asked = bytes(8_000_000), []
    run(fetch_fixed(ByteRange(0, len(content)), 8, np.arange(0, 1_000_000, 1000)), content, asked)
    assert len(asked) == 1


@given(rows=selections(40), sizes=st.lists(st.integers(0, 9), min_size=1, max_size=10))
def test_rows_split_at_pages_are_the_same_rows(rows, sizes) -> None:
    starts = np.cumsum([0, *sizes, 100])
    joined = [starts[page] + row for page, within in split_rows(rows, starts) for row in numbers(within)]
    assert joined == numbers(rows)


@given(rows=selections(20), size=st.integers(1, 5))
def test_items_of_rows(rows, size) -> None:
    assert numbers(item_rows(rows, size)) == [row * size + i for row in numbers(rows) for i in range(size)]
    assert numbers(shift_rows(rows, 3)) == [row + 3 for row in numbers(rows)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), max_size=12))
def test_rows_of_spans(gaps_and_lengths) -> None:
    expected, starts, at = [], [], 0
    for gap, length in gaps_and_lengths:
        at += gap
        starts.append(at)
        expected += range(at, at + length)
        at += length
    lengths = np.array([length for _, length in gaps_and_lengths], np.int64)
    found = rows_of_spans(np.array(starts, np.int64), lengths)
    assert numbers(found) == expected
    if expected and expected[-1] - expected[0] + 1 == len(expected):
        assert isinstance(found, RowRange)


def test_positions_without_gaps_are_a_range() -> None:
    assert as_rows(np.array([4, 5, 6])) == RowRange(4, 7)
    assert as_rows(np.array([4, 6])).tolist() == [4, 6]
    assert len(as_rows(np.zeros(0, np.int64))) == 0


@pytest.mark.parametrize(
    "rows", [RowRange(0, 11), RowRange(5, 4), np.array([10]), np.array([3, 2]), np.array([-1, 2])]
)
def test_impossible_rows_are_refused(rows) -> None:
    with pytest.raises(InvalidInputError, match="rows"):
        checked_rows(rows, 10)


def test_plans_run_together_ask_together() -> None:
    def plan(steps: int):
        total = b""
        for step in range(steps):
            (buffer,) = yield [ByteRange(step, step + 1)]
            total += buffer.to_pybytes()
        return total

    rounds: list[list[ByteRange]] = []

    def note(joint):
        buffers = None
        while True:
            try:
                ranges = joint.send(buffers)
            except StopIteration as end:
                return end.value
            rounds.append(list(ranges))
            buffers = [pa.py_buffer(b"abc"[wanted.start : wanted.stop]) for wanted in ranges]

    assert note(together([plan(0), plan(3), plan(1)])) == [b"", b"abc", b"a"]
    assert [len(ranges) for ranges in rounds] == [2, 1, 1]
