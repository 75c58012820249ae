"""SQL of Spark over tables of lance_df, as far as Spark goes."""

from __future__ import annotations

import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.spark.failures import typed_errors

pytestmark = pytest.mark.spark


@pytest.fixture
def table(tmp_path):
    lance_df.write_dataset(pa.table({"k": list(range(10)), "s": ["a", "b"] * 5}), tmp_path / "t %41.lance")
    return str(tmp_path / "t %41.lance")


def test_views_are_selected_from_and_inserted_into(spark, table):
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING lance_df OPTIONS (path '{table}', filter 'k >= 4')")
    assert spark.sql("SELECT s, count(*) AS n FROM v GROUP BY s ORDER BY s").collect() == [("a", 3), ("b", 3)]
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW w USING lance_df OPTIONS (path '{table}')")
    spark.sql("INSERT INTO w SELECT k + 100, s FROM v")
    assert lance_df.dataset(table).count_rows("k >= 104") == 6
    assert spark.sql("SELECT max(w.k) FROM w JOIN v ON w.k = v.k").collect() == [(9,)]
    with pytest.raises(InvalidInputError, match="filter is only for reading"), typed_errors():
        spark.sql("INSERT INTO v VALUES (1, 'x')")


@pytest.fixture
def catalog(spark):
    """Drops what a test makes."""
    names = ("at", "every_k", "listed", "copy")
    yield spark
    for name in names:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def test_tables_of_a_catalog_are_selected_from_and_inserted_into(catalog, table, tmp_path):
    sql = catalog.sql
    sql(f"CREATE TABLE at USING lance_df LOCATION '{table}'")
    sql(f"CREATE TABLE every_k USING lance_df OPTIONS (path '{table}', columns 'k', version '1')")
    sql(f"CREATE TABLE listed (k BIGINT, s STRING) USING lance_df LOCATION '{tmp_path / 'other.lance'}'")
    assert sql("SELECT s, sum(at.k) FROM at JOIN every_k USING (k) GROUP BY s ORDER BY s").collect() == [
        ("a", 20),
        ("b", 25),
    ]
    # rows of one table for another have the columns of the first one
    for statement in ("INSERT INTO listed SELECT * FROM at", "CREATE TABLE copy USING lance_df AS TABLE at"):
        with pytest.raises(InvalidInputError, match="Spark does not pass the location"), typed_errors():
            sql(statement)
    sql(f"INSERT INTO listed WITH (path = '{tmp_path / 'other.lance'}') SELECT * FROM at WHERE k < 3")
    sql(f"INSERT INTO at WITH (path = '{table}') VALUES (10, 'c')")
    assert sql("SELECT max(k), max(s), (SELECT max(k) FROM every_k) FROM at").collect() == [(10, "c", 9)]
    other = lance_df.dataset(tmp_path / "other.lance")
    assert other.count_rows() == 3
    assert all("lance_df" not in str(field.metadata) for field in other.schema)
    with pytest.raises(InvalidInputError, match="CREATE TABLE listed columns"), typed_errors():
        sql("SELECT * FROM listed").collect()
    read = sql(f"SELECT * FROM listed WITH (path = '{tmp_path / 'other.lance'}')")
    assert sorted(read.collect()) == [(0, "a"), (1, "b"), (2, "a")]
    sql("DROP TABLE at")
    assert lance_df.dataset(table).count_rows() == 11


def test_tables_of_a_catalog_that_cannot_be_are_refused_with_what_to_do(spark, table):
    with pytest.raises(UnsupportedFeatureError, match="requires the LOCATION"), typed_errors():
        spark.sql("CREATE TABLE a_table USING lance_df")
    with pytest.raises(UnsupportedFeatureError, match="storage options"), typed_errors():
        spark.sql(f"CREATE TABLE a_table USING lance_df OPTIONS (path '{table}', `storage.key` 'x')")
    with pytest.raises(InvalidInputError, match="CREATE TEMPORARY VIEW"), typed_errors():
        spark.read.format("lance_df").load()
