"""Rows that are written while others drop and add columns: no value comes to be one of another column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import RetryableConflictError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SCHEMA = pa.schema([("a", pa.int64()), ("c", pa.string())])


def read_by_both(uri: str) -> list[dict[str, Any]]:
    rows = lance_df.dataset(uri).to_table().to_pylist()
    assert lance.dataset(uri).to_table().to_pylist() == rows
    return rows


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A table whose column ``c`` is in no data file, so that its field id is free when it is dropped."""
    uri = str(tmp_path / "t.lance")
    lance_df.write_dataset(pa.table({"a": [1, 2]}), uri)
    lance_df.dataset(uri).add_columns(pa.schema([("c", pa.string())]))
    return uri


@pytest.mark.parametrize("data_type", [pa.string(), pa.int64()])
def test_a_field_id_that_is_used_again(uri: str, data_type: pa.DataType) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([10]), pa.array(["of c"])], schema=SCHEMA)
        lance_df.dataset(uri).drop_columns(["c"])
        lance_df.dataset(uri).add_columns(pa.schema([("d", data_type)]))

    with pytest.raises(RetryableConflictError, match="column 'd' replaces a dropped column"):
        lance_df.write_dataset(pa.RecordBatchReader.from_batches(SCHEMA, batches()), uri, mode="append")
    assert read_by_both(uri) == [{"a": 1, "d": None}, {"a": 2, "d": None}]


def test_a_column_that_is_dropped_or_renamed(uri: str) -> None:
    """Both leave the field ids of all others what they are."""
    written = lance_df.write_dataset(pa.table({"a": [3], "c": ["x"]}), uri, mode="append")

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([10]), pa.array(["of c"])], schema=SCHEMA)
        written.alter_columns({"path": "c", "name": "d"})

    lance_df.write_dataset(pa.RecordBatchReader.from_batches(SCHEMA, batches()), uri, mode="append")
    assert [row["d"] for row in read_by_both(uri)] == [None, None, "x", "of c"]


def test_rows_of_a_column_that_is_dropped_meanwhile(tmp_path: Path) -> None:
    """A fragment has a file at least: pylance reads no other ones."""
    uri = str(tmp_path / "t.lance")
    old = lance_df.write_dataset(pa.table({"a": [1], "c": ["x"]}), uri)
    lance_df.write_dataset(pa.table({"c": ["y"]}), uri, mode="append")
    with pytest.raises(RetryableConflictError):
        old.drop_columns(["c"])
    schema = pa.schema([("c", pa.string())])

    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array(["z"])], schema=schema)
        lance_df.dataset(uri).drop_columns(["c"])

    with pytest.raises(RetryableConflictError):
        lance_df.write_dataset(pa.RecordBatchReader.from_batches(schema, batches()), uri, mode="append")
    assert read_by_both(uri) == [{"a": 1}, {"a": None}]
