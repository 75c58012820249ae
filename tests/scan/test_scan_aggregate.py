"""Runs of rows as one row: the same counts and sums, whatever the batch is cut into."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lance_df
from lance_df.encodings import kernels
from lance_df.scan.aggregate import PartialAggregator
from lance_df.scan.request import AggregateCall, AggregateFunction, PartialAggregate
from lance_df.scan.runs import SummedColumn, are_compared, find_runs, summed_type
from lance_df.table.open import open_table

SUMMED = [
    pa.int8(),
    pa.int64(),
    pa.uint32(),
    pa.uint64(),
    pa.float32(),
    pa.float64(),
    pa.decimal128(7, 2),
    pa.decimal128(18, 0),
]
KEYS = {
    pa.int32(): [0, 1, -5],
    pa.uint64(): [0, 2**64 - 1],
    pa.float64(): [0.0, -0.0, float("nan"), 2.5],
    pa.float16(): [0.0, 2.5],
    pa.bool_(): [True, False],
    pa.date32(): [0, 18_000],
    pa.timestamp("ns", "UTC"): [0, -1],
    pa.decimal128(38, 3): [Decimal("1.5"), Decimal(10) ** 30],
    pa.string(): ["", "a", "ä"],
    pa.large_binary(): [b"", b"\0"],
}
_LARGEST = {18: 10**18 - 1, 7: 10**7 - 1}


def values_of(data_type, draw):
    if pa.types.is_decimal(data_type):
        most = _LARGEST[data_type.precision]
        number = st.integers(-most, most).map(lambda value: Decimal(value).scaleb(-data_type.scale))
    elif pa.types.is_floating(data_type):
        number = st.integers(-1000, 1000).map(lambda value: value / 4)
    else:
        low, high = (0, 2) if pa.types.is_unsigned_integer(data_type) else (-1, 1)
        most = 2 ** (data_type.bit_width - 1) - 1
        number = st.integers(low * most, high * most)
    return draw(st.lists(st.none() | number, min_size=0, max_size=40))


@st.composite
def batches(draw):
    data_type = draw(st.sampled_from(SUMMED))
    values = values_of(data_type, draw)
    arrays = {"value": pa.array(values, data_type)}
    for number, key_type in enumerate(draw(st.lists(st.sampled_from(list(KEYS)), max_size=2))):
        choices = [None, *KEYS[key_type]]
        repeated = draw(
            st.lists(st.tuples(st.sampled_from(choices), st.integers(1, 30)), min_size=1, max_size=9)
        )
        keys = [key for key, count in repeated for _ in range(count)]
        arrays[f"key{number}"] = pa.array((keys * len(values))[: len(values)], key_type)
    start = draw(st.integers(0, len(values)))
    return pa.RecordBatch.from_pydict(arrays).slice(start)


def aggregated(batch, keys, total_type=None):
    """Return the number of rows, and the sums of ``value`` if it is to have a type, by keys."""
    calls = [AggregateCall(AggregateFunction.COUNT_ROWS, "n", None, pa.int64())]
    if total_type is not None:
        calls.append(AggregateCall(AggregateFunction.SUM, "total", "value", total_type))
    output = PartialAggregate(tuple(keys), tuple(calls))
    read = batch.select(list(output.columns))
    return PartialAggregator(output, read.schema).of_batch(read)


def totals(batch, counts, sums):
    """Return counts and sums by keys, NULL sums as None, integers modulo 2^64."""
    found = {}
    keys = [name for name in batch.schema.names if name.startswith("key")]
    rows = batch.to_pylist()
    for place, row in enumerate(rows):
        own = found.setdefault(tuple(repr(row[name]) for name in keys), [0, None])
        own[0] += counts[place]
        if sums[place] is not None:
            own[1] = sums[place] if own[1] is None else own[1] + sums[place]
    wrapped = pa.types.is_integer(batch.schema.field(-1).type) if len(batch.schema) else False
    return {
        key: (n, total if total is None or not wrapped else total % 2**64)
        for key, (n, total) in found.items()
    }


@pytest.mark.parametrize("by_kernel", [False, True])
@settings(max_examples=50, deadline=None)
@given(batch=batches())
def test_runs_add_up_to_what_their_rows_do(by_kernel, batch):
    keys = [name for name in batch.schema.names if name != "value"]
    data_type = summed_type(batch.schema.field("value").type)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "COMPILED", by_kernel)
        found = aggregated(batch, keys, data_type)
    assert found.schema.names == [*keys, "n", "total"]
    assert found.schema.field("total").type == data_type
    found.validate(full=True)
    expected = pa.RecordBatch.from_arrays(
        [*(batch[key] for key in keys), batch["value"].cast(data_type)], [*keys, "total"]
    )
    assert totals(found, found["n"].to_pylist(), found["total"].to_pylist()) == totals(
        expected, [1] * len(batch), expected["total"].to_pylist()
    )


def test_rows_of_a_run_are_one_row():
    batch = pa.record_batch(
        {"key": pa.array([None, None, 1, 1, 1, None], pa.int64()), "value": [1, None, None, None, None, 6]}
    )
    assert aggregated(batch, ["key"], pa.int64()).to_pydict() == {
        "key": [None, 1, None],
        "n": [2, 3, 1],
        "total": [1, None, 6],
    }


def test_sums_of_a_run_stay_right_beyond_64_bits():
    largest = Decimal(10**18 - 1)
    batch = pa.record_batch({"value": pa.array([largest] * 10_000, pa.decimal128(18, 0))})
    found = aggregated(batch, [], pa.decimal128(28, 0))
    assert sum(found["total"].to_pylist()) == largest * 10_000
    assert sum(found["n"].to_pylist()) == 10_000
    assert len(found) < 10_000


def test_batches_without_columns_have_counts():
    batch = pa.record_batch([pa.nulls(7)], ["rows"]).select([])
    assert aggregated(batch, []).to_pydict() == {"n": [7]}


def test_what_runs_are_made_of():
    assert are_compared(pa.int8())
    assert are_compared(pa.decimal128(38, 2))
    assert are_compared(pa.string())
    assert not are_compared(pa.list_(pa.int8()))
    assert not are_compared(pa.struct({"a": pa.int8()}))
    assert summed_type(pa.decimal128(19, 2)) is None
    assert summed_type(pa.decimal256(10, 2)) is None
    assert summed_type(pa.float16()) is None
    assert summed_type(pa.duration("s")) is None


def test_a_sample_estimates_how_long_runs_are(tmp_path):
    rows = pa.table({"day": np.arange(50_000) // 10, "unique": np.arange(50_000)})
    lance_df.write_dataset(rows, tmp_path / "t.lance")
    lance_df.write_dataset(rows.slice(0, 0), tmp_path / "empty.lance")
    table = open_table(tmp_path / "t.lance")
    assert 9 <= table.sample().rows_per_run(["day"]) <= 10
    assert table.sample().rows_per_run(["day", "unique"]) == 1
    assert open_table(tmp_path / "empty.lance").sample().rows_per_run(["day"]) == 1


def test_a_sample_estimates_how_many_rows_have_some_values(tmp_path):
    numbers = np.arange(50_000)
    rows = pa.table(
        {
            "key": numbers * 7919 % 100,
            "sorted": numbers // 500,
            "word": pa.array([None if n % 2 else f"w{n % 4}" for n in numbers.tolist()]),
            "null": pa.nulls(50_000, pa.int64()),
        }
    )
    lance_df.write_dataset(rows, tmp_path / "t.lance")
    lance_df.write_dataset(rows.slice(0, 0), tmp_path / "empty.lance")
    lance_df.write_dataset(rows.slice(0, 5), tmp_path / "five.lance")
    sample = open_table(tmp_path / "t.lance").sample()
    assert 0.05 < sample.share_among("key", pa.array(range(10))) < 0.15
    assert 0.05 < sample.share_among("sorted", pa.array(range(10))) < 0.15
    assert 0.45 < sample.share_among("word", pa.array(["w0", "w2", "x"])) < 0.55
    assert sample.share_among("key", pa.array([], pa.int64())) == 0
    assert sample.share_among("null", pa.array([1])) == 0
    assert sample.share_among("key", pa.array(["1"])) == 1  # values of another type say nothing
    assert sample.share_among("no such column", pa.array([1])) == 1
    assert open_table(tmp_path / "empty.lance").sample().share_among("key", pa.array([1])) == 1
    assert open_table(tmp_path / "five.lance").sample().share_among("sorted", pa.array([0])) == 1


def test_sums_of_decimals_keep_a_negative_scale():
    values = pa.array([Decimal(100), None, Decimal(-900), None, None, None], pa.decimal128(5, -2))
    runs = find_runs([pa.array([1, 1, 1, 2, 2, 2])], 6, 100)
    sums = SummedColumn(values, summed_type(values.type)).of_runs(runs)
    assert sums.equals(pa.array([Decimal(-800), None], pa.decimal128(15, -2)))
