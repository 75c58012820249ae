"""`lance_df.spark.sql`, folders as views, and all save modes."""

from __future__ import annotations

import datetime as dt
import time
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import lance_df
from lance_df.errors import AlreadyExistsError, InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_df.spark.failures import typed_errors

pytestmark = pytest.mark.spark

ROWS = pa.table({"k": pa.array(range(10), pa.int64()), "s": ["a", "b"] * 5})


@pytest.fixture
def root(spark, tmp_path):
    lance_df.write_dataset(ROWS, tmp_path / "plain.lance")
    parted = lance_df.PartitionedNamespace.create(tmp_path / "parted", ROWS.schema, ["identity(s)"])
    parted.append(ROWS)
    lance_df.spark.register(spark, tmp_path)
    yield tmp_path
    for table in spark.catalog.listTables():
        if table.isTemporary:
            spark.catalog.dropTempView(f"`{table.name}`")
        else:
            spark.sql(f"DROP TABLE {table.name}")


def test_all_tables_of_a_folder_are_views_and_new(spark, root):
    query = (
        "SELECT p.s, count(*) AS n FROM plain p JOIN parted USING (k) WHERE k < 5 GROUP BY p.s ORDER BY p.s"
    )
    assert spark.sql(query).collect() == [("a", 3), ("b", 2)]
    lance_df.write_dataset(ROWS, root / "plain.lance", mode="append")
    lance_df.write_dataset(ROWS, root / "late.lance")
    assert lance_df.spark.sql(spark, query).collect() == [("a", 6), ("b", 4)]
    assert lance_df.spark.sql(spark, "SELECT count(*) FROM late").collect() == [(10,)]
    assert spark.sql("SELECT count(*) FROM plain").collect() == [(20,)]
    scan = lance_df.spark.explain_scan(lance_df.spark.sql(spark, "SELECT k FROM parted WHERE s = 'a'"))
    assert (scan.partitions.kept, scan.partitions.total) == (1, 2)


def test_a_view_of_the_user_stays(spark, root):
    sql = lance_df.spark.sql
    assert sql(spark, "SELECT count(*) FROM plain").collect() == [(10,)]
    spark.range(50).createOrReplaceTempView("plain")
    assert sql(spark, "SELECT count(*) FROM plain").collect() == [(50,)]
    lance_df.dataset(root / "plain.lance").delete("k = 0")
    assert sql(spark, "SELECT count(*) FROM plain").collect() == [(50,)]
    spark.catalog.dropTempView("plain")
    assert sql(spark, "SELECT count(*) FROM plain").collect() == [(9,)]


def test_names_that_differ_in_case_are_told(spark, root, caplog):
    lance_df.write_dataset(ROWS, root / "PLAIN.lance")
    lance_df.spark.register(spark, root)
    assert "Spark takes" in caplog.text
    assert "plain" in caplog.text


def test_versions_and_tables_about_namespaces(spark, root):
    dataset = lance_df.dataset(root / "plain.lance")
    dataset.tags.create("golden", 1)
    dataset.delete("k > 3")
    sql = lance_df.spark.sql
    assert sql(spark, "SELECT count(*) FROM plain").collect() == [(4,)]
    assert sql(spark, "SELECT count(*) FROM plain VERSION AS OF 1 WHERE k > 1").collect() == [(8,)]
    assert sql(
        spark,
        "SELECT count(*) FROM plain VERSION AS OF 'golden' AS old LEFT ANTI JOIN plain ON old.k = plain.k",
    ).collect() == [(6,)]
    members = sql(spark, "SELECT s, rows FROM `parted$partitions` ORDER BY s").collect()
    assert members == [("a", 5), ("b", 5)]
    with pytest.raises(NotFoundError, match="'nothing' is no table of lance_df"):
        sql(spark, "SELECT * FROM nothing VERSION AS OF 3")
    with pytest.raises(NotFoundError):
        sql(spark, "SELECT * FROM plain TIMESTAMP AS OF '2024-01-01'")
    with pytest.raises(InvalidInputError, match="a time such as"):
        sql(spark, "SELECT * FROM plain TIMESTAMP AS OF 'yesterday'")


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "+05:30"])
def test_versions_at_a_time(spark, root, zone):
    dataset = lance_df.dataset(root / "plain.lance")
    first = dataset.versions()[0]["timestamp"]
    time.sleep(1.1)
    dataset.delete("k > 3")
    middle = first.astimezone(dt.UTC) + dt.timedelta(seconds=0.5)
    later = middle + dt.timedelta(days=1)
    offset = {"UTC": dt.UTC, "+05:30": dt.timezone(dt.timedelta(hours=5.5))}.get(zone) or ZoneInfo(zone)
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for moment, count in ((middle, 10), (later, 4)):
            local = moment.astimezone(offset).replace(tzinfo=None).isoformat(" ")
            for text in (local, moment.isoformat()):
                query = f"SELECT count(*) FROM plain TIMESTAMP AS OF '{text}' AS p WHERE k >= 0"
                assert lance_df.spark.sql(spark, query).collect() == [(count,)], text
    finally:
        spark.conf.unset("spark.sql.session.timeZone")


def test_insert_needs_no_path(spark, root):
    sql = lance_df.spark.sql
    assert sql(spark, "INSERT INTO plain SELECT k + 100, s FROM parted WHERE s = 'a'").columns == []
    sql(spark, "INSERT INTO parted (s, k) VALUES ('c', 77)")
    sql(spark, "WITH c AS (SELECT 1) SELECT * FROM c")
    assert sql(spark, "SELECT count(*), max(k) FROM plain").collect() == [(15, 108)]
    assert sql(spark, "SELECT k FROM parted WHERE s = 'c'").collect() == [(77,)]
    sql(spark, "INSERT OVERWRITE plain WITH c AS (SELECT 5L, 'x') SELECT * FROM c")
    assert sql(spark, "SELECT * FROM plain").collect() == [(5, "x")]
    with pytest.raises(InvalidInputError, match="the query has 1 columns, plain takes 2: k, s"):
        sql(spark, "INSERT INTO plain SELECT 1")
    spark.sql(f"CREATE TABLE listed USING lance_df LOCATION '{root / 'plain.lance'}'")
    sql(spark, "INSERT INTO listed VALUES (6, 'y')")
    assert lance_df.dataset(root / "plain.lance").count_rows() == 2


def test_insert_overwrite_keeps_the_columns(spark, root):
    rows = pa.table(
        {
            "id": pa.array([1, 2], pa.int64()),
            "g": pa.array([3, None], pa.int32()),
            "s": ["a", "b"],
            "d": pa.array([Decimal("1.50"), None], pa.decimal128(12, 2)),
        }
    )
    dataset = lance_df.write_dataset(rows, root / "kept.lance")
    lance_df.spark.register(spark, root)
    sql = lance_df.spark.sql
    spark.sql(f"CREATE TABLE listed USING lance_df LOCATION '{root / 'kept.lance'}'")
    for statement, expected in (
        ("INSERT OVERWRITE kept SELECT 1, 2L, 'x', 1.5", (1, 2, "x", Decimal("1.50"))),
        ("INSERT OVERWRITE kept (s, g) VALUES ('x', 2L)", (None, 2, "x", None)),
        ("INSERT OVERWRITE TABLE listed (D) SELECT 7", (None, None, None, Decimal("7.00"))),
    ):
        sql(spark, statement)
        dataset = lance_df.dataset(root / "kept.lance")
        assert dataset.schema.equals(rows.schema)
        assert [tuple(row.values()) for row in dataset.to_table().to_pylist()] == [expected]
        assert sql(spark, "SELECT * FROM listed").collect() == [expected]
    versions = dataset.version
    for statement, message in (
        ("INSERT OVERWRITE kept SELECT 1, 99999999999L, 'x', 1.5", "'g'.*not in range"),
        ("INSERT OVERWRITE kept (s, nope) VALUES ('x', 1)", "no column 'nope'"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            sql(spark, statement)
    assert lance_df.dataset(root / "kept.lance").version == versions
    not_null = pa.schema([pa.field("k", pa.int64(), nullable=False), ("s", pa.string())])
    lance_df.write_dataset(ROWS.cast(not_null), root / "strict.lance")
    with pytest.raises(InvalidInputError, match="'k' is missing, and must not be null"):
        sql(spark, "INSERT OVERWRITE strict (s) VALUES ('x')")
    assert sql(spark, "SELECT count(*) FROM strict").collect() == [(10,)]


def test_overwrite_schema(spark, root):
    path = str(root / "plain.lance")
    lance_df.spark.write(spark.range(3).toDF("K"), path, mode="overwrite", overwrite_schema=False)
    assert lance_df.dataset(path).schema.equals(ROWS.schema)
    assert lance_df.dataset(path).to_table()["k"].to_pylist() == [0, 1, 2]
    rows = spark.range(3).toDF("k").write.format("lance_df").option("overwriteSchema", "false")
    with pytest.raises(InvalidInputError, match="'s' is missing, and overwriteSchema is"), typed_errors():
        rows.mode("overwrite").save(path)
    lance_df.spark.write(spark.range(3).toDF("K"), path, mode="overwrite")
    assert lance_df.dataset(path).schema.names == ["K"]


def test_names_and_places_of_new_tables(spark, root, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    sql = lance_df.spark.sql
    with pytest.raises(AlreadyExistsError, match="differs in case"):
        sql(spark, "CREATE TABLE PLAIN USING lance_df AS SELECT 1 AS x")
    assert sql(spark, "CREATE TABLE IF NOT EXISTS Plain USING lance_df AS SELECT 1 AS x").columns == []
    for name in ("../outside", ".", "x/y", "memory://x"):
        with pytest.raises(InvalidInputError, match="cannot be the name of a table"):
            sql(spark, f"CREATE TABLE `{name}` USING lance_df AS SELECT 1 AS x")
    first = f"CREATE TABLE made USING lance_df LOCATION '{elsewhere}/a' AS SELECT 1 AS x"
    sql(spark, first)
    again = first.replace("/a'", "/b'")
    sql(spark, again.replace("made", "IF NOT EXISTS made"))
    with pytest.raises(AlreadyExistsError, match="the catalog has a table of this name"):
        sql(spark, again)
    with pytest.raises(NotFoundError, match="there is no database `nowhere`"):
        sql(spark, again.replace("made", "nowhere.made"))
    assert [each.name for each in elsewhere.iterdir()] == ["a"]
    assert sorted(each.name for each in root.iterdir()) == ["parted", "plain.lance"]
    for statement in ("DROP TABLE plain", "drop view if exists `Plain`;"):
        with pytest.raises(UnsupportedFeatureError, match="would come back"):
            sql(spark, statement)
    sql(spark, "DROP TABLE made")


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE c USING lance_df COMMENT 'x' AS SELECT 1 AS x", "PARTITIONED BY"),
        ("CREATE TABLE c USING lance_df TBLPROPERTIES ('a' = 'b') AS SELECT 1 AS x", "PARTITIONED BY"),
        ("INSERT INTO plain BY NAME SELECT 1L AS k, 'a' AS s", "BY NAME"),
        ("INSERT INTO parted PARTITION (s = 'a') SELECT 1L", "PARTITION"),
        ("INSERT INTO parted REPLACE WHERE s = 'a' SELECT 1L, 'a'", "REPLACE WHERE"),
        ("WITH c AS (SELECT 1L, 'a') INSERT INTO plain SELECT * FROM c", "INSERT INTO or OVERWRITE name"),
        ("FROM parted INSERT INTO plain SELECT k, s", "INSERT INTO or OVERWRITE name"),
    ],
)
def test_other_forms_are_refused(spark, root, statement, message):
    with pytest.raises(UnsupportedFeatureError, match=message):
        lance_df.spark.sql(spark, statement)
    assert lance_df.dataset(root / "plain.lance").version == 1


def test_versions_in_what_keeps_its_text(spark, root):
    sql = lance_df.spark.sql
    for statement in ("CREATE TEMP VIEW old AS ", "CACHE TABLE old AS "):
        with pytest.raises(UnsupportedFeatureError, match="createOrReplaceTempView"):
            sql(spark, f"{statement}SELECT * FROM plain VERSION AS OF 1")
    spark.sql(f"CREATE TABLE listed USING lance_df LOCATION '{root / 'plain.lance'}'")
    assert sql(spark, "SELECT count(*) FROM listed VERSION AS OF 1").collect() == [(10,)]
    with pytest.raises(UnsupportedFeatureError, match="current database: USE the one of 'listed'"):
        sql(spark, "SELECT count(*) FROM default.listed VERSION AS OF 1")
    sql(spark, "SELECT * FROM plain VERSION AS OF 1").createOrReplaceTempView("old")
    assert sql(spark, "SELECT count(*) FROM old").collect() == [(10,)]


@pytest.mark.parametrize("zone", ["GMT+2", "UTC+2", "+2:00", "+02:00", "PST", "America/Los_Angeles"])
def test_times_in_any_zone_of_spark(spark, root, zone):
    dataset = lance_df.dataset(root / "plain.lance")
    made = dataset.versions()[-1]["timestamp"].astimezone(dt.UTC)
    hours = -8 if zone in ("PST", "America/Los_Angeles") else 2
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        after = (made + dt.timedelta(hours=hours, minutes=1)).replace(tzinfo=None)
        query = "SELECT count(*) FROM plain TIMESTAMP AS OF '{}'"
        if 60 < made.timetuple().tm_yday < 300:  # summer
            after += dt.timedelta(hours=1 if hours < 0 else 0)
        assert lance_df.spark.sql(spark, query.format(after.isoformat(sep=" "))).collect() == [(10,)]
        before = after - dt.timedelta(minutes=3)
        with pytest.raises(NotFoundError):
            lance_df.spark.sql(spark, query.format(before.isoformat(sep=" ")))
    finally:
        spark.conf.unset("spark.sql.session.timeZone")


def test_what_is_no_frame(spark, root):
    path = str(root / "plain.lance")
    for call in (
        lambda: lance_df.spark.write(None, path),
        lambda: lance_df.spark.write(spark.range(1), path, mode=None),
        lambda: lance_df.spark.write(spark.range(9).select(), str(root / "nothing")),
        lambda: lance_df.spark.merge(spark, path, None, "k"),
        lambda: lance_df.spark.merge(spark, path, ROWS.to_pandas(), "k"),
        lambda: lance_df.spark.prune(None),
    ):
        with pytest.raises(InvalidInputError):
            call()
    assert not (root / "nothing").exists()


def test_pruning_keeps_what_may_be_null(spark, root):
    not_null = pa.schema([pa.field("k", pa.int64(), nullable=False), ("s", pa.string())])
    lance_df.write_dataset(ROWS.cast(not_null), root / "strict.lance")
    given = spark.read.format("lance_df").schema("k BIGINT, s STRING").load(str(root / "strict.lance"))
    for rows in (given.where("k = 2"), given.select("k").where("s = 'a'")):
        pruned = lance_df.spark.prune(rows)
        assert pruned.schema == rows.schema
        assert sorted(pruned.collect()) == sorted(rows.collect())


def test_create_table_as(spark, root):
    sql = lance_df.spark.sql
    sql(spark, "CREATE TABLE made USING lance_df PARTITIONED BY (s) AS SELECT * FROM plain WHERE k > 3")
    assert lance_df.PartitionedNamespace.open(root / "made").count_rows() == 6
    assert sql(spark, "SELECT min(k) FROM made").collect() == [(4,)]
    sql(
        spark, f"CREATE TABLE far USING lance_df LOCATION '{root / 'x' / 'far.lance'}' AS SELECT k FROM plain"
    )
    assert spark.sql("SELECT count(*) FROM far").collect() == [(10,)]
    sql(spark, "CREATE TABLE IF NOT EXISTS made USING lance_df AS SELECT * FROM plain")
    assert lance_df.PartitionedNamespace.open(root / "made").count_rows() == 6
    with pytest.raises(AlreadyExistsError, match="made"):
        sql(spark, "CREATE TABLE made USING lance_df AS SELECT * FROM plain")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("CREATE TABLE t (k BIGINT) USING lance_df", "cannot be read"),
        ("CREATE TABLE t (k BIGINT) USING lance_df LOCATION '/tmp/none'", "cannot be read"),
        ("CREATE OR REPLACE TABLE t USING lance_df AS SELECT 1 AS k", "mode='overwrite'"),
        ("ALTER TABLE listed ADD COLUMN x INT", "add_columns"),
        ("ALTER TABLE listed DROP COLUMN s", "drop_columns"),
    ],
)
def test_what_spark_accepts_and_breaks_is_refused(spark, root, statement, words):
    spark.sql(f"CREATE TABLE listed USING lance_df LOCATION '{root / 'plain.lance'}'")
    with pytest.raises(UnsupportedFeatureError, match=words):
        lance_df.spark.sql(spark, statement)


@pytest.mark.parametrize("clause", ["", "PARTITIONED BY (k)"])
def test_columns_of_new_tables_may_be_null(spark, root, clause):
    sql = lance_df.spark.sql
    sql(spark, f"CREATE TABLE made USING lance_df {clause} AS SELECT id AS k, 'new' AS s FROM range(2)")
    sql(spark, "INSERT INTO made VALUES (3, NULL), (NULL, 'old')")
    query = "SELECT * FROM made ORDER BY k, s"
    assert sql(spark, query).collect() == [(None, "old"), (0, "new"), (1, "new"), (3, None)]
    spark.sql("SELECT 1 AS k").write.format("lance_df").mode("append").save(str(root / "written"))
    assert lance_df.dataset(root / "written").schema.field("k").nullable


def test_whole_numbers_are_stored_as_decimals_if_they_fit(spark, root):
    sql = lance_df.spark.sql
    sql(spark, "CREATE TABLE prices USING lance_df AS SELECT CAST(1 AS DECIMAL(10,2)) AS price")
    sql(spark, "INSERT INTO prices VALUES (5)")
    with pytest.raises(InvalidInputError, match="'price'"):
        sql(spark, "INSERT INTO prices VALUES (100000000)")
    query = "SELECT * FROM prices ORDER BY price"
    assert sql(spark, query).collect() == [(Decimal("1.00"),), (Decimal("5.00"),)]


def test_all_save_modes(spark, tmp_path):
    df, path = spark.range(10), tmp_path / "t.lance"
    lance_df.spark.write(df, path)
    with pytest.raises(AlreadyExistsError, match="there is one"):
        lance_df.spark.write(df, path)
    lance_df.spark.write(df, path, mode="ignore")
    lance_df.spark.write(df, path, mode="append", run_id="a")
    lance_df.spark.write(df, path, mode="append", run_id="a")
    assert lance_df.dataset(path).count_rows() == 20
    lance_df.spark.write(df.limit(3), path, mode="overwrite")
    assert lance_df.dataset(path).count_rows() == 3
    with pytest.raises(AlreadyExistsError, match="there is a table"):
        lance_df.spark.write(df, path, mode="append", partition_by=["bucket(id, 2)"])
    lance_df.spark.write(df, tmp_path / "ns", mode="ignore", partition_by=["bucket(id, 2)"])
    lance_df.spark.write(df, tmp_path / "ns", mode="append")
    assert lance_df.PartitionedNamespace.open(tmp_path / "ns").count_rows() == 20
    with pytest.raises(InvalidInputError, match="not 'merge'"):
        lance_df.spark.write(df, path, mode="merge")


def test_what_spark_does_not_pass_to_python_has_a_clear_message(spark, tmp_path):
    df, path = spark.range(3), str(tmp_path / "t.lance")
    for mode in ("ignore", "errorifexists"):
        with pytest.raises(UnsupportedFeatureError, match=r"lance_df\.spark\.write"), typed_errors():
            df.write.format("lance_df").mode(mode).save(path)
    lance_df.write_dataset(pa.table({"id": [1]}), path)
    with pytest.raises(UnsupportedFeatureError, match="partition_by="), typed_errors():
        df.write.format("lance_df").partitionBy("id").mode("append").save(path)
    assert lance_df.dataset(path).count_rows() == 1


def test_the_session_says_what_overwrite_replaces(spark, root):
    only_a = spark.sql("SELECT 1L AS k, 'a' AS s")
    setting = "spark.sql.sources.partitionOverwriteMode"
    spark.conf.set(setting, "dynamic")
    try:
        lance_df.spark.register(spark)
        only_a.write.format("lance_df").mode("overwrite").save(str(root / "parted"))
        parted = lance_df.PartitionedNamespace.open(root / "parted")
        assert sorted(parted.to_table()["s"].to_pylist()) == ["a", *["b"] * 5]
        lance_df.spark.write(only_a, root / "parted", mode="overwrite")
        assert lance_df.PartitionedNamespace.open(root / "parted").count_rows() == 6
        only_a.write.format("lance_df").option("partitionOverwriteMode", "static").mode("overwrite").save(
            str(root / "parted")
        )
        assert lance_df.PartitionedNamespace.open(root / "parted").count_rows() == 1
    finally:
        spark.conf.unset(setting)
        lance_df.spark.register(spark)


def test_errors_of_spark_are_typed(spark, root):
    with pytest.raises(NotFoundError):
        lance_df.spark.sql(spark, "SELECT * FROM missing_table")
    with pytest.raises(PySparkException):
        spark.sql("SELECT * FROM missing_table")
