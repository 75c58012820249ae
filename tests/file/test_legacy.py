"""0.1 files that pylance wrote, read by both; and damaged ones."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from column_cases import assert_same, selected, selections, table_with_nulls, table_without_nulls
from damage import CountingSource, assert_damage_is_noticed, damages
from hypothesis import HealthCheck, given, settings

from lance_df._pb import table_pb2
from lance_df.encodings.plan import RowRange
from lance_df.errors import CorruptDataError
from lance_df.file.open import open_file
from lance_df.format.schema import Schema
from lance_df.storage import MappedSource

if TYPE_CHECKING:
    from lance_df.file.legacy.reader import LegacyFileReader


def write(root: Path, table: pa.Table, **options: int) -> lance.LanceDataset:
    return lance.write_dataset(table, root, data_storage_version="legacy", **options)


def data_files(dataset: lance.LanceDataset) -> list[str]:
    return [
        f"{dataset.uri}/data/{file.path}"
        for fragment in dataset.get_fragments()
        for file in fragment.data_files()
    ]


def open_only_file(dataset: lance.LanceDataset) -> LegacyFileReader:
    (path,) = data_files(dataset)
    return open_file(MappedSource(path))


def assert_reads_like(reader: LegacyFileReader, expected: pa.Table) -> None:
    for rows in selections(len(expected)):
        found = reader.read(reader.schema.fields, rows)
        for name, array in zip(expected.schema.names, found, strict=True):
            assert_same(array, selected(expected[name], rows))


@pytest.mark.parametrize("num_rows", [1, 5, 1000])
@pytest.mark.parametrize("make", [table_without_nulls, table_with_nulls])
def test_every_type_and_selection(tmp_path, make, num_rows) -> None:
    # pylance cannot read back dictionary columns of nulls only
    table = make(num_rows)
    table = table.select(
        [
            each.name
            for each in table.schema
            if "dict" not in each.name or table[each.name].length() > table[each.name].null_count
        ]
    )
    dataset = write(tmp_path / "t", table)
    reader = open_only_file(dataset)
    assert (reader.version, reader.num_rows) == ("0.1", num_rows)
    assert_reads_like(reader, dataset.to_table())


def test_many_batches(tmp_path) -> None:
    n = 70_000
    table = pa.table(
        {
            "i": pa.array([None if i % 5 == 0 else i for i in range(n)], pa.int64()),
            "b": pa.array((i % 7 == 0 for i in range(n)), pa.bool_()),
            "fb": pa.array([[i % 2 == 0, True, False] for i in range(n)], pa.list_(pa.bool_(), 3)),
            "s": pa.array([None if i % 11 == 0 else f"value {i}" for i in range(n)]),
            "l": pa.array([[i] * (i % 30) if i % 13 else None for i in range(n)]),
            "ls": pa.array([[{"x": [str(i)] * (i % 2)}] * (i % 5) for i in range(n)]),
            "d": pa.array([f"v{i % 100}" for i in range(n)]).dictionary_encode(),
        }
    )
    dataset = write(tmp_path / "t", table, max_rows_per_group=1001)
    reader = open_only_file(dataset)
    assert reader.page_starts(reader.schema.fields).tolist() == list(range(0, n, 1001))
    assert_reads_like(reader, dataset.to_table())
    (path,) = data_files(dataset)
    stored = sum(size for field in reader.schema.fields for _, size in reader.page_bytes(field))
    assert stored < MappedSource(path).size < stored * 1.02


def test_dictionary_of_nulls_only_reads_as_nulls(tmp_path) -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    reader = open_only_file(write(tmp_path / "t", pa.table({"d": pa.nulls(4, kind)})))
    (found,) = reader.read(reader.schema.fields, RowRange(1, 3))
    assert (found.type, found.to_pylist()) == (kind, [None, None])


def test_empty_strings_are_null_unless_the_field_forbids_nulls(tmp_path) -> None:
    values = ["", "a", ""]
    schema = pa.schema([pa.field("n", pa.string()), pa.field("r", pa.string(), nullable=False)])
    dataset = write(tmp_path / "t", pa.table([values, values], schema=schema))
    reader = open_only_file(dataset)
    assert [array.to_pylist() for array in reader.read(reader.schema.fields, RowRange(0, 3))] == [
        [None, "a", None],
        values,
    ]
    assert_reads_like(reader, dataset.to_table())


def test_added_columns_have_a_page_table_of_their_own(tmp_path) -> None:
    dataset = write(tmp_path / "t", pa.table({"a": range(10), "s": [{"x": str(i)} for i in range(10)]}))
    dataset.add_columns({"b": "a * 2", "c": "a + 1"})
    dataset = lance.dataset(tmp_path / "t")
    fields = {field.name: field for field in lance_schema(dataset).fields}
    (fragment,) = dataset.get_fragments()
    _, second = fragment.data_files()
    assert second.fields == [3, 4]
    reader = open_file(MappedSource(f"{dataset.uri}/data/{second.path}"), field_ids=second.fields)
    b, c = reader.read([fields["b"], fields["c"]], RowRange(2, 5))
    assert (b.to_pylist(), c.to_pylist()) == ([4, 6, 8], [3, 4, 5])
    assert dict(reader.column_of) == {3: 3, 4: 4}
    with pytest.raises(CorruptDataError, match="'a'"):
        reader.read([fields["a"]], RowRange(0, 1))


def lance_schema(dataset: lance.LanceDataset) -> Schema:
    """Return the schema with ids and dictionaries that the table's manifest holds."""
    path = manifest_path(dataset)
    source = MappedSource(str(path))
    position = int.from_bytes(source.read_range(source.size - 16, source.size - 8).to_pybytes(), "little")
    size = int.from_bytes(source.read_range(position, position + 4).to_pybytes(), "little")
    message = table_pb2.Manifest()
    message.ParseFromString(source.read_range(position + 4, position + 4 + size).to_pybytes())
    return Schema.from_proto(message.fields, source=str(path))


def manifest_path(dataset: lance.LanceDataset) -> Path:
    folder = dataset.uri + "/_versions"
    name = f"{2**64 - 1 - dataset.version:020}.manifest"
    return Path(folder) / name


def test_dictionaries_of_a_table_are_in_its_manifest(tmp_path) -> None:
    table = pa.table({"x": range(4), "d": pa.array(["xyz", "", "xyz", "q"]).dictionary_encode()})
    dataset = lance.dataset(write(tmp_path / "t", table).uri)  # the other one has the values in memory
    (path,) = data_files(dataset)
    manifest = MappedSource(str(manifest_path(dataset)))
    field = lance_schema(dataset).field("d")
    reader = open_file(MappedSource(path), field_ids=[0, 1], dictionary_source=manifest)
    assert field.dictionary != reader.schema.field("d").dictionary
    (found,) = reader.read([field], RowRange(0, 4))
    assert_same(found, dataset.to_table()["d"])


@pytest.fixture(scope="module")
def statistics_dataset(tmp_path_factory) -> lance.LanceDataset:
    n = 50
    columns = {
        "i": pa.array([None if 10 <= i < 20 or i == 3 else i - 7 for i in range(n)], pa.int16()),
        "f": pa.array([None if i < 10 else float("nan") if i == 15 else -i / 2 for i in range(n)]),
        "s": pa.array([None if 20 <= i < 30 else f"{i:02}" for i in range(n)]),
        "long": pa.array(["x" * 63 + "yz"] * n),
        "b": pa.array([i > 15 for i in range(n)]),
        "date": pa.array([dt.date(2020, 1, 1 + i % 28) for i in range(n)]),
        "dec": pa.array([Decimal(i) for i in range(n)], pa.decimal128(10, 2)),
        "st": pa.array([{"x": i, "l": [i]} for i in range(n)]),
        "ts": pa.array(range(n), pa.timestamp("us")),
    }
    return write(tmp_path_factory.mktemp("statistics") / "t", pa.table(columns), max_rows_per_group=10)


def test_statistics_bound_the_values(statistics_dataset) -> None:
    reader = open_only_file(statistics_dataset)
    for field in reader.schema.fields:
        for leaf in [field] if field.name != "st" else field.children[:1]:
            statistics = reader.statistics(leaf)
            if field.name == "ts":
                assert statistics is None
                continue
            assert statistics.row_starts.tolist() == [0, 10, 20, 30, 40, 50]
            assert statistics.min_values.type == statistics.max_values.type == leaf.arrow_type()
            for batch in range(5):
                (values,) = reader.read([field], RowRange(batch * 10, batch * 10 + 10))
                values = values.field(0) if field.name == "st" else values
                if (
                    statistics.null_counts[batch] == 0
                ):  # else the stored values are not those that were bounded
                    low, high = statistics.min_values[batch], statistics.max_values[batch]
                    found = pc.min_max(values)
                    assert low.as_py() <= found["min"].as_py() or found["min"].as_py() != found["min"].as_py()
                    assert high.as_py() >= found["max"].as_py()


def test_statistics_by_value(statistics_dataset) -> None:
    reader = open_only_file(statistics_dataset)
    i = reader.statistics(reader.schema.field("i"))
    assert i.null_counts.tolist() == [1, 10, 0, 0, 0]
    assert i.min_values.to_pylist() == [-7, -32768, 13, 23, 33]
    s = reader.statistics(reader.schema.field("s"))
    assert s.max_values.to_pylist() == ["09", "19", None, "39", "49"]
    assert reader.statistics(reader.schema.field("long")).max_values[0].as_py() == "x" * 63 + "z"
    assert reader.statistics(reader.schema.field("st")) is None


def test_a_file_without_batches_has_no_statistics(tmp_path) -> None:
    reader = open_only_file(write(tmp_path / "t", pa.table({"t": pa.array([1], pa.timestamp("s"))})))
    assert reader.statistics(reader.schema.field("t")) is None


def test_only_needed_bytes_are_read(tmp_path) -> None:
    n = 100_000
    dataset = write(tmp_path / "t", pa.table({"i": range(n), "s": [str(i) * 10 for i in range(n)]}))
    (path,) = data_files(dataset)
    source = CountingSource(path)
    reader = open_file(source)
    fields = reader.schema.fields
    reader.read(fields, np.array([0]))
    opened = source.bytes
    reader.read(fields, np.array([50_000]))
    assert source.bytes - opened == 8 + 16 + 50
    reader.read(fields[:1], RowRange(100, 300))
    assert source.bytes - opened == 8 + 16 + 50 + 200 * 8


def test_offsets_that_descend_are_corrupt(tmp_path) -> None:
    dataset = write(tmp_path / "t", pa.table({"s": ["aa", "bb", "cc"]}))
    (path,) = data_files(dataset)
    content = bytearray(MappedSource(path).read_range(0, MappedSource(path).size).to_pybytes())
    content[6 + 8] = 6  # offsets are 0, 2, 4, 6: now 0, 6, 4, 6
    (tmp_path / "damaged").write_bytes(content)
    reader = open_file(MappedSource(str(tmp_path / "damaged")))
    with pytest.raises(CorruptDataError, match=r"damaged: column 's': .* do not ascend"):
        reader.read(reader.schema.fields, RowRange(0, 3))


@pytest.fixture(scope="module")
def small_file(tmp_path_factory) -> bytes:
    n = 60
    table = pa.table(
        {
            "i": pa.array(range(n), pa.int32()),
            "b": pa.array([i % 2 == 0 for i in range(n)]),
            "s": pa.array([None if i % 3 == 0 else "né" * (i % 4) for i in range(n)]),
            "d": pa.array([str(i % 5) for i in range(n)]).dictionary_encode(),
            "l": pa.array([[{"x": ["a"] * (i % 3)}] for i in range(n)]),
            "f": pa.array([[i, 1] for i in range(n)], pa.list_(pa.int8(), 2)),
            "n": pa.nulls(n),
            "st": pa.array([{"x": i} for i in range(n)]),
        }
    )
    (path,) = data_files(write(tmp_path_factory.mktemp("small") / "t", table, max_rows_per_group=20))
    source = MappedSource(path)
    return source.read_range(0, source.size).to_pybytes()


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(damage=damages())
def test_damage_gives_rows_or_errors(small_file, tmp_path, damage) -> None:
    assert_damage_is_noticed(small_file, damage, tmp_path / "damaged")
