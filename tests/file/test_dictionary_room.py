"""Files hold no more values of dictionaries than their indices can number: others cannot read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.file import LanceFileReader, LanceFileWriter

if TYPE_CHECKING:
    from pathlib import Path

_VERSIONS = ("2.0", "2.1", "2.2")


def _dictionary(part: int, count: int = 50, index_type: pa.DataType | None = None) -> pa.Array:
    values = pa.array([f"v{part}_{number}" for number in range(count)])
    return pa.DictionaryArray.from_arrays(pa.array(range(count), index_type or pa.int8()), values)


def _rows(part: int, count: int = 50, index_type: pa.DataType | None = None) -> pa.Table:
    ids = pa.array(range(count * part, count * (part + 1)))
    return pa.table({"id": ids, "d": _dictionary(part, count, index_type)})


def _plain(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return sorted(rows, key=lambda row: row["id"])


@pytest.mark.parametrize("version", _VERSIONS)
def test_rewritten_fragments_are_read_by_others(tmp_path: Path, version: str) -> None:
    path = tmp_path / "t.lance"
    lance_df.write_dataset(_rows(0), path, data_storage_version=version)
    for part in range(1, 4):
        lance_df.dataset(path).insert(_rows(part))
    expected = [row for part in range(4) for row in _rows(part).to_pylist()]
    metrics = lance_df.dataset(path).optimize.compact_files()
    assert (metrics.fragments_removed, metrics.fragments_added) == (4, 2)
    assert lance.dataset(str(path)).to_table().to_pylist() == expected
    assert lance.dataset(str(path)).to_table().schema.field("d").type == pa.dictionary(pa.int8(), pa.string())
    assert lance_df.dataset(path).to_table().to_pylist() == expected
    lance_df.dataset(path).update({"id": "id + 1000"})
    moved = [{**row, "id": row["id"] + 1000} for row in expected]
    assert _plain(lance.dataset(str(path)).to_table()) == moved
    assert _plain(lance_df.dataset(path).to_table()) == moved
    with pytest.raises(UnsupportedFeatureError, match="dictionaries with 8-bit or 16-bit indices"):
        lance_df.dataset(path).optimize.compact_files(compaction_mode="force_binary_copy")


@pytest.mark.parametrize("version", _VERSIONS)
@pytest.mark.parametrize(
    ("index_type", "count", "num_files"),
    [(pa.int8(), 64, 2), (pa.uint8(), 64, 1), (pa.int16(), 12000, 2), (pa.int32(), 12000, 1)],
    ids=str,
)
def test_a_table_becomes_as_many_files_as_its_dictionaries_need(
    tmp_path: Path, version: str, index_type: pa.DataType, count: int, num_files: int
) -> None:
    path = tmp_path / "t.lance"
    rows = pa.concat_tables([_rows(part, count, index_type) for part in range(4)])
    table = lance_df.write_dataset(rows, path, data_storage_version=version)
    assert len(table.get_fragments()) == num_files
    assert lance.dataset(str(path)).to_table().to_pylist() == rows.to_pylist()
    assert table.to_table().to_pylist() == rows.to_pylist()


def test_values_that_come_again_need_no_other_file(tmp_path: Path) -> None:
    rows = pa.concat_tables([_rows(part % 2, 60) for part in range(6)])
    table = lance_df.write_dataset(rows, tmp_path / "t.lance")
    assert len(table.get_fragments()) == 1
    assert lance.dataset(str(tmp_path / "t.lance")).to_table().to_pylist() == rows.to_pylist()


def test_dictionaries_within_others(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    parts = []
    for part in range(4):
        values = _dictionary(part)
        lists = pa.ListArray.from_arrays(pa.array(range(0, 51, 2), pa.int32()), values)
        structs = pa.StructArray.from_arrays([lists], ["l"])
        maps = pa.MapArray.from_arrays(pa.array(range(0, 51, 2), pa.int32()), pa.array(range(50)), values)
        parts.append(pa.table({"s": structs, "m": maps}))
    rows = pa.concat_tables(parts)
    table = lance_df.write_dataset(rows, path)
    assert len(table.get_fragments()) == 2
    assert lance.dataset(str(path)).to_table().to_pylist() == rows.to_pylist()
    assert table.to_table().to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("version", _VERSIONS)
def test_a_single_file_refuses_more_values(tmp_path: Path, version: str) -> None:
    path = str(tmp_path / "f.lance")
    writer = LanceFileWriter(path, version=version)
    for part in range(2):
        writer.write_batch(_rows(part))
    with pytest.raises(InvalidInputError, match=r"'d'.* than indices of type int8 can address \(128\)"):
        writer.write_batch(_rows(2))
    assert not (tmp_path / "f.lance").exists()
    with LanceFileWriter(path, version=version) as writer:
        for part in range(2):
            writer.write_batch(_rows(part, 64))
    read = LanceFileReader(path).read_all().to_table()
    assert read.to_pylist() == [row for part in range(2) for row in _rows(part, 64).to_pylist()]


def test_a_new_column_of_a_fragment_refuses_more_values(tmp_path: Path) -> None:
    table = lance_df.write_dataset(pa.table({"id": range(200)}), tmp_path / "t.lance")
    parts = iter([_dictionary(part) for part in range(4)])
    with pytest.raises(InvalidInputError, match=r"'d'.* than indices of type int8 can address"):
        table.add_columns(lambda _: pa.record_batch({"d": next(parts)}), read_columns=["id"], batch_size=50)
    assert lance_df.dataset(tmp_path / "t.lance").to_table().column_names == ["id"]


@pytest.mark.parametrize("version", _VERSIONS)
def test_floats_are_told_apart_by_their_bytes(tmp_path: Path, version: str) -> None:
    """As readers do: two zeros are two values, a NaN of many dictionaries is one."""
    halves = [
        pa.DictionaryArray.from_arrays(pa.array(range(count), pa.int8()), pa.array([zero, *range(1, count)]))
        for count, zero in ((128, 0.0), (1, -0.0))
    ]
    rows = pa.Table.from_batches([pa.record_batch({"d": each}) for each in halves])
    path = str(tmp_path / "t.lance")
    table = lance_df.write_dataset(rows, path, data_storage_version=version)
    assert len(table.get_fragments()) == 2
    assert lance.dataset(path).to_table()["d"].to_pylist() == rows["d"].to_pylist()

    orders = [pa.array(values) for values in ([float("nan"), 1.0], [1.0, float("nan")])]
    with LanceFileWriter(str(tmp_path / "f.lance"), version=version) as writer:
        for number in range(200):
            indices = pa.array([0, 1], pa.int8())
            column = pa.DictionaryArray.from_arrays(indices, orders[number % 2])
            writer.write_batch(pa.record_batch({"d": column}))
    assert LanceFileReader(str(tmp_path / "f.lance")).read_all().to_table().num_rows == 400
