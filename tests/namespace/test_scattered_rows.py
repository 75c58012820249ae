"""Rows of several batches in one: what Arrow's own functions return."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lance_df.namespace.changes.scattered_rows import BatchValues, ScatteredRows

TEXTS = ["", "ä", "twelve bytes", "thirteen byte", "a text that is longer than twelve bytes", "ß" * 40]
NUMBERS = (
    *(pa.int8(), pa.uint8(), pa.int16(), pa.float16(), pa.int32(), pa.uint64(), pa.float32(), pa.float64()),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.timestamp("us", "UTC"), pa.duration("ns")),
    *(pa.decimal128(38, 3), pa.binary(1), pa.binary(16)),
)
OTHERS = (pa.bool_(), pa.string(), pa.decimal256(50, 3), pa.binary(3), pa.list_(pa.int8(), 2), pa.null())


def values(data_type: pa.DataType, num_rows: int, random: np.random.Generator) -> pa.Array:
    """Return values without nulls, of any bits."""
    if data_type in (pa.string(), pa.string_view(), pa.binary_view()):
        texts = [TEXTS[number] for number in random.integers(0, len(TEXTS), num_rows)]
        return pa.array(texts, pa.string()).cast(data_type)
    if pa.types.is_null(data_type):
        return pa.nulls(num_rows)
    if pa.types.is_fixed_size_list(data_type):
        return pa.FixedSizeListArray.from_arrays(values(data_type.value_type, 2 * num_rows, random), 2)
    if pa.types.is_decimal(data_type):
        numbers = pa.array(random.integers(-99, 99, num_rows))
        return numbers.cast(pa.decimal128(38, 3)).cast(data_type)
    data = pa.py_buffer(random.bytes(-(-num_rows * data_type.bit_width // 8)))
    return pa.Array.from_buffers(data_type, num_rows, [None, data])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 9), st.integers(0, 70)), min_size=1, max_size=5),
    st.integers(0, 2**32 - 1),
)
def test_values_of_fixed_width_and_views(batches: list[tuple[int, int, int]], seed: int) -> None:
    random = np.random.default_rng(seed)
    kinds = [*NUMBERS, pa.string_view(), pa.binary_view()]
    schema = pa.schema([pa.field(f"c{number}", kind) for number, kind in enumerate(kinds)])
    rows, orders = [], []
    for num_rows, skipped, taken in batches:
        whole = [values(kind, num_rows + skipped, random) for kind in kinds]
        rows.append(pa.RecordBatch.from_arrays(whole, schema=schema).slice(skipped))
        orders.append(random.integers(0, num_rows, taken))
    scattered = ScatteredRows(schema, [BatchValues(each) for each in rows], orders)
    found = scattered.columns()
    assert list(found) == list(range(len(kinds)))
    for number, kind in enumerate(kinds):
        # any bits are no time of day
        found[number].validate(full=pa.types.is_string_view(kind))
        parts = [taken_plainly(each.column(number), order) for each, order in zip(rows, orders, strict=True)]
        same = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(kind, kind)
        width = None if same != kind else pa.binary(kind.bit_width // 8)
        wanted, got = pa.concat_arrays(parts), found[number].cast(same)
        assert (got if width is None else got.view(width)) == (
            wanted if width is None else wanted.view(width)
        )


def taken_plainly(column: pa.Array, places: np.ndarray) -> pa.Array:
    plain = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}.get(column.type, column.type)
    return column.cast(plain).take(pa.array(places))


@pytest.mark.parametrize("kind", OTHERS, ids=str)
def test_other_columns_are_left_out(kind: pa.DataType) -> None:
    random = np.random.default_rng(0)
    schema = pa.schema([("plain", pa.int32()), ("other", kind)])
    batch = pa.RecordBatch.from_arrays([values(each, 5, random) for each in schema.types], schema=schema)
    scattered = ScatteredRows(schema, [BatchValues(batch)] * 2, [np.array([1, 0]), np.array([4])])
    assert scattered.num_rows == 3
    assert list(scattered.columns()) == [0]


def test_columns_that_have_nulls_in_some_batch_are_left_out() -> None:
    batches = [pa.record_batch({"a": pa.array([1, None]), "b": pa.array([1, 2])}) for _ in range(2)]
    batches.append(pa.record_batch({"a": pa.array([1, 2]), "b": pa.array([3, 4])}))
    orders = [np.array([0])] * 3
    found = ScatteredRows(batches[0].schema, list(map(BatchValues, batches)), orders).columns()
    assert {number: column.to_pylist() for number, column in found.items()} == {1: [1, 1, 3]}


def test_extension_types_are_left_out() -> None:
    batch = pa.record_batch({"id": pa.array([b"0" * 16], pa.uuid()), "n": pa.array([1])})
    found = ScatteredRows(batch.schema, [BatchValues(batch)], [np.array([0])]).columns()
    assert list(found) == [1]
