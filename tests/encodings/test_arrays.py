"""Arrays from buffers, and the check that strings are strings."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lance_df
from lance_df.encodings.arrays import (
    concat_arrays,
    fixed_array,
    null_array,
    variable_array,
    with_validity_bitmap,
)
from lance_df.encodings.text import check_utf8
from lance_df.errors import CorruptDataError, InvalidInputError, UnsupportedFeatureError

TYPES = [
    pa.null(), pa.bool_(), pa.int8(), pa.int64(), pa.float16(), pa.decimal256(50, 3), pa.binary(5),
    pa.string(), pa.large_binary(), pa.list_(pa.int8(), 3), pa.list_(pa.string()), pa.large_list(pa.int8()),
    pa.dictionary(pa.int8(), pa.string()), pa.struct({"a": pa.string(), "b": pa.list_(pa.bool_(), 2)}),
    pa.list_(pa.struct({"a": pa.int8()}), 2),
]  # fmt: skip


@pytest.mark.parametrize("kind", TYPES, ids=str)
@pytest.mark.parametrize("num_values", [0, 1, 9])
def test_nulls_of_every_type(kind, num_values) -> None:
    found = null_array(kind, num_values)
    found.validate(full=True)
    assert (found.type, found.to_pylist()) == (kind, [None] * num_values)


def test_more_nulls_than_fit_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="too many"):
        null_array(pa.int64(), 2**62)


def test_misaligned_buffers_are_copied_and_aligned_ones_are_not() -> None:
    data = pa.py_buffer(bytes(80))
    assert fixed_array(pa.int64(), 9, data.slice(3)).buffers()[1].address % 8 == 0
    aligned = data.slice(-data.address % 8)
    assert fixed_array(pa.int64(), 9, aligned).buffers()[1].address == aligned.address


def leaf(values: pa.Array) -> pa.Array:
    return values if pa.types.is_decimal(values.type) else leaf(values.values)


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
@pytest.mark.parametrize("kind", [pa.decimal128(38, 2), pa.decimal256(60, 2)], ids=str)
def test_decimals_have_the_alignment_of_rust(tmp_path: Path, version: str, kind: pa.DataType) -> None:
    for count in (5, 16, 17):
        numbers = [Decimal(i * 10**30 // 7) / 100 for i in range(count)]
        table = pa.table(
            {
                "flag": [True] * count,
                "text": ["x" * (i % 5) for i in range(count)],
                "plain": pa.array(numbers, kind),
                "lists": pa.array([[number] * (i % 4) for i, number in enumerate(numbers)], pa.list_(kind)),
                "fixed": pa.array([[number] * 3 for number in numbers], pa.list_(kind, 3)),
            }
        )
        uri = str(tmp_path / str(count))
        ds = lance_df.write_dataset(table, uri, data_storage_version=version)
        for answer in (ds.to_table(), ds.to_table(offset=1, limit=3), ds.take([1, 3])):
            for name in ("plain", "lists", "fixed"):
                for chunk in answer[name].chunks:
                    assert leaf(chunk).buffers()[1].address % 16 == 0, (name, count)
        lance.write_dataset(ds.to_table(), str(tmp_path / f"copy {count}"))


def test_validity_on_values_that_have_nulls() -> None:
    bitmap = pa.py_buffer(b"\x03")
    assert with_validity_bitmap(pa.array([1, None, 3]), bitmap).to_pylist() == [1, None, None]
    assert with_validity_bitmap(pa.array(["a", "b", "a"]).dictionary_encode(), bitmap).to_pylist() == [
        "a",
        "b",
        None,
    ]


def test_strings_with_32_bit_offsets_end_at_2_gib() -> None:
    ends = np.array([0, 2**31], np.int64)
    with pytest.raises(InvalidInputError, match="read fewer"):
        variable_array(pa.binary(), ends, pa.py_buffer(b""), None)


def test_dictionaries_that_differ_are_united() -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    first = pa.array(["a", None, "b"], kind)
    second = pa.array(["c", "a"], kind)
    assert concat_arrays([first, second], kind).to_pylist() == ["a", None, "b", "c", "a"]
    many = [pa.array([f"{part}-{i}" for i in range(100)], kind) for part in range(2)]
    with pytest.raises(UnsupportedFeatureError, match="200 different dictionary values"):
        concat_arrays(many, kind)


@given(st.lists(st.text(max_size=6), max_size=8))
def test_valid_text_passes(values) -> None:
    encoded = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)])
    check_utf8(pa.py_buffer(b"".join(encoded)), ends)


@given(st.lists(st.binary(max_size=4), max_size=5))
def test_invalid_text_is_noticed(values) -> None:
    def is_text(value: bytes) -> bool:
        try:
            value.decode()
        except UnicodeDecodeError:
            return False
        return True

    ends = np.cumsum([0, *map(len, values)])
    data = pa.py_buffer(b"".join(values))
    if all(map(is_text, values)):
        check_utf8(data, ends)
    else:
        with pytest.raises(CorruptDataError, match="UTF-8"):
            check_utf8(data, ends)
