"""Names and metadata that are no UTF-8, of callers and of files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import CorruptDataError, InvalidInputError
from lance_df.table.reading.arrow_ipc import read_uint32_column


@pytest.mark.parametrize("metadata", [{b"k": b"\xff"}, {b"\xff": b"v"}])
@pytest.mark.parametrize("of_field", [False, True])
def test_metadata_is_refused_and_not_replaced(
    tmp_path: Path, metadata: dict[bytes, bytes], *, of_field: bool
):
    field = pa.field("a", pa.int64(), metadata=metadata if of_field else None)
    schema = pa.schema([field], metadata=None if of_field else metadata)
    rows = pa.table({"a": [1]}, schema)
    with pytest.raises(ValueError, match="not UTF-8 text") as caught:
        lance_df.write_dataset(rows, tmp_path / "t")
    assert isinstance(caught.value, InvalidInputError)
    assert not list(tmp_path.rglob("*.manifest"))


def test_metadata_of_other_scripts_is_stored(tmp_path: Path):
    schema = pa.schema([("a", pa.int64())], metadata={"ключ": "值", "empty": ""})
    data = lance_df.write_dataset(pa.table({"a": [1]}, schema), tmp_path / "t")
    assert lance_df.dataset(data.uri).schema.metadata == schema.metadata


def test_deletion_files_with_a_name_that_is_none():
    sink = pa.BufferOutputStream()
    schema = pa.schema([pa.field("row_id", pa.uint32(), nullable=False)])
    with pa.ipc.new_file(sink, schema) as file:
        file.write_batch(pa.record_batch([pa.array([1], pa.uint32())], schema))
    data = sink.getvalue().to_pybytes()
    assert read_uint32_column(pa.py_buffer(data), name="row_id", max_rows=9, source="f").tolist() == [1]
    damaged = data.replace(b"row_id", b"ro\xff_id")
    assert damaged != data
    with pytest.raises(CorruptDataError, match=r"^f: "):
        read_uint32_column(pa.py_buffer(damaged), name="row_id", max_rows=9, source="f")
