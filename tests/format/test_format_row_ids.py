"""Row id and row version sequences: every encoding by hand, both ways by property, damage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lance_df._pb import rowids_pb2 as pb
from lance_df.errors import CorruptDataError
from lance_df.format.row_ids import (
    RunSequence,
    constant_versions,
    parse_row_ids,
    parse_versions,
    row_id_range,
    row_ids_of,
    serialize_row_ids,
    serialize_versions,
    versions_of,
)

U64 = 2**64 - 1
ids = st.one_of(
    st.lists(st.integers(0, U64), max_size=60),
    st.lists(st.integers(0, 300), max_size=200),
    st.lists(st.integers(0, 300), max_size=200, unique=True).map(sorted),
    st.tuples(st.integers(0, 2**40), st.sets(st.integers(0, 5000), max_size=100)).map(
        lambda pair: [pair[0] + hole for hole in sorted(pair[1])]
    ),
    st.tuples(st.integers(0, 2**40), st.integers(0, 400), st.sets(st.integers(0, 400), max_size=5)).map(
        lambda triple: [triple[0] + i for i in range(triple[1]) if i not in triple[2]]
    ),
)


def parse(message: pb.RowIdSequence, num_rows: int) -> list[int]:
    return parse_row_ids(message.SerializeToString(), num_rows=num_rows, source="m").to_numpy().tolist()


def u16(base: int, *offsets: int) -> pb.EncodedU64Array:
    data = np.array(offsets, "<u2").tobytes()
    return pb.EncodedU64Array(u16_array=pb.EncodedU64Array.U16Array(base=base, offsets=data))


def test_every_encoding():
    message = pb.RowIdSequence()
    message.segments.add().range.MergeFrom(pb.U64Segment.Range(start=5, end=8))
    # 20 … 26 without 22 and 23; holes are absolute
    message.segments.add().range_with_holes.MergeFrom(
        pb.U64Segment.RangeWithHoles(start=20, end=27, holes=u16(22, 0, 1))
    )
    # bits 0, 2 and 9, counted from the least significant of byte 0
    message.segments.add().range_with_bitmap.MergeFrom(
        pb.U64Segment.RangeWithBitmap(start=40, end=50, bitmap=bytes([0b101, 0b10]))
    )
    message.segments.add().sorted_array.MergeFrom(u16(60, 0, 7))
    message.segments.add().array.MergeFrom(
        pb.EncodedU64Array(
            u32_array=pb.EncodedU64Array.U32Array(base=70, offsets=np.array([100000, 0], "<u4").tobytes())
        )
    )
    message.segments.add().array.MergeFrom(
        pb.EncodedU64Array(u64_array=pb.EncodedU64Array.U64Array(values=np.array([U64, 1], "<u8").tobytes()))
    )
    expected = [5, 6, 7, 20, 21, 24, 25, 26, 40, 42, 49, 60, 67, 100070, 70, U64, 1]
    assert parse(message, len(expected)) == expected
    assert parse(message, 4) == expected[:4]


@given(ids)
def test_sequences_survive_writing_and_reading(values):
    sequence = row_ids_of(values)
    data = serialize_row_ids(sequence)
    read = parse_row_ids(data, num_rows=len(values), source="m")
    assert sequence.to_numpy().tolist() == values
    assert read.to_numpy().tolist() == values
    assert len(read) == len(values)


@given(ids.filter(bool), st.data())
def test_parts_of_a_sequence_are_parts_of_its_array(values, data):
    sequence = row_ids_of(values)
    start = data.draw(st.integers(0, len(values)))
    stop = data.draw(st.integers(start, len(values)))
    positions = data.draw(st.lists(st.integers(0, len(values) - 1)))
    assert sequence.slice(start, stop).tolist() == values[start:stop]
    assert sequence.take(np.array(positions, np.int64)).tolist() == [values[i] for i in positions]
    assert sequence.head(stop).to_numpy().tolist() == values[:stop]


@given(st.lists(st.integers(1, 4), max_size=60), st.data())
def test_versions_survive_writing_and_reading(values, data):
    sequence = versions_of(values)
    read = parse_versions(serialize_versions(sequence), num_rows=len(values), source="m")
    stop = data.draw(st.integers(0, len(values)))
    assert read.to_numpy().tolist() == values
    assert read.slice(0, stop).tolist() == values[:stop]


@pytest.mark.parametrize(
    ("values", "arm"),
    [
        ([], "range"),
        (range(7, 1000), "range"),
        ([i for i in range(1000) if i not in (5, 7)], "range_with_holes"),
        ([i for i in range(1000) if i % 3], "range_with_bitmap"),
        ([1, 1000, 2000, 70000], "sorted_array"),
        ([3, 2, 1], "array"),
    ],
)
def test_the_smallest_form_is_written(values, arm):
    message = pb.RowIdSequence.FromString(serialize_row_ids(row_ids_of(list(values))))
    assert [segment.WhichOneof("segment") for segment in message.segments] == [arm]


@pytest.mark.parametrize(("high", "arm"), [(65535, "u16_array"), (65536, "u32_array"), (2**32, "u64_array")])
def test_the_width_of_arrays_follows_their_span(high, arm):
    message = pb.RowIdSequence.FromString(serialize_row_ids(row_ids_of([9 + high, 9])))
    assert message.segments[0].array.WhichOneof("array") == arm


def test_a_huge_range_takes_no_memory():
    sequence = row_id_range(2**40, 2**40 + 2**32)
    data = serialize_row_ids(sequence)
    read = parse_row_ids(data, num_rows=2**32, source="m")
    assert len(data) < 30
    assert read.take(np.array([2**32 - 1]))[0] == 2**40 + 2**32 - 1
    assert constant_versions(3, 2**32).slice(2**31, 2**31 + 2).tolist() == [3, 3]


def spoiled(**arm: object) -> bytes:
    message = pb.RowIdSequence()
    for name, value in arm.items():
        getattr(message.segments.add(), name).MergeFrom(value)
    return message.SerializeToString()


Segment = pb.U64Segment


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff",
        spoiled(range=Segment.Range(start=0, end=2)),
        spoiled(range=Segment.Range(start=5, end=2)),
        spoiled(range=Segment.Range(start=0, end=U64)),
        spoiled(range_with_holes=Segment.RangeWithHoles(start=0, end=9, holes=u16(0, 3, 3))),
        spoiled(range_with_holes=Segment.RangeWithHoles(start=5, end=9, holes=u16(0, 4))),
        spoiled(range_with_holes=Segment.RangeWithHoles(start=5, end=9, holes=u16(0, 9))),
        spoiled(range_with_bitmap=Segment.RangeWithBitmap(start=0, end=9, bitmap=b"\xff")),
        spoiled(range_with_bitmap=Segment.RangeWithBitmap(start=0, end=2**40, bitmap=b"\xff")),
        spoiled(array=pb.EncodedU64Array(u16_array=pb.EncodedU64Array.U16Array(base=0, offsets=b"abc"))),
        spoiled(array=u16(U64, 0, 1, 2)),
        pb.RowIdSequence(segments=[Segment()]).SerializeToString(),
    ],
)
def test_contradictions_are_reported(data):
    with pytest.raises(CorruptDataError, match="somewhere"):
        parse_row_ids(data, num_rows=3, source="somewhere")


def test_too_many_items_in_all_are_refused():
    message = pb.RowIdSequence()
    for _ in range(3):
        message.segments.add().range.MergeFrom(Segment.Range(start=0, end=2**40))
    with pytest.raises(CorruptDataError, match="items"):
        parse_row_ids(message.SerializeToString(), num_rows=3, source="m")


@given(st.binary(max_size=80))
def test_noise_is_a_sequence_or_an_error(data):
    for parse_any in (parse_row_ids, parse_versions):
        try:
            sequence = parse_any(data, num_rows=2, source="m")
        except CorruptDataError:
            continue
        assert isinstance(sequence, RunSequence)
        assert len(sequence.to_numpy()) == 2
