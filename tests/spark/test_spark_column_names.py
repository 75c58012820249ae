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
