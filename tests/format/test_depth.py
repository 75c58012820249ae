"""Columns that are nested deeper than Arrow reads are refused where they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import UnsupportedFeatureError
from lance_df.file import LanceFileWriter
from lance_df.format.depth import MAX_DEPTH, check_depth

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_LEVELS: dict[str, Callable[[pa.DataType], pa.DataType]] = {
    "list": pa.list_,
    "struct": lambda inner: pa.struct([("s", inner)]),
    "fixed_size_list": lambda inner: pa.list_(inner, 1),
    "map": lambda inner: pa.map_(pa.string(), inner),
}


def _nested(kind: str, depth: int, leaf: pa.DataType | None = None) -> pa.DataType:
    data_type = leaf or pa.int32()
    for _ in range(depth):
        data_type = _LEVELS[kind](data_type)
    return data_type


@pytest.mark.parametrize(
    ("kind", "depth", "leaf"),
    [
        ("list", MAX_DEPTH, pa.int32()),
        ("list", MAX_DEPTH - 1, pa.dictionary(pa.int8(), pa.string())),
        ("struct", MAX_DEPTH, pa.float32()),
        ("fixed_size_list", MAX_DEPTH, pa.float64()),
        ("map", MAX_DEPTH // 2, pa.int32()),
    ],
)
def test_as_deep_as_arrow_reads(tmp_path: Path, kind: str, depth: int, leaf: pa.DataType) -> None:
    deep = pa.schema([("c", _nested(kind, depth, leaf))]).empty_table()
    if leaf == pa.int32():
        deep = pa.table({"c": pa.nulls(2, deep.schema.field("c").type)})
    lance_df.write_dataset(deep, tmp_path / "t.lance")
    assert lance_df.dataset(tmp_path / "t.lance").to_table() == deep
    too_deep = pa.schema([("c", _LEVELS[kind](deep.schema.field("c").type))])
    with pytest.raises(UnsupportedFeatureError, match="'c' is nested deeper than 62 levels"):
        check_depth(too_deep)
    with pytest.raises(UnsupportedFeatureError, match="nested deeper than 62 levels"):
        lance_df.write_dataset(too_deep.empty_table(), tmp_path / "t.lance", mode="overwrite")


@pytest.mark.parametrize(
    ("kind", "depth"), [("list", MAX_DEPTH + 1), ("struct", MAX_DEPTH + 1), ("list", 1200), ("struct", 400)]
)
def test_everything_that_writes_refuses_what_is_nested_too_deep(
    tmp_path: Path, kind: str, depth: int
) -> None:
    path = tmp_path / "t.lance"
    table = lance_df.write_dataset(pa.table({"id": [1, 2]}), path)
    schema = pa.schema([("id", pa.int64()), ("deep", _nested(kind, depth))])
    directory = lance_df.DirectoryNamespace(root=str(tmp_path / "tables"))
    rows = pa.table({"id": [1], "country": ["de"]})
    parts = lance_df.PartitionedNamespace.create(tmp_path / "n", rows.schema, ["country"])
    parts.append(rows)
    wide = pa.schema([*rows.schema, schema.field("deep")])

    def write_file() -> None:
        with LanceFileWriter(str(tmp_path / "f.lance"), schema=schema):
            pass

    writes: list[Callable[[], object]] = [
        lambda: lance_df.write_dataset(schema.empty_table(), tmp_path / "new.lance"),
        lambda: lance_df.write_dataset(schema.empty_table(), path, mode="overwrite"),
        lambda: table.insert(schema.empty_table()),
        lambda: table.add_columns(pa.schema([schema.field("deep")])),
        lambda: table.merge(schema.empty_table(), "id"),
        lambda: table.merge_insert("id").when_not_matched_insert_all().execute(schema.empty_table()),
        lambda: lance_df.LanceDataset.commit(path, lance_df.LanceOperation.Overwrite(schema, [])),
        write_file,
        lambda: directory.create_table("new", schema.empty_table()),
        lambda: lance_df.PartitionedNamespace.create(tmp_path / "deep", wide, ["country"]),
        lambda: parts.add_columns(schema.field("deep")),
        lambda: parts.append(wide.empty_table()),
    ]
    for write in writes:
        with pytest.raises(UnsupportedFeatureError, match="'deep' is nested deeper than 62 levels"):
            write()
    assert parts.to_table().sort_by("id") == rows
    assert table.latest_version == 1
    assert lance_df.dataset(path).to_table() == pa.table({"id": [1, 2]})
    assert not (tmp_path / "new.lance").exists()


def test_new_fields_of_structs_count_from_the_top(tmp_path: Path) -> None:
    path = tmp_path / "t.lance"
    lance_df.write_dataset(pa.table({"c": pa.nulls(1, _nested("struct", MAX_DEPTH))}), path)
    inner = pa.struct([("more", pa.list_(pa.int8()))])
    deeper = inner
    for _ in range(MAX_DEPTH - 1):
        deeper = pa.struct([("s", deeper)])
    with pytest.raises(UnsupportedFeatureError, match="nested deeper than 62 levels"):
        lance_df.dataset(path).add_columns(pa.schema([("c", deeper)]))
    assert lance_df.dataset(path).count_rows() == 1
