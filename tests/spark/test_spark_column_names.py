"""Columns of DataFrames under the names of a target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import ColumnNotFoundError, InvalidInputError, LanceError
from lance_df.spark.column_names import target_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lance_df.spark.changes.merging import MergeBuilder


def test_names_mean_columns_whatever_their_case():
    assert target_names(["A", "b", "Ünï", "x"], ["a", "b", "ÜNÏ"]) == {
        "A": "a",
        "b": "b",
        "Ünï": "ÜNÏ",
        "x": "x",
    }


def test_a_name_that_is_there_means_itself():
    assert target_names(["a", "A"], ["A", "a", "B"]) == {"a": "a", "A": "A"}
    assert target_names(["x", "x"], ["a"]) == {"x": "x"}  # what is wrong with it, others say


@pytest.mark.parametrize(
    ("names", "target", "message"),
    [
        (["aB"], ["ab", "AB"], "'aB' is ambiguous, it may be 'ab' or 'AB' of the target"),
        (["ab", "AB"], ["Ab"], "'ab' and 'AB' both match column 'Ab' of the target"),
        (["AB", "ab"], ["ab"], "'AB' and 'ab' both match column 'ab' of the target"),
    ],
)
def test_names_that_may_mean_several_columns_are_refused(names, target, message):
    with pytest.raises(InvalidInputError, match=message):
        target_names(names, target)


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["table", "namespace"])
def test_rows_are_appended_under_the_names_of_the_target(spark, tmp_path, kind):
    root = str(tmp_path / "target")
    schema = pa.schema([("Id", pa.int64()), ("City", pa.string())])
    if kind == "table":
        lance_df.write_dataset(schema.empty_table(), root)
    else:
        lance_df.PartitionedNamespace.create(root, schema, ["identity(City)"])
    rows = spark.createDataFrame([("Oslo", 1), ("Rome", 2)], "city STRING, ID BIGINT")
    lance_df.spark.write(rows, root, mode="append")
    if kind == "namespace":
        lance_df.spark.append(rows, root, sort_by=["id"])
        lance_df.spark.write(rows.limit(1), root, mode="overwrite", partition_overwrite_mode="dynamic")
    opened = lance_df.dataset(root) if kind == "table" else lance_df.PartitionedNamespace.open(root)
    table = opened.to_table()
    assert table.schema.names == ["Id", "City"]
    expected = [(1, "Oslo"), (2, "Rome")] if kind == "table" else [(1, "Oslo"), (2, "Rome"), (2, "Rome")]
    assert sorted(zip(*table.to_pydict().values(), strict=True)) == expected
    with pytest.raises(InvalidInputError, match="duplicate column 'ID'"):
        lance_df.spark.write(rows.selectExpr("ID", "ID"), root, mode="append")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(LanceError, match="column 'city' does not exist"):
            lance_df.spark.write(rows, root, mode="append")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["table", "namespace"])
def test_rows_are_changed_under_the_names_of_the_target(spark, tmp_path, kind):
    root = str(tmp_path / "target")
    data = pa.table({"Id": pa.array([1, 2], pa.int64()), "City": ["Oslo", "Rome"]})
    if kind == "table":
        lance_df.write_dataset(data, root)
    else:
        lance_df.PartitionedNamespace.create(root, data.schema, ["identity(City)"]).append(data)

    def rows() -> list[tuple[int, str]]:
        opened = lance_df.dataset(root) if kind == "table" else lance_df.PartitionedNamespace.open(root)
        return sorted(zip(*opened.to_table(columns=["Id", "City"]).to_pydict().values(), strict=True))

    source = spark.createDataFrame([("Bern", 2), ("Bonn", 3)], "city STRING, ID BIGINT")

    def merge(frame: DataFrame, on: str = "id") -> MergeBuilder:
        return lance_df.spark.merge(spark, root, frame, on=on)

    merge(source).when_matched_update().when_not_matched_insert().execute()
    assert rows() == [(1, "Oslo"), (2, "Bern"), (3, "Bonn")]
    merge(source, "iD").when_matched_update({"CITY": "TARGET.city || '!'"}).execute()
    merge(source.selectExpr("ID + 3 AS ID", "city")).when_not_matched_insert({"ID": "source.id"}).execute()
    assert rows() == [(1, "Oslo"), (2, "Bern!"), (3, "Bonn!"), (5, None), (6, None)]
    lance_df.spark.update(spark, root, {"city": "'Kyiv'"}, where="`Id` > 4")
    upsert = lance_df.spark.upsert_batches(root, on="ID", sink_id="s")
    upsert(source.selectExpr("Id + 3 AS iD", "City"), 0)
    assert rows() == [(1, "Oslo"), (2, "Bern!"), (3, "Bonn!"), (5, "Bern"), (6, "Bonn")]
    for call in (
        lambda: merge(source).when_matched_update({"city": "'a'", "CITY": "'b'"}),
        lambda: merge(source.selectExpr("ID", "city", "City")).when_matched_update().execute(),
        lambda: lance_df.spark.update(spark, root, {"city": "'a'", "CITY": "'b'"}),
    ):
        with pytest.raises(InvalidInputError, match="both match column 'City' of the target"):
            call()
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(InvalidInputError, match="no key column 'Id'"):
            merge(source).when_matched_update().execute()
        with pytest.raises(ColumnNotFoundError, match="'city'"):
            lance_df.spark.update(spark, root, {"city": "'a'"})
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.spark
def test_partition_fields_ignore_case(spark, tmp_path):
    rows = spark.sql("SELECT 1L AS Key, named_struct('City', 'Oslo') AS Place")
    lance_df.spark.append(rows, tmp_path / "appended", partition_by=["kEY", "identity(place.city)"])
    lance_df.spark.write(rows, tmp_path / "written", partition_by=[lance_df.partition.identity("key")])
    rows.write.parquet(str(tmp_path / "rows"))
    source = lance_df.spark.IngestSource(name="rows", paths=(str(tmp_path / "rows"),), format="parquet")
    job = lance_df.spark.IngestJob(
        target=str(tmp_path / "ingested"), sources=(source,), partition_by=("identity(KEY)",)
    )
    for _ in range(2):
        lance_df.spark.ingest(job, spark)
    for name, fields in (("appended", ["Key", "Place_City"]), ("written", ["Key"]), ("ingested", ["Key"])):
        namespace = lance_df.PartitionedNamespace.open(tmp_path / name)
        assert [field.field_id for field in namespace.specs[-1].fields] == fields
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(ColumnNotFoundError, match="'key'"):
            lance_df.spark.append(rows, tmp_path / "other", partition_by=["identity(key)"])
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["table", "namespace"])
def test_fields_of_structs_ignore_case(spark, tmp_path, kind):
    root = str(tmp_path / "target")
    place = pa.struct([("X", pa.int64()), ("City", pa.string())])
    schema = pa.schema(
        [("id", pa.int64()), ("place", place), ("all", pa.list_(place)), ("by", pa.map_(pa.string(), place))]
    )
    if kind == "table":
        lance_df.write_dataset(schema.empty_table(), root)
    else:
        lance_df.PartitionedNamespace.create(root, schema, ["identity(id)"])
    one = "named_struct('x', 1L, 'city', 'Oslo')"
    rows = spark.sql(f"SELECT 1L AS ID, {one} AS Place, array({one}) AS all, map('a', {one}) AS by")
    lance_df.spark.write(rows, root, mode="append")
    source = rows.selectExpr("ID + 1 AS id", "place", "all", "by")
    lance_df.spark.merge(spark, root, source, on="id").when_not_matched_insert().execute()
    merge = lance_df.spark.merge(spark, root, source, on="id")
    merge.when_matched_update({"place": "named_struct('CITY', 'Rome', 'x', 2L)"}).execute()
    rows.selectExpr("ID + 2 AS id", "place", "all", "by").write.parquet(str(tmp_path / "rows"))
    from_file = lance_df.spark.IngestSource(name="rows", paths=(str(tmp_path / "rows"),), format="parquet")
    lance_df.spark.ingest(lance_df.spark.IngestJob(target=root, sources=(from_file,)), spark)
    opened = lance_df.dataset(root) if kind == "table" else lance_df.PartitionedNamespace.open(root)
    oslo, rome = {"X": 1, "City": "Oslo"}, {"X": 2, "City": "Rome"}
    assert sorted(opened.to_table(columns=schema.names).to_pylist(), key=lambda row: row["id"]) == [
        {"id": number, "place": place, "all": [oslo], "by": [("a", oslo)]}
        for number, place in ((1, oslo), (2, rome), (3, oslo))
    ]
    twice = spark.sql("SELECT 4L AS id, named_struct('x', 1L, 'X', 2L) AS place")
    for call in (
        lambda: lance_df.spark.write(twice, root, mode="append"),
        lambda: lance_df.spark.merge(spark, root, twice, on="id").when_not_matched_insert().execute(),
    ):
        with pytest.raises(
            InvalidInputError, match=r"'place\.x' and 'place\.X' both match column 'place\.X'"
        ):
            call()
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(LanceError, match="field 'x' does not exist"):
            lance_df.spark.write(rows.withColumnsRenamed({"ID": "id", "Place": "place"}), root, mode="append")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
