"""Files that ours writes: read by pylance and by ours, for every type, null pattern and size."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from column_cases import assert_same, selected, selections, table_with_nulls, table_without_nulls
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lance.file import LanceFileReader

from lance_df.encodings.plan import RowRange
from lance_df.errors import InvalidInputError, StorageError
from lance_df.file.open import open_file
from lance_df.file.v2.writer import FileWriter
from lance_df.format.schema import schema_from_arrow
from lance_df.storage import open_location
from lance_df.storage.sink import ByteSink

if TYPE_CHECKING:
    from pathlib import Path

VERSIONS = ("2.0", "2.1", "2.2")
SIZES = (0, 1, 5, 1000)


def write(path: Path, table: pa.Table, version: str, page_bytes: int = 8 << 20) -> None:
    sink = ByteSink(open_location(path))
    writer = FileWriter(sink, schema_from_arrow(table.schema), version=version, page_bytes=page_bytes)
    try:
        for batch in table.to_batches():
            writer.write_batch(batch.columns)
        assert writer.finish().size_bytes == path.stat().st_size
    except BaseException:
        writer.abort()
        raise


def check_pylance(path: Path, table: pa.Table) -> None:
    found = LanceFileReader(str(path)).read_all().to_table()
    assert found.num_rows == table.num_rows
    for name in table.column_names:
        # where pylance fails on files of its own it is not asked
        assert found[name].to_pylist() == table[name].to_pylist(), name


def check_ours(path: Path, table: pa.Table) -> None:
    reader = open_file(open_location(path).open())
    assert reader.num_rows == table.num_rows
    for rows in selections(table.num_rows):
        for field, found in zip(reader.schema.fields, reader.read(reader.schema.fields, rows), strict=True):
            assert_same(found, selected(table[field.name], rows))


def storable(table: pa.Table, version: str) -> pa.Table:
    """Leave out what the version cannot hold."""
    if version == "2.2":
        table = table.append_column(
            "map",
            pa.array(
                [
                    [(f"k{j}", None if j else i) for j in range(i % 3)] if i % 4 else None
                    for i in range(table.num_rows)
                ],
                pa.map_(pa.string(), pa.int64()),
            ),
        )
    if version != "2.0":
        table = table.append_column(
            "null_structs",
            pa.array(
                [None if i % 3 else {"x": i, "y": [str(i), None]} for i in range(table.num_rows)],
                pa.struct({"x": pa.int64(), "y": pa.list_(pa.string())}),
            ),
        )
    return table


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("num_rows", SIZES)
@pytest.mark.parametrize("make", [table_without_nulls, table_with_nulls])
def test_every_type(tmp_path: Path, version: str, num_rows: int, make: Any) -> None:
    table = storable(make(num_rows), version)
    path = tmp_path / "f.lance"
    write(path, table, version)
    check_pylance(path, table)
    check_ours(path, table)


def big_table(num_rows: int) -> pa.Table:
    rng = np.random.default_rng(0)
    lists = np.concatenate([[0], np.cumsum(rng.integers(0, 4, num_rows))])
    some = pa.array(rng.random(num_rows) < 0.2)
    numbers = pa.array(rng.integers(-(2**60), 2**60, num_rows))
    words = pa.array(rng.integers(0, 2**40, num_rows)).cast(pa.string())
    items = pa.array(rng.random(int(lists[-1])))
    return pa.table(
        {
            "plain": numbers,
            "nulls": pa.compute.if_else(some, None, numbers),
            "small": pa.array(rng.integers(0, 1000, num_rows), pa.int32()),
            "words": words,
            "null_words": pa.compute.if_else(some, None, words),
            "few": pa.array(np.array(["red", "green", "blue"])[rng.integers(0, 3, num_rows)]),
            "flags": some,
            "lists": pa.ListArray.from_arrays(pa.array(lists, pa.int32()), items),
            "vectors": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(num_rows * 8), pa.float32()), 8),
            "wide": pa.FixedSizeListArray.from_arrays(
                pa.array(np.tile(np.arange(768, dtype=np.float16), num_rows // 100 + 1)), 768
            ).take(pa.array(rng.integers(0, num_rows // 100, num_rows)))
            if num_rows > 1000
            else pa.nulls(num_rows),
        }
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("page_bytes", [64 << 10, 8 << 20])
def test_many_rows_and_pages(tmp_path: Path, version: str, page_bytes: int) -> None:
    table = big_table(70_000).drop_columns("wide")
    path = tmp_path / "f.lance"
    write(path, table, version, page_bytes)
    found = LanceFileReader(str(path)).read_all().to_table()
    assert found.equals(table)
    reader = open_file(open_location(path).open())
    for field, array in zip(
        reader.schema.fields, reader.read(reader.schema.fields, RowRange(0, 70_000)), strict=True
    ):
        assert_same(array, table[field.name])
    rows = [0, 7, 31_111, 69_999]
    assert LanceFileReader(str(path)).take_rows(rows).to_table().equals(table.take(rows))


def test_plain_columns_are_read_without_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "f.lance"
    table = big_table(1000).select(["plain"])
    write(path, table, "2.2")
    source = open_location(path).open()
    reader = open_file(source)
    (array,) = reader.read(reader.schema.fields, RowRange(0, 1000))
    start = source.read_range(0, 0).address
    assert start <= array.buffers()[1].address < start + source.size


_LEAVES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.uint8(), st.integers(0, 255)),
    (pa.bool_(), st.booleans()),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.string(), st.text(max_size=5) | st.just("long" * 100)),
    (pa.large_binary(), st.binary(max_size=5)),
    (pa.list_(pa.int16(), 3), st.lists(st.integers(0, 9) | st.none(), min_size=3, max_size=3)),
    (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["a", "b", ""])),
]


@st.composite
def nested_columns(draw: st.DrawFn) -> pa.Array:
    """Draw a column of lists, structs and leaves up to four levels deep, with nulls everywhere."""

    def kind(depth: int) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
        choice = draw(st.integers(0, 3)) if depth < 4 else 0
        if choice <= 0:
            data_type, values = draw(st.sampled_from(_LEAVES))
        elif choice <= 2:
            item_type, items = kind(depth + 1)
            data_type = pa.list_(item_type) if choice == 1 else pa.large_list(item_type)
            values = st.lists(items, max_size=3)
        else:
            members = {name: kind(depth + 1) for name in "ab"[: draw(st.integers(1, 2))]}
            data_type = pa.struct({name: member for name, (member, _) in members.items()})
            values = st.fixed_dictionaries({name: strategy for name, (_, strategy) in members.items()})
        return data_type, st.none() | values

    data_type, values = kind(0)
    rows = draw(st.lists(values, min_size=1, max_size=30))
    # runs of one row make constants and repeated empties likelier
    repeated = [row for row in rows for _ in range(draw(st.sampled_from([1, 1, 1, 50])))]
    column = pa.array(repeated, data_type)
    return column[draw(st.integers(0, 3)) :]


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(
    column=nested_columns(),
    version=st.sampled_from(["2.1", "2.2"]),
    page_bytes=st.sampled_from([100, 1 << 20]),
)
def test_nested_columns_of_any_shape(
    tmp_path_factory: pytest.TempPathFactory, column: pa.Array, version: str, page_bytes: int
) -> None:
    path = tmp_path_factory.mktemp("nested") / "f.lance"
    table = pa.table({"c": column})
    write(path, table, version, page_bytes)
    check_ours(path, table)
    check_pylance(path, table)


def test_fixed_size_lists_of_structs(tmp_path: Path) -> None:
    kind = pa.list_(pa.struct({"a": pa.int64(), "b": pa.string()}), 2)
    rows = [[{"a": i, "b": str(i)}, None] if i % 3 else None for i in range(500)]
    table = pa.table({"c": pa.array(rows, kind)})
    path = tmp_path / "f.lance"
    write(path, table, "2.2")
    check_pylance(path, table)
    check_ours(path, table)


def test_random_batch_sizes_give_the_same_rows(tmp_path: Path) -> None:
    table = big_table(5000).drop_columns("wide")
    path = tmp_path / "f.lance"
    writer = FileWriter(ByteSink(open_location(path)), schema_from_arrow(table.schema), page_bytes=10_000)
    rng = random.Random(1)
    start = 0
    while start < table.num_rows:
        size = rng.choice([1, 10, 500])
        for batch in table.slice(start, size).to_batches():
            writer.write_batch(batch.columns)
        start += size
    writer.finish()
    check_pylance(path, table)


def test_global_buffers(tmp_path: Path) -> None:
    path = tmp_path / "f.lance"
    table = pa.table({"a": [1, 2]})
    writer = FileWriter(ByteSink(open_location(path)), schema_from_arrow(table.schema))
    assert writer.add_global_buffer(b"hello") == 1
    writer.write_batch(table.to_batches()[0].columns)
    writer.finish(metadata={"k": b"v"})
    reader = LanceFileReader(str(path))
    assert bytes(reader.read_global_buffer(1)) == b"hello"
    assert reader.metadata().schema.metadata == {b"k": b"v"}


def test_arrays_that_do_not_fit_together(tmp_path: Path) -> None:
    schema = schema_from_arrow(pa.schema({"a": pa.int64(), "b": pa.int64()}))
    writer = FileWriter(ByteSink(open_location(tmp_path / "f.lance")), schema)
    with pytest.raises(InvalidInputError, match=r"\[1, 2\]"):
        writer.write_batch([pa.array([1]), pa.array([1, 2])])
    writer.abort()
    assert list(tmp_path.iterdir()) == []


def test_structs_are_not_null_in_2_0(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"'c': structs cannot be null in file version 2\.0"):
        write(tmp_path / "f.lance", pa.table({"c": [{"x": 1}, None]}), "2.0")


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError):
        ByteSink(open_location(tmp_path / "file" / "f.lance"))
