"""Slices of structs of structs, and of fixed-size lists of structs: Arrow for Rust cannot import them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

import lance_df
from lance_df.compute.evaluator import ExpressionEvaluator
from lance_df.compute.offsets import columns_to_copy, importable, without_offsets
from lance_df.encodings.arrays import concat_arrays

pytestmark = pytest.mark.engine

NUM_ROWS = 20_000  # more than a batch of DataFusion's


def rows(num_rows: int) -> pa.Table:
    return pa.table(
        {
            "id": range(num_rows),
            "st": [{"b": {"c": i % 4}, "d": str(i)} if i % 5 else None for i in range(num_rows)],
            "fl": pa.array(
                [[{"e": i}, {"e": i + 1}] for i in range(num_rows)],
                pa.list_(pa.struct([("e", pa.int64())]), 2),
            ),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    lance_df.write_dataset(rows(NUM_ROWS), folder / "t.lance")
    lance_df.write_dataset(pa.table({"x": [1, 5]}), folder / "u.lance")
    return folder


@pytest.mark.parametrize("batch_size", [7, 1000, 8192])
def test_scans_of_small_batches(folder: Path, batch_size: int) -> None:
    uri = str(folder / "t.lance")
    for options in (
        {"filter": "st.b.c = 2"},
        {"columns": {"c": "st.b.c"}},
        {"columns": {"last": "fl[2]['e']"}, "limit": 9000},
        {"filter": "st.b.c + 0 = 1 AND id > 300", "columns": ["id", "fl"], "offset": 11},
    ):
        small: Any = lance_df.dataset(uri).to_table(**options, batch_size=batch_size)
        assert small.to_pylist() == lance_df.dataset(uri).to_table(**options).to_pylist()
    # of fixed-size lists of structs pylance reads no other columns besides
    matching: Any = {"columns": ["id", "st"], "filter": "st.b.c = 2"}
    found = lance_df.dataset(uri).to_table(**matching, batch_size=batch_size).to_pylist()
    assert found == lance.dataset(uri).to_table(**matching).to_pylist()


def test_joins_without_keys(folder: Path) -> None:
    ctx = lance_df.connect(folder)

    def read(sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in ctx.sql(sql).to_pylist()]

    assert read("SELECT max(t.st.b.c), count(*) FROM t JOIN u ON t.id < u.x") == [(3, 6)]
    assert read("SELECT count(st.b.c) FROM t WHERE EXISTS (SELECT 1 FROM u)") == [(NUM_ROWS * 4 // 5,)]
    assert read("SELECT max(fl[1]['e']) FROM t, u") == [(NUM_ROWS - 1,)]
    assert read("SELECT max(t.st.b.c) FROM t JOIN u ON t.id BETWEEN u.x AND u.x + 1") == [(2,)]


def test_changes(tmp_path: Path) -> None:
    data = lance_df.write_dataset(rows(NUM_ROWS), tmp_path / "t.lance")
    lance_df.write_dataset(pa.table({"x": [12_000]}), tmp_path / "u.lance")
    data.add_columns({"q": "st.b.c + 1"}, batch_size=1000)
    assert data.to_table(["q"])["q"].to_pylist() == [i % 4 + 1 if i % 5 else None for i in range(NUM_ROWS)]
    lance_df.connect(tmp_path).sql(
        "DELETE FROM t WHERE st.b.c = 3 AND EXISTS (SELECT 1 FROM u WHERE u.x > t.id)"
    )
    left = [i for i in range(NUM_ROWS) if not (i < 12_000 and i % 5 and i % 4 == 3)]
    assert lance_df.dataset(tmp_path / "t.lance").to_table(["id"])["id"].to_pylist() == left


def test_expressions_over_slices() -> None:
    part = rows(20).combine_chunks().to_batches()[0].slice(3, 9)
    values = ExpressionEvaluator().evaluate("col0[1]['e']", [part.column(2)])
    assert values.to_pylist() == list(range(3, 12))


def test_which_types_are_copied() -> None:
    """Those at which DataFusion panics, found by trying all; lists, and what is below them, are no slices."""
    kinds = {
        "s": lambda each: pa.struct([("a", pa.int8()), ("b", each)]),
        "f": lambda each: pa.list_(each, 2),
        "l": pa.list_,
    }
    for num_levels in (1, 2, 3):
        for names in itertools.product(kinds, repeat=num_levels):
            data_type = pa.int64()
            for name in reversed(names):
                data_type = kinds[name](data_type)
            top = "".join(names).partition("l")[0]
            assert bool(columns_to_copy(pa.schema([("x", data_type)]))) == ("s" in top[1:]), names


def test_what_needs_no_copy_is_none() -> None:
    batch = rows(20).combine_chunks().to_batches()[0]
    columns = columns_to_copy(batch.schema)
    assert without_offsets(batch, columns) is batch
    copy = without_offsets(batch.slice(5, 3), columns)
    assert copy == batch.slice(5, 3)
    assert [column.offset for column in copy.columns] == [5, 0, 0]
    plain = batch.select(["id"]).slice(5, 3)
    assert importable(plain) is plain


def with_null() -> pa.Array:
    """Return structs of which one is NULL and has a value below."""
    return pa.StructArray.from_arrays(
        [pa.array([1, 7, None, 2])], ["b"], mask=pa.array([False, True, False, False])
    )


@pytest.mark.parametrize("part", [slice(0, 4), slice(1, 3)])
@pytest.mark.parametrize(
    ("nest", "text"),
    [
        (lambda each: each, "col0['b']"),
        (lambda each: pa.StructArray.from_arrays([each], ["o"]), "col0['o']['b']"),
        (lambda each: pa.ListArray.from_arrays(range(5), each), "col0[1]['b']"),
        (lambda each: pa.FixedSizeListArray.from_arrays(each, 1), "col0[1]['b']"),
        (
            lambda each: pa.StructArray.from_arrays(
                [pa.FixedSizeListArray.from_arrays(pa.concat_arrays([each[:1], each]), 1)[1:]], ["o"]
            ),
            "col0['o'][1]['b']",
        ),
        (lambda each: pa.MapArray.from_arrays(range(5), ["k"] * 4, each), "col0['k']['b']"),
    ],
    ids=["struct", "structs", "list", "fixed-size list", "slice in a struct", "map"],
)
def test_fields_of_null_are_null(part: slice, nest: Any, text: str) -> None:
    values = nest(with_null())[part]
    assert ExpressionEvaluator().evaluate(text, [values]).to_pylist() == [1, None, None, 2][part]
    whole = importable(pa.record_batch([values], ["x"]))
    whole.validate(full=True)
    assert whole.column(0).to_pylist() == values.to_pylist()


def test_partitions_of_null_structs(tmp_path: Path) -> None:
    """What lies below NULL says nothing about the partition of a row."""
    table = pa.table({"id": range(4), "st": with_null()})
    by = lance_df.partition.expression("col0['b'] % 5", "st")
    namespace = lance_df.PartitionedNamespace.create(tmp_path / "n", table.schema, [by])
    namespace.append(table)
    ctx = lance_df.connect(tmp_path)
    for condition, ids in {"st IS NULL": [1], "st.b IS NULL": [1, 2], "st.b % 5 = 2": [3]}.items():
        rows = ctx.sql(f"SELECT id FROM n WHERE {condition} ORDER BY id")
        assert rows.to_pydict()["id"] == ids, condition
    assert not namespace.verify(deep=True).problems


@pytest.mark.parametrize(
    "values",
    [
        pa.array([{}, None, {}], pa.struct([])),
        pa.array(
            [{"e": {}, "x": 2}, None, {"e": None, "x": 1}],
            pa.struct([("e", pa.struct([])), ("x", pa.int64())]),
        ),
        pa.array([[{}], None, [None, {}]], pa.list_(pa.struct([]))),
        pa.StructArray.from_arrays(
            [pa.array([{}, None, {}], pa.struct([])), pa.array(["a", "b", None]).dictionary_encode()],
            ["e", "d"],
        ),
    ],
    ids=lambda values: str(values.type),
)
def test_structs_without_fields(values: pa.Array) -> None:
    rows = pa.record_batch({"c": values, "n": range(3)}).slice(1)
    assert importable(rows).to_pylist() == rows.to_pylist()
    assert concat_arrays([values, values], values.type).to_pylist() == 2 * values.to_pylist()


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_order_by_structs_without_fields(tmp_path: Path, version: str) -> None:
    kind = pa.struct([("e", pa.struct([])), ("x", pa.int64())])
    rows = pa.table(
        {"e": pa.array([{}] * 3, pa.struct([])), "s": pa.array([{"e": {}, "x": x} for x in (3, 1, 2)], kind)}
    )
    dataset = lance_df.write_dataset(rows, tmp_path / "t", data_storage_version=version)
    assert dataset.scanner(order_by=["e"]).to_table()["e"].to_pylist() == [{}] * 3
    assert [each["x"] for each in dataset.scanner(order_by=["s"]).to_table()["s"].to_pylist()] == [1, 2, 3]
