"""Columns, such as categoricals, whose dictionaries together have more values than indices can number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df.errors import InvalidInputError

NESTS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "plain": lambda each: each,
    "struct": lambda each: pa.StructArray.from_arrays([each], ["a"]),
    "list": lambda each: pa.ListArray.from_arrays(pa.array(range(len(each) + 1), pa.int32()), each),
}
NESTED: dict[str, Callable[[pa.Array], pa.Array]] = {
    "plain": lambda each: each,
    "struct": lambda each: each.field("a"),
    "list": lambda each: each.flatten(),
}


def rows(first: int, num_rows: int, nest: str) -> pa.Table:
    values = pa.array([f"v{first + i}" for i in range(100)])
    indices = pa.array([i % 100 for i in range(num_rows)], pa.int8())
    column = NESTS[nest](pa.DictionaryArray.from_arrays(indices, values))
    return pa.table({"id": range(first, first + num_rows), "x": column})


def texts(table: pa.Table, nest: str) -> pa.Table:
    """Return the ids and texts of rows, whose lists have one text each."""
    column = table["x"]
    assert (table.schema.names, column.null_count) == (["id", "x"], 0)
    if nest == "list":
        assert pc.unique(pc.list_value_length(column)).to_pylist() == [1]
    chunks = [NESTED[nest](chunk).dictionary_decode() for chunk in column.chunks]
    return pa.table({"id": table["id"], "x": pa.chunked_array(chunks, pa.string())})


@pytest.mark.parametrize("num_rows", [100, 30_000])
@pytest.mark.parametrize("nest", NESTS)
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
@pytest.mark.parametrize("change", ["compaction", "update"])
def test_fragments_that_are_joined(
    tmp_path: Path, version: str, nest: str, num_rows: int, change: str
) -> None:
    """After a compaction or an update, too, files and batches are such that their dictionaries fit."""
    uri = str(tmp_path / "t.lance")
    parts = [rows(first, num_rows, nest) for first in (0, 100_000)]
    lance_df.write_dataset(parts[0], uri, data_storage_version=version)
    data = lance_df.write_dataset(parts[1], uri, mode="append")
    expected = pa.concat_tables([texts(part, nest) for part in parts])
    if change == "compaction":
        data.optimize.compact_files()
    else:
        data.update({"id": "id"})
    data = lance_df.dataset(uri)
    assert len(data.get_fragments()) == 2
    assert texts(data.to_table(), nest) == expected
    assert texts(lance.dataset(uri).to_table(), nest) == expected
    assert data.schema.field("x").type == parts[0].schema.field("x").type
    for batch in data.to_batches(batch_size=1000):
        assert batch.num_rows <= 1000
    assert data.to_table(filter="id < 50").to_pylist() == parts[0][:50].to_pylist()
    assert data.take([1, num_rows + 1]).to_pylist() == [
        row for part in parts for row in part[1:2].to_pylist()
    ]
    data.validate()


@pytest.mark.engine
@pytest.mark.parametrize("nest", NESTS)
def test_filters_that_compute(tmp_path: Path, nest: str) -> None:
    """DataFusion joins small batches that a filter leaves; the rows of two files do not fit in one."""
    uri = str(tmp_path / "t.lance")
    parts = [rows(first, 100, nest) for first in (0, 100_000)]
    for part, mode in zip(parts, ("create", "append"), strict=True):
        data = lance_df.write_dataset(part, uri, mode=mode)
    expected = [row for part in parts for row in part.to_pylist()]
    for options in ({}, {"batch_size": 1000}, {"with_row_id": True}, {"limit": 150, "offset": 20}):
        found = data.to_table(filter="abs(id) >= 0", **options).select(["id", "x"])
        start = options.get("offset", 0)
        assert found.to_pylist() == expected[start : start + options.get("limit", 200)]
    assert data.to_table(filter="id % 2 = 1").to_pylist() == expected[1::2]
    # a sort joins them in any case
    message = r"(Dictionary key bigger|DictionaryKeyOverflow).*ORDER BY"
    for run in ("to_batch_records", "to_stream_reader"):
        with pytest.raises(InvalidInputError, match=message):
            list(getattr(data.sql("SELECT x FROM dataset ORDER BY id").build(), run)())


@pytest.mark.parametrize("num_rows", [100, 30_000])
def test_updates_and_merges_after_a_compaction(tmp_path: Path, num_rows: int) -> None:
    """Rows of one fragment are written in as many batches as their dictionaries need."""
    uri = str(tmp_path / "t.lance")
    parts = [rows(first, num_rows, "plain") for first in (0, 100_000)]
    for part, mode in zip(parts, ("create", "append"), strict=True):
        data = lance_df.write_dataset(part, uri, mode=mode)
    data.optimize.compact_files()
    data = lance_df.dataset(uri)
    assert data.update({"id": "id"}) == {"num_rows_updated": 2 * num_rows}
    expected = pa.concat_tables([texts(part, "plain") for part in parts])
    assert texts(data.to_table(), "plain") == expected
    # merged rows that lack the dictionaries take the old ones along
    merged = data.merge_insert("id").when_matched_update_all().execute(data.to_table(["id"]))
    assert merged["num_updated_rows"] == 2 * num_rows
    assert texts(data.to_table(), "plain") == expected


@pytest.mark.engine
@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_statements(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "t.lance")
    for first, mode in ((0, "create"), (100_000, "append")):
        data = lance_df.write_dataset(
            rows(first, 30_000, "plain"), uri, mode=mode, data_storage_version=version
        )
    data.optimize.compact_files()
    ctx = lance_df.connect(tmp_path)
    # DataFusion cannot sort such values, nor join groups of several fragments
    counts = ctx.sql("SELECT CAST(x AS VARCHAR) AS x, count(*) AS n FROM t GROUP BY 1").to_pydict()
    assert len(counts["x"]) == 200
    assert set(counts["n"]) == {300}
    assert ctx.sql("SELECT count(*) AS n FROM t WHERE x = 'v7'").to_pydict() == {"n": [300]}
    assert ctx.sql("SELECT max(x) AS x FROM t").to_pydict() == {"x": ["v99"]}
    with pytest.raises(InvalidInputError, match="sorted in memory"):
        lance_df.dataset(uri).to_table(order_by=["id"])
    assert lance_df.dataset(uri).to_table(["id"], order_by=["id"]).num_rows == 60_000


def test_nested_dictionaries_that_hold_null(tmp_path: Path) -> None:
    """Files of 2.0 have them; pyarrow does not join those of several fragments."""
    for nest in ("struct", "list"):
        uri, tables = str(tmp_path / f"{nest}.lance"), []
        for texts in (["u", None, "w"], ["p", "q", None]):
            words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int8()), pa.array(texts))
            tables.append(pa.table({"x": NESTS[nest](words)}))
        for table, mode in zip(tables, ("create", "append"), strict=True):
            data = lance_df.write_dataset(table, uri, mode=mode, data_storage_version="2.0")
        rows_of = [row for table in tables for row in table.to_pylist()]
        assert data.take([5, 0, 4]).to_pylist() == [rows_of[5], rows_of[0], rows_of[4]]
