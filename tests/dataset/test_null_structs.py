"""A field of a NULL struct is NULL for whoever reads it: filters, SQL, changes, new columns and indices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import lance_df

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

pytestmark = pytest.mark.engine

SECOND: dict[pa.DataType, Callable[[int], Any]] = {
    pa.int16(): lambda n: n,
    pa.list_(pa.int16(), 2): lambda n: [n, n],
    pa.string(): lambda n: f"x{n}",
}
PACKED = {"lance-encoding:packed": "true"}
NUMBERS = pa.struct([("a", pa.int32()), ("b", pa.int16())])
VECTORS = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.int16(), 2))])
TEXTS = pa.struct([("a", pa.int32()), ("b", pa.string())])
CASES = [
    pytest.param(version, fields, metadata, writer, id=f"{writer.__name__}-{version}-{name}")
    for version, fields, metadata, name in (
        ("2.1", NUMBERS, PACKED, "packed numbers"),
        ("2.2", NUMBERS, PACKED, "packed numbers"),
        ("2.2", VECTORS, PACKED, "packed vectors"),
        ("2.2", TEXTS, PACKED, "packed text"),
        ("2.1", TEXTS, {}, "plain"),
        ("2.2", TEXTS, {}, "plain"),
    )
    for writer in (lance, lance_df)
]


def rows(fields: pa.StructType, metadata: dict[str, str], count: int = 3) -> pa.Table:
    """Return structs, every third of which is NULL, at the top, in lists, and below a NULL struct."""
    values = [
        None if n % 3 == 1 else {"a": n + 1, "b": SECOND[fields.field(1).type](n)} for n in range(count)
    ]
    item = pa.field("item", fields, metadata=metadata)
    outer = pa.struct([pa.field("p", fields, metadata=metadata), pa.field("z", pa.int32())])
    return pa.Table.from_pylist(
        [
            {"id": n, "s": value, "l": [value], "o": value and {"p": value, "z": n}}
            for n, value in enumerate(values)
        ],
        pa.schema(
            [
                pa.field("id", pa.int64()),
                pa.field("s", fields, metadata=metadata),
                pa.field("l", pa.list_(item)),
                pa.field("o", outer),
            ]
        ),
    )


def ids(table: lance_df.LanceDataset, filter: str | None = None) -> list[int]:
    return table.to_table(columns=["id"], filter=filter)["id"].to_pylist()


def assert_no_value_below_null(array: pa.Array) -> None:
    """Check an array and its children: whatever is below a NULL struct is NULL."""
    if pa.types.is_struct(array.type):
        for number in range(array.type.num_fields):
            child = array.field(number)
            assert not child.filter(array.is_null()).drop_null()
            assert_no_value_below_null(child)
    elif pa.types.is_list(array.type):
        assert_no_value_below_null(array.flatten())


@pytest.mark.parametrize(("version", "fields", "metadata", "writer"), CASES)
def test_reads_and_sql(
    tmp_path: Path, version: str, fields: pa.StructType, metadata: dict[str, str], writer: ModuleType
) -> None:
    written = rows(fields, metadata)
    writer.write_dataset(written, str(tmp_path / "t.lance"), data_storage_version=version)
    table = lance_df.dataset(tmp_path / "t.lance")
    for read in (table.to_table(), table.take([0, 1, 2]), table.to_table(filter="id >= 0")):
        assert read.drop_columns("o").to_pylist() == written.drop_columns("o").to_pylist()
        for column in read.columns:
            for chunk in column.chunks:
                assert_no_value_below_null(chunk)
    for name in ("s.a", "s.b", "o.p.a", "o.p.b", "o.p", "o"):
        assert ids(table, f"{name} IS NULL") == [1], name
        assert ids(table, f"{name} IS NOT NULL") == [0, 2], name
        assert table.count_rows(f"{name} IS NULL") == 1
    assert ids(table, "s.a < 2") == [0]
    ctx = lance_df.connect(str(tmp_path))
    query = (
        "SELECT count(s['a']) AS n, min(s['a']) AS least, count(s['b']) AS b, count(o['p']['a']) AS p FROM t"
    )
    assert ctx.sql(query).to_pylist() == [{"n": 2, "least": 1, "b": 2, "p": 2}]
    groups = "SELECT coalesce(s['a'], 99) AS a, count(*) AS n FROM t GROUP BY 1 ORDER BY 1"
    assert [row["a"] for row in ctx.sql(groups).to_pylist()] == [1, 3, 99]
    items = "SELECT l[1]['a'] AS a, item['a'] AS i FROM (SELECT l, unnest(l) AS item, id FROM t) ORDER BY id"
    assert ctx.sql(items).to_pylist() == [{"a": n, "i": n} for n in (1, None, 3)]


@pytest.mark.parametrize(("version", "fields", "metadata", "writer"), CASES)
def test_changes(
    tmp_path: Path, version: str, fields: pa.StructType, metadata: dict[str, str], writer: ModuleType
) -> None:
    path = tmp_path / "t.lance"
    writer.write_dataset(rows(fields, metadata), str(path), data_storage_version=version)
    table = lance_df.dataset(path)
    table.update({"id": "id + 100"}, where="s.a = 0")
    assert ids(table) == [0, 1, 2]
    table.add_columns({"v": "s.a"})
    table.update({"id": "id + 10"}, where="id > 0")
    table.optimize.compact_files()
    assert table.to_table(columns=["id", "v", "s"]).to_pylist() == [
        {"id": row["id"] + 10 * (row["id"] > 0), "v": row["s"] and row["s"]["a"], "s": row["s"]}
        for row in rows(fields, metadata).to_pylist()
    ]
    table.delete("s.a IS NOT NULL")
    assert ids(lance_df.dataset(path)) == [11]


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "ZONEMAP"])
@pytest.mark.parametrize("metadata", [PACKED, {}], ids=["packed", "plain"])
def test_indices(tmp_path: Path, kind: Any, metadata: dict[str, str]) -> None:
    table = lance_df.write_dataset(
        rows(TEXTS, metadata, 3000), tmp_path / "t.lance", data_storage_version="2.2"
    )
    table.create_scalar_index("s.a", kind)
    nulls = [*range(1, 3000, 3)]
    assert ids(table, "s.a IS NULL") == nulls
    assert ids(table, "s.a < 5") == [0, 2, 3]
    assert table.count_rows("s.a IS NOT NULL") == 2000
    assert table.count_rows("s.a = 0") == 0
