"""Deleted rows and the bytes of blobs in scans whose filter or columns are SQL, as pylance returns them."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lance_df
from lance_df.errors import UnsupportedFeatureError

BLOBS = pa.schema(
    [
        pa.field("i", pa.int64()),
        pa.field("blob", pa.large_binary(), metadata={"lance-encoding:blob": "true"}),
    ]
)


@pytest.mark.parametrize("version", ["0.1", "2.0", "2.1", "2.2"])
@pytest.mark.parametrize("indexed", [False, True])
def test_deleted_rows_are_filtered_like_others(tmp_path: Path, version: str, indexed: bool) -> None:
    rows = pa.table({"a": range(100), "b": range(100)})
    dataset = lance_df.write_dataset(
        rows, tmp_path / "t.lance", max_rows_per_file=25, data_storage_version=version
    )
    if indexed:
        dataset.create_scalar_index("b", "BTREE")
    dataset.delete("a < 30 OR a = 77")
    options = {"include_deleted_rows": True, "with_row_id": True}
    for sql, condition in (
        ("a < 32", pc.field("a") < 32),
        ("b < 30", pc.field("b") < 30),
        ("a + b > 150 AND a < 79", (pc.field("a") > 75) & (pc.field("a") < 79)),
        ("_rowid IS NULL", pc.field("_rowid").is_null()),
    ):
        found = dataset.to_table(filter=sql, **options)
        assert found.equals(dataset.to_table(**options).filter(condition)), sql
        theirs = lance.dataset(str(tmp_path / "t.lance"))
        if version != "0.1" and "_rowid" not in sql:
            assert found.equals(theirs.to_table(filter=sql, **options)), sql
    doubled = dataset.to_table({"double": "a * 2"}, filter="a BETWEEN 28 AND 30", **options)
    assert doubled["double"].to_pylist() == [56, 58, 60]
    assert doubled["_rowid"].is_null().to_pylist() == [True, True, False]
    for condition in (None, "a < 32", pc.field("a") < 32):
        scanner = dataset.scanner(filter=condition, **options)
        assert scanner.count_rows() == scanner.to_table().num_rows == len(scanner.head(1000))
    # what was asked for before is not what is returned now
    assert dataset.to_table(filter="a < 32", with_row_id=True)["a"].to_pylist() == [30, 31]
    with pytest.raises(ValueError, match="with_row_id is false"):
        dataset.to_table(filter="a < 30", include_deleted_rows=True)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_blobs_are_read_as_bytes(tmp_path: Path, version: str) -> None:
    rows = pa.table({"i": [1, 2, 3, 4], "blob": [b"x", b"yy" * 50_000, None, b""]}, BLOBS)
    dataset = lance_df.write_dataset(rows, tmp_path / "t.lance", data_storage_version=version)
    for _ in range(2):
        for sql, expected in (("i < 4", 3), ("i + 0 > 1", 3), ("blob IS NULL", 1), ("blob = x'78'", 1)):
            scanner = dataset.scanner(filter=sql, blob_handling="all_binary")
            found = scanner.to_table()
            assert found.schema == scanner.projected_schema
            assert found.schema.field("blob").type == pa.large_binary()
            assert found.num_rows == expected, sql
            by_number = {row["i"]: row["blob"] for row in rows.to_pylist()}
            assert {row["i"]: row["blob"] for row in found.to_pylist()}.items() <= by_number.items()
        descriptions = dataset.to_table(filter="i < 4")
        assert pa.types.is_struct(descriptions.schema.field("blob").type)
        assert descriptions.equals(dataset.to_table(filter=pc.field("i") < 4))


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
def test_statements_do_not_copy_the_positions_of_blobs(tmp_path: Path, version: str) -> None:
    rows = pa.table({"i": [1, 2], "blob": [b"x", b"yy"]}, BLOBS)
    dataset = lance_df.write_dataset(rows, tmp_path / "t.lance", data_storage_version=version)
    session = lance_df.connect(tmp_path)
    for statement in (
        "CREATE TABLE made AS SELECT * FROM t",
        "CREATE TABLE made PARTITIONED BY (i) AS SELECT i, blob AS b FROM t ORDER BY i",
        "INSERT INTO t SELECT i + 10, blob FROM t",
    ):
        with pytest.raises(UnsupportedFeatureError, match="holds blobs"):
            session.sql(statement)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.lance"]
    session.sql("CREATE TABLE sizes AS SELECT i, blob.size AS size FROM t")
    assert session.sql("SELECT size FROM sizes ORDER BY i").to_pydict() == {"size": [1, 2]}
    copied = lance_df.write_dataset(
        dataset.scanner(blob_handling="all_binary").to_reader(), tmp_path / "copy.lance"
    )
    assert copied.to_table(blob_handling="all_binary")["blob"].to_pylist() == [b"x", b"yy"]
