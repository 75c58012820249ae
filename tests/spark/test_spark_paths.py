"""Relative paths, which are those of this process, whatever the folder of the driver."""

from __future__ import annotations

import pytest

import lance_df
from lance_df.errors import AlreadyExistsError
from lance_df.spark.paths import path_for_driver

pytestmark = pytest.mark.spark


def test_paths_are_absolute_and_urls_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert path_for_driver("./t") == path_for_driver(tmp_path / "t") == str(tmp_path / "t")
    assert path_for_driver("memory://t") == "memory://t"


def test_a_relative_path_is_that_of_the_current_folder(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = spark.sql("SELECT 1L AS a")
    lance_df.spark.write(rows, "./t")
    lance_df.spark.write(rows, "./t", mode="ignore")
    with pytest.raises(AlreadyExistsError):
        lance_df.spark.write(rows, "./t")
    lance_df.spark.append(rows, "./n", partition_by=["identity(a)"])
    for name in ("t", "n"):
        assert (tmp_path / name).is_dir()
        lance_df.spark.update(spark, name, {"a": "a + 1"})
        lance_df.spark.merge(
            spark, name, spark.sql("SELECT 3L AS a"), "a"
        ).when_not_matched_insert().execute()
        lance_df.spark.compact(spark, f"./{name}")
        assert sorted(lance_df.spark.read(spark, f"./{name}").collect()) == [(2,), (3,)]
    lance_df.spark.sql(spark, "CREATE TABLE relative USING lance_df LOCATION './c' AS SELECT 1 AS a")
    try:
        assert lance_df.spark.sql(spark, "SELECT * FROM relative").collect() == [(1,)]
    finally:
        spark.sql("DROP TABLE relative")
