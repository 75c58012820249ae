"""Which layout a page gets, and the bytes of small ones."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lance_df.encodings.layouts.laid_out_page import LaidOutPage
from lance_df.encodings.levels.encode import leaf_columns
from lance_df.encodings.v2_1.encode_page import encode_page
from lance_df.format.encodings_v2_1 import (
    ConstantLayout,
    Flat,
    FullZipLayout,
    General,
    InlineBitpacking,
    MiniBlockLayout,
    Rle,
    Variable,
)
from lance_df.format.schema import schema_from_arrow


def page_of(values: Any, data_type: pa.DataType | None = None, version: str = "2.2") -> LaidOutPage:
    array = values if isinstance(values, pa.Array) else pa.array(values, data_type)
    (field,) = schema_from_arrow(pa.schema([("c", array.type)])).fields
    (leaf,) = leaf_columns(field, array)
    return encode_page(leaf, version=version)


def test_fixed_width_without_nulls_is_the_plain_array() -> None:
    values = np.random.default_rng(0).integers(-(2**62), 2**62, 1000)
    page = page_of(pa.array(values))
    assert isinstance(page.layout, FullZipLayout)
    assert (page.layout.bits_per_value, page.layout.values) == (64, Flat(64))
    (data,) = page.buffers
    assert bytes(data) == values.tobytes()


def test_small_integers_are_packed() -> None:
    page = page_of(pa.array(np.arange(4000) % 100))
    assert isinstance(page.layout, MiniBlockLayout)
    assert page.layout.values == InlineBitpacking(64)
    assert sum(len(buffer) for buffer in page.buffers) < 4000 * 8 // 8


def test_bytes_of_a_nullable_chunk() -> None:
    page = page_of([0.5, 1.5, None, 2.5, 3.5], pa.float64(), version="2.1")
    assert isinstance(page.layout, MiniBlockLayout)
    assert not page.layout.has_large_chunk
    assert page.layout.values == Rle(Flat(64), Flat(8))
    words, chunk = page.buffers
    # header: 5 levels, 10 bytes of levels (raw, as a short tail), 32 bytes of run values, 4 of run lengths;
    # each part padded to 8
    assert bytes(chunk[:8]) == struct.pack("<HHHH", 5, 10, 32, 4)
    assert bytes(chunk[8:24]) == struct.pack("<5H6x", 0, 0, 1, 0, 0)
    assert struct.unpack("<4d", chunk[24:56]) == (0.5, 1.5, 2.5, 3.5)
    assert bytes(chunk[56:]) == bytes([1, 2, 1, 1, 0, 0, 0, 0])
    assert struct.unpack("<H", words) == ((64 // 8 - 1) << 4,)


def test_bytes_of_a_chunk_of_strings() -> None:
    page = page_of(["ab", "", "cde"], version="2.1")
    assert isinstance(page.layout, MiniBlockLayout)
    assert page.layout.values == Variable(32)
    _, chunk = page.buffers
    # no levels; offsets count from the start of the buffer, whose size is a multiple of their width
    assert bytes(chunk[:8]) == struct.pack("<HH4x", 0, 24)
    assert bytes(chunk[8:32]) == struct.pack("<4I", 16, 18, 18, 21) + b"abcde" + bytes(3)


def test_bytes_of_long_strings() -> None:
    page = page_of(["x" * 500, None, "y"])
    assert isinstance(page.layout, FullZipLayout)
    assert (page.layout.bits_per_offset, page.layout.bits_per_definition) == (32, 1)
    data, index = page.buffers
    assert (
        bytes(data)
        == b"\0" + struct.pack("<I", 500) + b"x" * 500 + b"\1" + b"\0" + struct.pack("<I", 1) + b"y"
    )
    assert struct.unpack("<4I", index) == (0, 505, 506, 512)


def test_strings_below_null_structs_are_not_stored() -> None:
    hidden = pa.StructArray.from_arrays([pa.array(["secret", "shown"])], ["s"], mask=pa.array([True, False]))
    for filler in ("shown", "z" * 300):
        array = pa.concat_arrays([hidden, pa.StructArray.from_arrays([pa.array([filler, "other"])], ["s"])])
        page = page_of(array)
        assert not any(b"secret" in bytes(buffer) for buffer in page.buffers)


@pytest.mark.parametrize(
    ("values", "inline"),
    [
        (pa.array([7] * 10, pa.int16()), b"\7\0"),
        (pa.array([True, None, True]), b"\1"),
        (pa.array([None, 1.5]), struct.pack("<d", 1.5)),
    ],
)
def test_constants(values: pa.Array, inline: bytes) -> None:
    page = page_of(values)
    assert isinstance(page.layout, ConstantLayout)
    assert page.layout.inline_value == inline
    assert len(page.buffers) == (2 if values.null_count else 0)
    assert not isinstance(page_of(values, version="2.1").layout, ConstantLayout)


def test_zeros_of_both_signs_are_no_constant() -> None:
    page = page_of([0.0, -0.0])
    assert not isinstance(page.layout, ConstantLayout)


def test_long_constant_has_a_buffer() -> None:
    page = page_of(["abc"] * 5)
    assert isinstance(page.layout, ConstantLayout)
    assert page.buffers == (struct.pack("<III", 2, 8, 3) + struct.pack("<II", 0, 3) + b"abc",)


def test_few_strings_share_a_dictionary() -> None:
    page = page_of([f"value {i % 7}" for i in range(5000)])
    assert isinstance(page.layout, MiniBlockLayout)
    assert page.layout.dictionary == General("lz4", None, Variable(32))
    assert page.layout.num_dictionary_items == 7
    assert sum(len(buffer) for buffer in page.buffers) < 5000


def test_many_empty_lists_between_two_values() -> None:
    page = page_of([[1]] + [[]] * 70_000 + [[2]], pa.list_(pa.int64()))
    # no chunk can hold so many slots
    assert isinstance(page.layout, FullZipLayout)


def test_chunks_of_2_1_stay_within_their_limit() -> None:
    array = pa.array(
        [None if i % 9 == 0 else [float(i)] * 60 for i in range(3000)], pa.list_(pa.float32(), 60)
    )
    page = page_of(array, version="2.1")
    assert isinstance(page.layout, MiniBlockLayout)
    words = np.frombuffer(page.buffers[0], "<u2")
    sizes = ((words >> 4).astype(int) + 1) * 8
    assert sizes.sum() == len(page.buffers[1])
    assert sizes.max() <= 32 * 1024
