"""`LanceFileReader` against pylance's, over single data files."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import lance
import lance.file
import numpy as np
import pyarrow as pa
import pytest

from lance_df.errors import (
    ColumnNotFoundError,
    CorruptDataError,
    InvalidInputError,
    NotFoundError,
    UnsupportedFeatureError,
)
from lance_df.file import LanceFileReader, LanceFileWriter

NUM_ROWS = 5000


@pytest.fixture(scope="module")
def data() -> pa.Table:
    keys = np.arange(NUM_ROWS)
    return pa.table(
        {
            "key": keys,
            "point": pa.StructArray.from_arrays(
                [keys * 2, pa.array([str(key) for key in keys])], names=["x", "y"]
            ),
            "items": pa.array([list(range(key % 3)) for key in keys], pa.list_(pa.int16())),
            "uuid": pa.array([int(key).to_bytes(16, "big") for key in keys], pa.uuid()),
        }
    )


@pytest.fixture(scope="module", params=["2.0", "2.1", "2.2"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, data: pa.Table) -> str:
    folder = tmp_path_factory.mktemp("file_api")
    lance.write_dataset(data, folder / "t", data_storage_version=request.param)
    (file,) = (folder / "t" / "data").glob("*.lance")
    return str(file)


def test_rows_are_those_of_pylance(path: str, data: pa.Table) -> None:
    ours, theirs = LanceFileReader(path), lance.file.LanceFileReader(path)
    assert ours.num_rows() == theirs.num_rows() == NUM_ROWS
    table = ours.read_all().to_table()
    assert table.equals(data)
    assert table.schema.equals(theirs.read_all().to_table().schema, check_metadata=True)
    assert ours.read_range(4000, 77).to_table().equals(data.slice(4000, 77))
    assert ours.take_rows([0, 7, 4999]).to_table().equals(data.take([0, 7, 4999]))
    assert ours.take_rows([]).to_table().num_rows == 0
    assert ours.read_range(5000, 0).to_table().num_rows == 0


def test_batches_have_the_size_asked_for(path: str) -> None:
    sizes = [batch.num_rows for batch in LanceFileReader(path).read_all(batch_size=1500).to_batches()]
    assert sizes == [1500, 1500, 1500, 500]
    assert next(iter(LanceFileReader(path).read_all().to_batches())).num_rows == 1024


@pytest.mark.parametrize("columns", [["key"], ["uuid", "key"], ["point.y"], ["point.y", "key", "point.x"]])
def test_columns_and_struct_fields(path: str, columns: list[str]) -> None:
    expected = lance.file.LanceFileReader(path, columns=columns).read_all().to_table()
    assert LanceFileReader(path, columns=columns).read_all().to_table().equals(expected)


def test_metadata_is_that_of_pylance(path: str) -> None:
    ours, theirs = LanceFileReader(path).metadata(), lance.file.LanceFileReader(path).metadata()
    plain = [each.name for each in dataclasses.fields(ours) if each.name not in ("columns", "global_buffers")]
    for name in plain:
        assert getattr(ours, name) == getattr(theirs, name), name
    assert [(each.position, each.size) for each in ours.global_buffers] == [
        (each.position, each.size) for each in theirs.global_buffers
    ]
    for mine, other in zip(ours.columns, theirs.columns, strict=True):
        assert [[(b.position, b.size) for b in page.buffers] for page in mine.pages] == [
            [(b.position, b.size) for b in page.buffers] for page in other.pages
        ]
        assert all(page.encoding for page in mine.pages)
    statistics = LanceFileReader(path).file_statistics().columns
    expected = lance.file.LanceFileReader(path).file_statistics().columns
    assert [(each.num_pages, each.size_bytes) for each in statistics] == [
        (each.num_pages, each.size_bytes) for each in expected
    ]
    assert LanceFileReader(path).read_global_buffer(0) == lance.file.LanceFileReader(path).read_global_buffer(
        0
    )


def test_wrong_calls(path: str) -> None:
    reader = LanceFileReader(path)
    with pytest.raises(ColumnNotFoundError, match=r"'nope'.*'key'"):
        LanceFileReader(path, columns=["nope"])
    with pytest.raises(ColumnNotFoundError):
        LanceFileReader(path, columns=["point.z"])
    for start, count in ((0, 5001), (5000, 1), (-1, 2), (3, -1)):
        with pytest.raises(InvalidInputError):
            reader.read_range(start, count)
    for rows in ([2, 1], [1, 1], [5000], [-1, 3], [0.5], [[1]]):
        with pytest.raises(InvalidInputError):
            reader.take_rows(rows)
    with pytest.raises(InvalidInputError):
        reader.read_all(batch_size=0)
    with pytest.raises(InvalidInputError):
        reader.read_global_buffer(99)


def test_what_is_no_lance_file(tmp_path: Path, path: str) -> None:
    with pytest.raises(NotFoundError):
        LanceFileReader(tmp_path / "nothing.lance")
    (tmp_path / "text").write_text("not a Lance file at all")
    with pytest.raises(CorruptDataError, match="text"):
        LanceFileReader(tmp_path / "text")
    (tmp_path / "cut").write_bytes(Path(path).read_bytes()[:-3])
    with pytest.raises(CorruptDataError, match="cut"):
        LanceFileReader(tmp_path / "cut")


def test_old_files_have_rows_but_no_tables_of_pages(tmp_path: Path) -> None:
    data = pa.table({"key": np.arange(3000), "text": [str(key) for key in range(3000)]})
    lance.write_dataset(data, tmp_path / "t", data_storage_version="legacy")
    (file,) = (tmp_path / "t" / "data").glob("*.lance")
    reader = LanceFileReader(file)
    assert reader.read_all().to_table().equals(data)
    assert reader.take_rows([5, 2999]).to_table().equals(data.take([5, 2999]))
    assert [each.num_pages > 0 for each in reader.file_statistics().columns] == [True, True]
    with pytest.raises(UnsupportedFeatureError):
        reader.metadata()


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_blobs(tmp_path: Path, version: str) -> None:
    schema = pa.schema([pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})])
    blobs = [b"abc", None, b"", b"x" * 5000]
    data = pa.table({"b": pa.array(blobs, pa.large_binary())}, schema=schema)
    lance.write_dataset(data, tmp_path / "t", data_storage_version=version)
    (file,) = (tmp_path / "t" / "data").glob("*.lance")
    found = LanceFileReader(file).read_all().to_table()["b"]
    if version != "2.2":
        assert found.to_pylist() == blobs
    else:
        assert [each and each["size"] for each in found.to_pylist()] == [3, None, 0, 5000]


@pytest.mark.parametrize("first", [True, False])
def test_global_buffers_are_no_data(tmp_path: Path, first: bool) -> None:
    path = str(tmp_path / "f.lance")
    rows = pa.table({"a": [i * 7919 % 1000003 for i in range(5000)]})
    with LanceFileWriter(path, rows.schema) as writer:
        if first:
            writer.add_global_buffer(b"hello")
        writer.write_batch(rows)
        writer.add_global_buffer(memoryview(b"more"))
        with pytest.raises(InvalidInputError, match="must be bytes, got str"):
            writer.add_global_buffer("text")
        with pytest.raises(InvalidInputError, match="must be bytes, got int"):
            writer.add_global_buffer(3)
    ours, theirs = LanceFileReader(path), lance.file.LanceFileReader(path)
    assert ours.metadata().num_data_bytes == theirs.metadata().num_data_bytes > 5000
    assert ours.read_global_buffer(1 + first) == theirs.read_global_buffer(1 + first) == b"more"
