"""2.0 files that pylance wrote, read by both; and damaged ones."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest
from column_cases import assert_same, selected, selections, table_with_nulls, table_without_nulls
from damage import CountingSource, assert_damage_is_noticed, damages
from hypothesis import HealthCheck, given, settings
from lance.file import LanceFileReader, LanceFileWriter

from lance_df.encodings.plan import RowRange
from lance_df.errors import CorruptDataError, InvalidInputError
from lance_df.file.open import open_file
from lance_df.format.blobs import blob_description
from lance_df.storage import MappedSource, open_location

if TYPE_CHECKING:
    from pathlib import Path

    from lance_df.file.reader import FileReader


def open_only_file(root: Path) -> FileReader:
    (path,) = (root / "data").iterdir()
    return open_file(MappedSource(str(path)))


def write_file(path: Path, *batches: pa.Table) -> FileReader:
    with LanceFileWriter(str(path), batches[0].schema, version="2.0") as writer:
        for batch in batches:
            writer.write_batch(batch)
    return open_file(MappedSource(str(path)))


def assert_reads_like(reader: FileReader, expected: pa.Table) -> None:
    for rows in selections(len(expected)):
        found = reader.read(reader.schema.fields, rows)
        for name, array in zip(expected.schema.names, found, strict=True):
            assert_same(array, selected(expected[name], rows))


@pytest.mark.parametrize("num_rows", [1, 5, 1000])
@pytest.mark.parametrize("make", [table_without_nulls, table_with_nulls])
def test_every_type_and_selection(tmp_path, make, num_rows) -> None:
    expected = lance.write_dataset(make(num_rows), tmp_path / "t", data_storage_version="2.0").to_table()
    reader = open_only_file(tmp_path / "t")
    assert (reader.version, reader.num_rows) == ("2.0", num_rows)
    assert reader.schema.names == expected.schema.names
    assert_reads_like(reader, expected)


def test_no_rows(tmp_path) -> None:
    table = table_without_nulls(0)
    reader = write_file(tmp_path / "f", table)
    assert reader.num_rows == 0
    assert_reads_like(reader, table)


def test_many_pages(tmp_path) -> None:
    n = 70_000
    wide = pa.table(
        {
            "i": pa.array([None if i % 5 == 0 else i for i in range(n)], pa.int64()),
            "b": pa.array((i % 7 == 0 for i in range(n)), pa.bool_()),
            "s": pa.array([None if i % 11 == 0 else f"value {i}" * 10 for i in range(n)]),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(n * 64, dtype=np.float32)), 64),
            "l": pa.array([[i] * (i % 30) if i % 13 else None for i in range(n)]),
            "ls": pa.array([[{"x": f"{i}" * 40, "y": i}] * (i % 5) for i in range(n)]),
        }
    )
    with LanceFileWriter(str(tmp_path / "f"), wide.schema, version="2.0", data_cache_bytes=1 << 16) as writer:
        for start in range(0, n, 7000):
            writer.write_batch(wide.slice(start, 7000))
    reader = open_file(MappedSource(str(tmp_path / "f")))
    assert len(reader.page_starts(reader.schema.fields)) > 3
    assert sum(size for field in reader.schema.fields for _, size in reader.page_bytes(field)) > 20_000_000
    assert_reads_like(reader, wide)


def test_dictionaries_of_several_pages_are_joined(tmp_path) -> None:
    first = pa.table({"d": pa.array(["a", None, "b"]).dictionary_encode()})
    second = pa.table({"d": pa.array(["c", "a", None]).dictionary_encode()})
    with LanceFileWriter(str(tmp_path / "f"), first.schema, version="2.0", data_cache_bytes=1) as writer:
        writer.write_batch(first)
        writer.write_batch(second)
    reader = open_file(MappedSource(str(tmp_path / "f")))
    (found,) = reader.read(reader.schema.fields, RowRange(0, 6))
    assert found.to_pylist() == ["a", None, "b", "c", "a", None]
    assert found.null_count == 2


@pytest.mark.parametrize("compression", ["zstd", "lz4", "fsst", "none"])
def test_compressed_strings(tmp_path, compression) -> None:
    strings = [None if i % 10 == 0 else f"some text that repeats {i % 1000} " * 2 for i in range(5000)]
    field = pa.field("s", pa.string(), metadata={"lance-encoding:compression": compression})
    table = pa.table([pa.array(strings)], schema=pa.schema([field]))
    reader = write_file(tmp_path / "f", table)
    assert_reads_like(reader, table)


def test_packed_structs(tmp_path) -> None:
    children = {
        "a": pa.int8(),
        "v": pa.list_(pa.float32(), 3),
        "d": pa.decimal128(10, 2),
        "t": pa.timestamp("ms"),
    }
    values = [{"a": i % 100, "v": [i, 1, 2], "d": i, "t": i} for i in range(1000)]
    field = pa.field("p", pa.struct(children), metadata={"lance-encoding:packed": "true"})
    table = pa.table(
        [pa.array(values, field.type), pa.array(range(1000))], schema=pa.schema([field, ("x", pa.int64())])
    )
    reader = write_file(tmp_path / "f", table)
    assert_reads_like(reader, table)
    assert_reads_like(write_file(tmp_path / "empty", table.slice(0, 0)), table.slice(0, 0))
    (packed, _) = reader.schema.fields
    part = packed.with_children([packed.children[3], packed.children[1]])
    (found,) = reader.read([part], RowRange(5, 8))
    assert found.equals(
        pa.StructArray.from_arrays(
            [table["p"].combine_chunks().field(3)[5:8], table["p"].combine_chunks().field(1)[5:8]],
            fields=[pa.field("t", children["t"]), pa.field("v", children["v"])],
        )
    )


BLOBS = [b"abc", None, b"", b"x" * 100_000, b"abc", b"y"]


@pytest.fixture
def blob_table(tmp_path) -> pa.Table:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    return pa.table([pa.array(BLOBS, pa.large_binary())], schema=pa.schema([field]))


def test_blobs_are_bytes(tmp_path, blob_table) -> None:
    assert_reads_like(write_file(tmp_path / "f", blob_table), blob_table)


def test_described_blobs_are_what_tables_show(tmp_path, blob_table) -> None:
    shown = lance.write_dataset(blob_table, tmp_path / "t", data_storage_version="2.0").to_table()
    reader = open_only_file(tmp_path / "t")
    for rows in selections(len(BLOBS)):
        (found,) = reader.read([blob_description(reader.schema.fields[0])], rows)
        assert_same(found, selected(shown["b"], rows))


def test_parts_of_nested_columns(tmp_path) -> None:
    rows = [[{"x": j, "y": {"z": str(i), "w": 1.5}} for j in range(i % 3)] for i in range(100)]
    reader = write_file(tmp_path / "f", pa.table({"l": pa.array(rows)}))
    (field,) = reader.schema.fields
    (z,) = [node for node in field.walk() if node.name == "z"]
    (found,) = reader.read([field.only({z.id})], RowRange(10, 60))
    assert found.to_pylist() == [[{"y": {"z": item["y"]["z"]}} for item in row] for row in rows[10:60]]


def test_flat_values_and_string_bytes_are_not_copied(tmp_path) -> None:
    table = pa.table({"i": pa.array(range(10_000)), "b": pa.array([str(i).encode() for i in range(10_000)])})
    write_file(tmp_path / "f", table)
    source = MappedSource(str(tmp_path / "f"))
    reader = open_file(source)
    numbers, binaries = reader.read(reader.schema.fields, RowRange(16, 9000))
    mapped = source.read_range(0, source.size)
    for buffer in (numbers.buffers()[1], binaries.buffers()[2]):
        assert mapped.address <= buffer.address < mapped.address + mapped.size


def test_only_needed_bytes_are_read(tmp_path) -> None:
    n = 100_000
    table = pa.table(
        {
            "i": pa.array(range(n)),
            "s": pa.array([str(i) * 10 for i in range(n)]),
            "l": pa.array([[i, i] for i in range(n)]),
        }
    )
    write_file(tmp_path / "f", table)
    source = CountingSource(str(tmp_path / "f"))
    reader = open_file(source)
    assert (source.requests, source.bytes) == (1, 64 * 1024), "one tail read opens the file"
    reader.read(reader.schema.fields, np.array([50_000]))
    # 8 bytes; two ends of 8 and the 50 bytes between; two ends, two items
    assert source.bytes - 64 * 1024 == 8 + (16 + 50) + (16 + 16)
    assert source.requests == 3, "the second round reads what the ends of the first tell"
    source.bytes = 0
    reader.read(reader.schema.fields[:1], RowRange(100, 300))
    assert source.bytes == 200 * 8


def test_a_file_in_a_remote_store(tmp_path) -> None:
    table = table_with_nulls(300)
    write_file(tmp_path / "f", table)
    location = open_location(f"memory://v2_0/{uuid.uuid4().hex}")
    location.put((tmp_path / "f").read_bytes())
    assert_reads_like(open_file(location.open()), table)


def test_rows_that_do_not_exist_are_refused(tmp_path) -> None:
    reader = write_file(tmp_path / "f", pa.table({"i": [1, 2, 3]}))
    for rows in (
        RowRange(0, 4),
        RowRange(-1, 2),
        np.array([3]),
        np.array([-1]),
        np.array([1, 0]),
        np.array([1, 1]),
    ):
        with pytest.raises(InvalidInputError, match="rows"):
            reader.read(reader.schema.fields, rows)


def test_a_field_of_another_file_is_refused(tmp_path) -> None:
    write_file(tmp_path / "f", pa.table({"i": [1]}))
    reader = open_file(MappedSource(str(tmp_path / "f")), column_of={7: 0})
    with pytest.raises(CorruptDataError, match="'i'"):
        reader.read(reader.schema.fields, RowRange(0, 1))


@pytest.fixture(scope="module")
def small_file(tmp_path_factory) -> bytes:
    path = tmp_path_factory.mktemp("small") / "f"
    n = 60
    packed = pa.field("p", pa.struct({"a": pa.int16()}), metadata={"lance-encoding:packed": "true"})
    blob = pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    zstd = pa.field("z", pa.string(), metadata={"lance-encoding:compression": "zstd"})
    columns = {
        pa.field("i", pa.int32()): [None if i % 3 == 0 else i for i in range(n)],
        pa.field("s", pa.string()): [None if i % 3 == 0 else "né" * (i % 4) for i in range(n)],
        pa.field("d", pa.dictionary(pa.int8(), pa.string())): [str(i % 5) for i in range(n)],
        pa.field("l", pa.list_(pa.struct({"x": pa.list_(pa.string())}))): [
            [{"x": ["a"] * (i % 3)}] for i in range(n)
        ],
        pa.field("f", pa.list_(pa.int8(), 2)): [[i, None] for i in range(n)],
        pa.field("n", pa.int64()): [None] * n,
        packed: [{"a": i} for i in range(n)],
        blob: [b"q" * i for i in range(n)],
        zstd: ["text" * i for i in range(n)],
    }
    arrays = [pa.array(values, field.type) for field, values in columns.items()]
    write_file(path, pa.table(arrays, schema=pa.schema(list(columns))))
    LanceFileReader(str(path)).read_all().to_table()
    return path.read_bytes()


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damage=damages())
def test_damage_gives_rows_or_errors(small_file, tmp_path, damage) -> None:
    assert_damage_is_noticed(small_file, damage, tmp_path / "damaged")
