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
    lance_df.write_dataset(pa.table({"k": list(range(10)), "s": ["a", "b"] * 5}), tmp_path / "t.lance")
    return str(tmp_path / "t.lance")


def test_views_are_selected_from_and_inserted_into(spark, table):
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW v USING lance_df OPTIONS (path '{table}', filter 'k >= 4')")
    assert spark.sql("SELECT s, count(*) AS n FROM v GROUP BY s ORDER BY s").collect() == [("a", 3), ("b", 3)]
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW w USING lance_df OPTIONS (path '{table}')")
    spark.sql("INSERT INTO w SELECT k + 100, s FROM v")
    assert lance_df.dataset(table).count_rows("k >= 104") == 6
    assert spark.sql("SELECT max(w.k) FROM w JOIN v ON w.k = v.k").collect() == [(9,)]
    with pytest.raises(InvalidInputError, match="filter is for reading"), typed_errors():
        spark.sql("INSERT INTO v VALUES (1, 'x')")


def test_tables_of_a_catalog_are_refused_with_what_to_do(spark, table):
    with pytest.raises(UnsupportedFeatureError, match="CREATE TEMPORARY VIEW"), typed_errors():
        spark.sql(f"CREATE TABLE a_table USING lance_df LOCATION '{table}'")
    with pytest.raises(InvalidInputError, match="CREATE TEMPORARY VIEW"), typed_errors():
        spark.read.format("lance_df").load()
