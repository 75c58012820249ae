"""Estimates of distinct values from the first rows of a table."""

import numpy as np
import pyarrow as pa
import pytest

import lance_df
from lance_df.table.open import open_table
from lance_df.table.reading.sample import TableSample

NUM_ROWS = 40_000
RANDOM = np.random.default_rng(3)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.arange(NUM_ROWS), NUM_ROWS),
        (np.arange(NUM_ROWS) // 4, NUM_ROWS / 4),
        (np.arange(NUM_ROWS) // 30_000, 5),
        (RANDOM.integers(0, 12, NUM_ROWS), 12),
        (RANDOM.integers(0, 5_000, NUM_ROWS), 5_000),
        (RANDOM.integers(0, 12, NUM_ROWS).astype(str), 12),
        (np.full(NUM_ROWS, None), 5),
    ],
    ids=["each its own", "runs", "long runs", "few", "many", "texts", "nulls"],
)
def test_values_are_guessed_from_the_first_ones(tmp_path, values, expected):
    rows = pa.table(
        {"value": pa.array(values, None if values[0] is not None else pa.int64()), "one": [1] * NUM_ROWS}
    )
    lance_df.write_dataset(rows, tmp_path / "t.lance")
    table = open_table(str(tmp_path / "t.lance"))
    assert expected / 1.3 <= TableSample(table).num_distinct(["value", "one"]) <= expected * 1.3


def test_nothing_to_look_at(tmp_path):
    lance_df.write_dataset(pa.table({"value": pa.array([], pa.int64())}), tmp_path / "t.lance")
    assert TableSample(open_table(str(tmp_path / "t.lance"))).num_distinct(["value"]) == 0
