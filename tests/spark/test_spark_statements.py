"""`lance_df.spark.sql`, folders as views, and all save modes."""

from __future__ import annotations

import datetime as dt
import shutil
import time
from decimal import Decimal
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import lance_df
from lance_df.errors import (
    AlreadyExistsError,
    ColumnNotFoundError,
    CorruptDataError,
    InvalidInputError,
    LanceError,
    NotFoundError,
    UnsupportedFeatureError,
)
from lance_df.spark.failures import typed_errors
from lance_df.spark.folders import Folder

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
            spark.catalog.dropTempView(table.name)
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


def test_views_over_a_table_and_names_in_variables_show_its_newest_version(spark, root):
    sql = lance_df.spark.sql

    def count(query: str) -> int:
        return sql(spark, f"SELECT count(*) FROM {query}").first()[0]

    sql(spark, "CREATE TEMPORARY VIEW small AS SELECT * FROM plain WHERE k < 100")
    sql(spark, "CREATE TEMPORARY VIEW smaller AS SELECT k FROM small")
    sql(spark, "CREATE TEMPORARY VIEW members AS SELECT * FROM `parted$partitions`")
    sql(spark, "CREATE TEMPORARY FUNCTION ks() RETURNS TABLE(k BIGINT) RETURN SELECT k FROM plain")
    sql(spark, "CREATE TEMPORARY FUNCTION num() RETURNS BIGINT RETURN (SELECT count(*) FROM plain)")
    sql(spark, "DECLARE VARIABLE name STRING DEFAULT 'plain'")
    sql(spark, "SELECT * FROM plain").createOrReplaceTempView("fixed")
    sql(spark, "SELECT * FROM plain VERSION AS OF 1").createOrReplaceTempView("first")
    try:
        sql(spark, "INSERT INTO plain SELECT k + 10 AS k, s FROM small")
        # after the statement itself, also for names that only Spark knows
        assert sql(spark, "EXECUTE IMMEDIATE 'SELECT count(*) FROM small'").collect() == [(20,)]
        for number, view in enumerate(("smaller", "identifier(name)", "ks()", "(SELECT num())", "small"), 3):
            lance_df.write_dataset(ROWS, root / "plain.lance", mode="append")
            rows = sql(spark, f"SELECT * FROM {view}")
            assert (rows.first()[0] if "num" in view else rows.count()) == 10 * number, view
        for number, statement in enumerate(
            (
                "CREATE TABLE copied USING lance_df AS SELECT * FROM small",
                "INSERT OVERWRITE copied SELECT * FROM small",
                "CACHE TABLE held AS SELECT * FROM small",
            ),
            8,
        ):
            lance_df.write_dataset(ROWS, root / "plain.lance", mode="append")
            sql(spark, statement)
            assert count("held" if "held" in statement else "copied") == 10 * number, statement
        assert (count("fixed"), count("first")) == (10, 10)
        lance_df.PartitionedNamespace.open(root / "parted").append(pa.table({"k": [1], "s": ["c"]}))
        assert count("members") == 3
        lance_df.dataset(root / "plain.lance").add_columns({"twice": "k * 2"})
        assert sql(spark, "SELECT max(twice) FROM identifier(name)").collect() == [(38,)]
        lance_df.write_dataset(ROWS, root / "later.lance")
        sql(spark, "SET VARIABLE name = 'later'")
        assert count("identifier(name)") == 10
        for manifest in (root / "later.lance" / "_versions").iterdir():
            manifest.write_bytes(b"ab")
        with pytest.raises(CorruptDataError, match="table 'later' of "):
            count("identifier(name)")
    finally:
        spark.catalog.clearCache()
        for function in ("ks", "num"):
            spark.sql(f"DROP TEMPORARY FUNCTION {function}")
        spark.sql("DROP TEMPORARY VARIABLE name")


def test_a_statement_opens_only_the_tables_that_it_reads(spark, root, monkeypatch):
    for number in range(3):
        lance_df.write_dataset(ROWS, root / f"other{number}.lance")
    lance_df.spark.register(spark, root)
    lance_df.spark.sql(spark, "CREATE TEMPORARY VIEW small AS SELECT * FROM plain")
    names, show = [], Folder.show

    def noted(self, spark, name, **rest):
        names.append(name)
        show(self, spark, name, **rest)

    monkeypatch.setattr(Folder, "show", noted)
    for query in ("SELECT * FROM small", "SELECT * FROM plain", "SELECT 1"):
        lance_df.spark.sql(spark, query)
    assert names == ["plain", "plain"]


def test_a_view_of_the_user_stays(spark, root):
    sql = lance_df.spark.sql
    assert sql(spark, "SELECT count(*) FROM plain").collect() == [(10,)]
    spark.range(50).createOrReplaceTempView("plain")
    assert sql(spark, "SELECT count(*) FROM plain").collect() == [(50,)]
    lance_df.dataset(root / "plain.lance").delete("k = 0")
    assert sql(spark, "SELECT count(*) FROM plain").collect() == [(50,)]
    spark.catalog.dropTempView("plain")
    assert sql(spark, "SELECT count(*) FROM plain").collect() == [(9,)]


def test_queries_over_a_table_are_no_table_of_its_name(spark, root):
    sql = lance_df.spark.sql
    for query, count in (("SELECT k, s FROM plain WHERE s = 'a'", 5), ("SELECT max(k) AS k FROM plain", 1)):
        sql(spark, query).createOrReplaceTempView("plain")
        lance_df.spark.write(spark.range(1).toDF("k"), root / "plain.lance", mode="append")
        assert sql(spark, "SELECT count(*) FROM plain").collect() == [(count,)]
        lance_df.spark.register(spark, root)
    assert sql(spark, "SELECT count(*) FROM plain").collect() == [(12,)]


def test_views_and_tables_of_the_user_stay_when_a_table_of_their_name_comes(spark, root):
    sql = lance_df.spark.sql
    spark.range(3).createOrReplaceTempView("staging")
    spark.sql("CREATE TABLE orders USING parquet AS SELECT 42 AS a")
    for name in ("staging", "orders"):
        lance_df.write_dataset(ROWS, root / f"{name}.lance")
    assert sql(spark, "SELECT count(*) FROM staging").collect() == [(3,)]
    assert sql(spark, "SELECT * FROM orders").collect() == [(42,)]
    with pytest.raises(AlreadyExistsError, match="a table of this name already exists"):
        sql(spark, "CREATE TABLE orders USING lance_df AS SELECT 1 AS x")
    assert sql(spark, "CREATE TABLE IF NOT EXISTS orders USING lance_df AS SELECT 1 AS x").columns == []
    assert sql(spark, "CREATE TABLE IF NOT EXISTS staging USING lance_df AS SELECT 1 AS x").columns == []
    assert sql(spark, "SELECT count(*) FROM staging").collect() == [(3,)]
    # neither removes the table of the folder
    sql(spark, "DROP VIEW staging")
    sql(spark, "DROP TABLE orders")
    for name in ("staging", "orders"):
        assert sql(spark, f"SELECT count(*) FROM {name}").collect() == [(10,)]
    # what the user has made instead of the view of a table stays when the table goes
    spark.range(2).createOrReplaceTempView("staging")
    for name in ("staging", "orders"):
        shutil.rmtree(root / f"{name}.lance")
    assert sql(spark, "SELECT count(*) FROM staging").collect() == [(2,)]
    with pytest.raises(LanceError, match="orders"):
        sql(spark, "SELECT * FROM orders")


def test_tables_of_the_user_are_not_hidden_whichever_database_is_current(spark, root):
    sql = lance_df.spark.sql
    spark.sql("CREATE TABLE orders (q BIGINT) USING parquet")
    lance_df.write_dataset(ROWS, root / "orders.lance")
    lance_df.write_dataset(ROWS, root / "free.lance")
    spark.sql("CREATE DATABASE other")
    try:
        sql(spark, "USE other")
        assert sql(spark, "SELECT count(*) FROM free").collect() == [(10,)]
        with pytest.raises(LanceError, match="orders"):
            sql(spark, "SELECT count(*) FROM orders")
        assert sql(spark, "SELECT count(*) FROM default.orders").collect() == [(0,)]
        spark.sql("USE default")
        assert spark.table("orders").columns == ["q"]
        sql(spark, "INSERT INTO orders VALUES (99)")
        assert spark.table("default.orders").collect() == [(99,)]
    finally:
        spark.sql("USE default")
        spark.sql("DROP DATABASE other")
    assert lance_df.dataset(root / "orders.lance").count_rows() == 10
    lance_df.spark.register(spark, root)
    assert sql(spark, "SELECT count(*) FROM orders").collect() == [(10,)]
    spark.catalog.dropTempView("orders")


def test_a_table_that_cannot_be_read_leaves_the_others(spark, root, caplog):
    sql = lance_df.spark.sql
    lance_df.write_dataset(ROWS, root / "later.lance")
    lance_df.spark.register(spark, root)
    wide = pa.table({"big": pa.array([Decimal("1.5")], pa.decimal256(50, 2))})
    lance_df.write_dataset(wide, root / "wide.lance")
    (root / "damaged.lance" / "_versions").mkdir(parents=True)
    (root / "damaged.lance" / "_versions" / "1.manifest").write_bytes(b"ab")
    for manifest in (root / "later.lance" / "_versions").iterdir():
        manifest.write_bytes(b"ab")
    for query in ("SELECT 'wide damaged later' FROM plain", "SELECT k AS wide FROM plain -- later"):
        assert len(sql(spark, query).collect()) == 10
    for number in range(2):
        for name, error, words in (
            ("wide", UnsupportedFeatureError, "'big': decimal256.* is not supported by Spark"),
            ("damaged", CorruptDataError, "2 bytes"),
            ("LATER", CorruptDataError, "2 bytes"),  # and no rows of the version that was shown
        ):
            for statement in ("SELECT * FROM {}", "SELECT * FROM plain JOIN {}", "INSERT INTO {} VALUES (1)"):
                with pytest.raises(error, match=f"table '{name.lower()}' of .*{words}"):
                    sql(spark, statement.format(name))
        if number == 0:
            lance_df.spark.register(spark, root)
    for name in ("wide", "damaged", "later"):
        assert f"cannot create a view: table '{name}'" in caplog.text
    spark.range(3).createOrReplaceTempView("damaged")
    assert sql(spark, "SELECT count(*) FROM damaged").collect() == [(3,)]
    shutil.rmtree(root / "later.lance")
    lance_df.write_dataset(ROWS, root / "later.lance")
    assert sql(spark, "SELECT count(*) FROM later").collect() == [(10,)]


def test_tables_of_the_folder_that_was_registered_last_come_first(spark, root, tmp_path_factory):
    sql, other = lance_df.spark.sql, tmp_path_factory.mktemp("other")
    lance_df.spark.register(spark, other)
    lance_df.write_dataset(ROWS.slice(0, 3), other / "plain.lance")
    assert sql(spark, "SELECT count(*) FROM plain").collect() == [(3,)]
    shutil.rmtree(other / "plain.lance")
    with pytest.raises(LanceError, match="plain"):
        sql(spark, "SELECT * FROM plain")  # which drops the view
    assert sql(spark, "SELECT count(*) FROM plain").collect() == [(10,)]


def test_a_table_that_was_created_again_is_shown(spark, root):
    sql = lance_df.spark.sql
    assert sql(spark, "SELECT * FROM plain WHERE k = 1").collect() == [(1, "b")]
    shutil.rmtree(root / "plain.lance")
    lance_df.write_dataset(pa.table({"x": ["new"], "y": [Decimal("1.5")]}), root / "plain.lance")
    rows = sql(spark, "SELECT * FROM plain")
    assert (rows.columns, rows.collect()) == (["x", "y"], [("new", Decimal("1.5"))])
    assert sql(spark, "SELECT y FROM plain VERSION AS OF 1").collect() == [(Decimal("1.5"),)]
    sql(spark, "INSERT INTO plain VALUES ('x', DEFAULT)")
    assert sql(spark, "SELECT * FROM plain ORDER BY x").collect() == [("new", Decimal("1.5")), ("x", None)]


def test_views_are_refreshed_after_names_have_changed_their_case(spark, root):
    sql = lance_df.spark.sql
    lance_df.write_dataset(ROWS, root / "MyTab.lance")
    lance_df.spark.register(spark, root)
    try:
        for number, setting in enumerate(("true", "false", "true"), 2):
            spark.conf.set("spark.sql.caseSensitive", setting)
            if number == 2:
                lance_df.spark.register(spark, root)
            lance_df.write_dataset(ROWS, root / "MyTab.lance", mode="append")
            assert sql(spark, "SELECT count(*) FROM MyTab").collect() == [(10 * number,)]
            assert sql(spark, "SELECT count(*) FROM MyTab VERSION AS OF 1").collect() == [(10,)]
        spark.catalog.dropTempView("MyTab")
    finally:
        spark.conf.set("spark.sql.caseSensitive", "false")


def test_names_that_differ_in_case_are_told(spark, root, caplog):
    lance_df.write_dataset(ROWS, root / "PLAIN.lance")
    lance_df.spark.register(spark, root)
    assert "are the same for Spark" in caplog.text
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
    for name in ("`parted$partitions`", "parted$partitions", "PARTED$Partitions"):
        members = sql(spark, f"SELECT s, rows FROM {name} AS `t$files` ORDER BY s").collect()
        assert members == [("a", 5), ("b", 5)]
    with pytest.raises(NotFoundError, match="'nothing' is not a table of lance_df"):
        sql(spark, "SELECT * FROM nothing VERSION AS OF 3")
    with pytest.raises(NotFoundError):
        sql(spark, "SELECT * FROM plain TIMESTAMP AS OF '2024-01-01'")
    with pytest.raises(InvalidInputError, match="a time such as"):
        sql(spark, "SELECT * FROM plain TIMESTAMP AS OF 'yesterday'")


def test_names_that_look_like_tables_about_namespaces(spark, root):
    sql = lance_df.spark.sql
    (row,) = sql(spark, "SELECT k AS `plain$x`, s AS `my$files` FROM plain WHERE k = 3").collect()
    assert row.asDict() == {"plain$x": 3, "my$files": row["my$files"]}
    assert sql(spark, "SELECT count(*) FROM `PARTED$Partitions`").collect() == [(2,)]
    spark.range(3).createOrReplaceTempView("`parted$files`")
    try:
        assert sql(spark, "SELECT * FROM `parted$files`").columns == ["id"]
    finally:
        spark.catalog.dropTempView("parted$files")
    assert "path" in sql(spark, "SELECT * FROM `parted$files`").columns


def test_tables_about_namespaces_are_of_the_version_of_a_view(spark, root):
    path = root / "parted"
    version = lance_df.PartitionedNamespace.open(path).version
    spark.read.format("lance_df").option("version", version).load(str(path)).createOrReplaceTempView("pinned")
    lance_df.spark.sql(spark, "INSERT INTO parted SELECT 77 AS k, 'new' AS s")
    counts = [
        lance_df.spark.sql(spark, f"SELECT count(*) FROM `{name}$partitions`").collect()[0][0]
        for name in ("pinned", "parted")
    ]
    assert counts == [2, 3]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM plain WHERE s = 'a'",
        "SELECT s, k FROM plain",
        "SELECT k AS key, s FROM plain",
        "SELECT k, upper(s) AS s FROM plain",
        "SELECT CAST(k AS INT) AS k, s FROM plain",
        "SELECT max(k) AS k, max(s) AS s FROM plain",
        "SELECT DISTINCT k, s FROM plain",
        "SELECT * FROM plain LIMIT 3",
        "SELECT p.k, q.s FROM plain p JOIN side q USING (k)",
        "SELECT * FROM side WHERE k IN (SELECT k FROM plain)",
    ],
)
def test_views_with_a_query_are_no_tables(spark, root, query):
    sql = lance_df.spark.sql
    spark.createDataFrame(ROWS).createOrReplaceTempView("side")
    spark.sql(f"CREATE TEMP VIEW v AS {query}")
    spark.table("plain").sparkSession.sql(query).createOrReplaceTempView("w")
    for name in ("v", "w"):
        for statement in (
            "SELECT count(*) FROM {} VERSION AS OF 1",
            "SELECT count(*) FROM {} TIMESTAMP AS OF '2100-01-01'",
            "INSERT INTO {} VALUES (1L, 'x')",
            "INSERT OVERWRITE {} VALUES (1L, 'x')",
            "INSERT INTO {} BY NAME SELECT 1L AS k, 'x' AS s",
            "SELECT * FROM `{}$files`",
        ):
            with pytest.raises(UnsupportedFeatureError, match=f"{name} is a view with a filter"):
                sql(spark, statement.format(name))
    assert lance_df.dataset(root / "plain.lance").version == 1


def test_views_of_all_of_a_table_are_tables(spark, root):
    sql, path = lance_df.spark.sql, root / "digits.lance"
    rows = pa.table({"k": pa.array([1, 2], pa.int64()), "d": [Decimal("1.50"), None]})
    lance_df.write_dataset(rows, path)
    lance_df.write_dataset(rows, path, mode="append")
    lance_df.spark.read(spark, path).createOrReplaceTempView("read")
    spark.read.format("lance_df").load(str(path)).createOrReplaceTempView("loaded")
    spark.sql(f"CREATE TEMP VIEW used USING lance_df OPTIONS (path '{path}')")
    spark.sql("CREATE TEMP VIEW everything AS SELECT * FROM read")
    spark.table("read").alias("a").createOrReplaceTempView("aliased")
    spark.sql(f"CREATE TABLE listed USING lance_df LOCATION '{path}'")
    for number, name in enumerate(("digits", "read", "loaded", "used", "everything", "aliased", "listed"), 1):
        old = sql(spark, f"SELECT * FROM {name} VERSION AS OF 1 ORDER BY k")
        assert (old.columns, old.collect()) == (["k", "d"], [(1, Decimal("1.50")), (2, None)]), name
        sql(spark, f"INSERT INTO {name} VALUES ({number}, 2.5)")
        assert lance_df.dataset(path).count_rows() == 4 + number, name


def test_options_of_views_hold_for_other_versions(spark, root):
    sql, path = lance_df.spark.sql, root / "plain.lance"
    dataset = lance_df.dataset(path)
    dataset.tags.create("golden", 1)
    dev = dataset.create_branch("dev")
    lance_df.write_dataset(ROWS.slice(0, 3), dev, mode="append")
    lance_df.write_dataset(ROWS, path, mode="append")
    for name, options in (("chosen", "filter 'k % 2 = 0 and k < 4', columns 's'"), ("dev", "branch 'dev'")):
        spark.sql(f"CREATE TEMP VIEW {name} USING lance_df OPTIONS (path '{path}', {options})")
    for version in ("VERSION AS OF 1", "VERSION AS OF 'golden'"):
        chosen = sql(spark, f"SELECT * FROM chosen {version}")
        assert (chosen.columns, chosen.collect()) == (["s"], [("a",), ("a",)])
    assert sql(spark, "SELECT count(*) FROM chosen VERSION AS OF 2").collect() == [(4,)]
    assert sql(spark, "SELECT count(*) FROM chosen TIMESTAMP AS OF '2100-01-01'").collect() == [(4,)]
    assert sql(spark, "SELECT count(*) FROM dev TIMESTAMP AS OF '2100-01-01'").collect() == [(13,)]
    newest = lance_df.spark.read(spark, path, branch="dev")
    number = lance_df.dataset(path, version=("dev", None)).version
    assert sql(spark, f"SELECT count(*) FROM dev VERSION AS OF {number}").collect() == [(newest.count(),)]
    assert sql(spark, "SELECT count(*) FROM dev VERSION AS OF 'golden'").collect() == [(10,)]


@pytest.mark.parametrize("option", ["branch 'dev'", "version '1'", "tag 'golden'"])
def test_what_stays_at_a_version_takes_no_rows(spark, root, option):
    dataset = lance_df.dataset(root / "plain.lance")
    dataset.tags.create("golden", 1)
    dataset.create_branch("dev")
    before = dataset.version
    for kind, name in (("TEMP VIEW", "v"), ("TABLE", "c")):
        spark.sql(f"CREATE {kind} {name} USING lance_df OPTIONS (path '{root / 'plain.lance'}', {option})")
        for words in ("INTO", "OVERWRITE"):
            with pytest.raises(InvalidInputError, match=f"{name} has the option .*{option.split()[0]}"):
                lance_df.spark.sql(spark, f"INSERT {words} {name} VALUES (1L, 'x')")
    assert lance_df.dataset(root / "plain.lance").version == before


def test_escapes_and_names_that_begin_with_a_digit(spark, root):
    sql = lance_df.spark.sql
    lance_df.write_dataset(ROWS, root / "2024_sales.lance")
    lance_df.spark.register(spark, root)
    for query in (
        r"SELECT count(*) FROM plain WHERE s <> 'it\'s'",
        r'SELECT count(*) FROM plain WHERE s <> "a\"b"',
        "SELECT count(*) FROM 2024_sales",
        "EXECUTE IMMEDIATE 'SELECT count(*) FROM plain'",
    ):
        name = "2024_sales" if "2024" in query else "plain"
        lance_df.write_dataset(ROWS, root / f"{name}.lance", mode="append")
        count = lance_df.dataset(root / f"{name}.lance").count_rows()
        assert sql(spark, query).collect() == [(count,)], query
    sql(spark, r"INSERT INTO 2024_sales VALUES (102, 'it\'s'), (103, DEFAULT)")
    query = "SELECT k, s FROM 2024_sales WHERE k > 100 ORDER BY k"
    assert sql(spark, query).collect() == [(102, "it's"), (103, None)]
    assert sql(spark, "SELECT 2024_sales.k FROM 2024_sales VERSION AS OF 1").count() == 10
    location = f"{root}/it\\'s"
    sql(spark, f"CREATE TABLE far USING lance_df LOCATION '{location}' AS SELECT 1 AS x")
    assert sql(spark, "SELECT * FROM far").collect() == [(1,)]
    assert (root / "it's").exists()


def test_what_may_follow_a_version(spark, root):
    lance_df.dataset(root / "plain.lance").delete("k > 3")
    sql = lance_df.spark.sql
    minus = "SELECT plain.k FROM plain VERSION AS OF 1 MINUS SELECT plain.k FROM plain VERSION AS OF 2"
    assert sorted(sql(spark, minus).collect()) == [(number,) for number in range(4, 10)]
    for behind in (
        *("TABLESAMPLE (100 PERCENT)", "TABLESAMPLE (10 ROWS) p", "SORT BY k", "|> WHERE k >= 0"),
        *("SELECT plain.k", "|> SELECT plain.k"),
    ):
        query = f"FROM plain VERSION AS OF 1 {behind}"
        assert sql(spark, query).count() == 10, behind
    sample = "SELECT plain.k FROM plain VERSION AS OF 1 TABLESAMPLE (100 PERCENT) WHERE plain.k = 5"
    assert sql(spark, sample).collect() == [(5,)]
    pivot = "SELECT * FROM plain VERSION AS OF 1 PIVOT (count(k) FOR s IN ('a' AS x))"
    assert sql(spark, pivot).collect() == [(5,)]


def test_words_of_sql_as_columns(spark, root):
    lance_df.write_dataset(pa.table({"map": [1], "values": [2]}), root / "words.lance")
    lance_df.spark.sql(spark, "INSERT INTO words (values, map) VALUES (20, 10)")
    lance_df.spark.sql(spark, "INSERT INTO words (map, values) SELECT 11, 21")
    rows = lance_df.spark.sql(spark, "SELECT map, values FROM words ORDER BY map")
    assert rows.collect() == [(1, 2), (10, 20), (11, 21)]


def test_partitions_by_columns_in_quotes_and_other_case(spark, root):
    sql = lance_df.spark.sql
    rows = "SELECT 1 AS a, 2 AS `my g`"
    for number, (field, name) in enumerate(
        (("`my g`", "my_g"), ("A", "a"), ("bucket(4, `A`)", "a_bucket"), ("`MY G`", "my_g"))
    ):
        sql(spark, f"CREATE TABLE p{number} USING lance_df PARTITIONED BY ({field}) AS {rows}")
        assert sql(spark, f"SELECT * FROM p{number}").collect() == [(1, 2)]
        columns = lance_df.PartitionedNamespace.open(root / f"p{number}").partitions().column_names
        assert any(each.endswith(name) for each in columns), columns
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(ColumnNotFoundError, match="column 'A' does not exist"):
            sql(spark, f"CREATE TABLE q USING lance_df PARTITIONED BY (A) AS {rows}")
    finally:
        spark.conf.set("spark.sql.caseSensitive", "false")


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
    with pytest.raises(InvalidInputError, match="the query has 1 columns, but plain has 2: k, s"):
        sql(spark, "INSERT INTO plain SELECT 1")
    spark.sql(f"CREATE TABLE listed USING lance_df LOCATION '{root / 'plain.lance'}'")
    sql(spark, "INSERT INTO listed VALUES (6, 'y')")
    assert lance_df.dataset(root / "plain.lance").count_rows() == 2


def test_inserted_columns_have_the_order_that_is_shown(spark, root):
    """A catalog keeps the columns of a table as they were when it was created there."""
    path = root / "kept.lance"
    lance_df.write_dataset(pa.table({"a": [1], "b": [10]}), path)
    spark.sql(f"CREATE TABLE listed USING lance_df LOCATION '{path}'")
    lance_df.dataset(path).drop_columns(["a"])
    lance_df.dataset(path).add_columns({"a": "b / 10"})
    try:
        lance_df.spark.sql(spark, "INSERT INTO listed VALUES (7, 70)")
        assert spark.table("listed").columns == ["a", "b"]
        assert sorted(map(tuple, spark.table("listed").collect())) == [(1, 10), (7, 70)]
        lance_df.spark.sql(spark, "INSERT OVERWRITE listed SELECT * FROM listed WHERE a = 7")
        assert lance_df.dataset(path).to_table().to_pylist() == [{"b": 70, "a": 7}]
    finally:
        spark.sql("DROP TABLE listed")


def test_a_schema_of_a_catalog_says_nothing_of_another_path(spark, root):
    for name, number in (("x", 1), ("y", 2)):
        lance_df.write_dataset(pa.table({"a": [number, 5]}), root / f"{name}.lance")
    spark.sql(f"CREATE TABLE listed USING lance_df OPTIONS (path '{root / 'x.lance'}', filter 'a = 1')")
    try:
        schema = spark.table("listed").schema
        rows = spark.read.format("lance_df").schema(schema).load(str(root / "y.lance"))
        assert sorted(map(tuple, rows.collect())) == [(2,), (5,)]
        assert sorted(map(tuple, lance_df.spark.prune(rows).collect())) == [(2,), (5,)]
        assert [tuple(row) for row in spark.table("listed").collect()] == [(1,)]
    finally:
        spark.sql("DROP TABLE listed")


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
        ("INSERT OVERWRITE kept (s, nope) VALUES ('x', 1)", "column 'nope' does not exist"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            sql(spark, statement)
    assert lance_df.dataset(root / "kept.lance").version == versions
    not_null = pa.schema([pa.field("k", pa.int64(), nullable=False), ("s", pa.string())])
    lance_df.write_dataset(ROWS.cast(not_null), root / "strict.lance")
    with pytest.raises(InvalidInputError, match="'k' is not nullable, but is missing"):
        sql(spark, "INSERT OVERWRITE strict (s) VALUES ('x')")
    assert sql(spark, "SELECT count(*) FROM strict").collect() == [(10,)]


def test_insert_overwrite_keeps_the_metadata(spark, root):
    schema = pa.schema([pa.field("a", pa.int64(), metadata={"unit": "m"})], metadata={"owner": "x"})
    lance_df.write_dataset(pa.table({"a": [1]}, schema=schema), root / "described.lance")
    lance_df.spark.sql(spark, "INSERT OVERWRITE described VALUES (2)")
    found = lance_df.dataset(root / "described.lance")
    assert found.to_table().to_pylist() == [{"a": 2}]
    assert found.schema.equals(schema, check_metadata=True)


def test_insert_is_seen_where_rows_are_cached(spark, root):
    sql = lance_df.spark.sql
    spark.sql(f"CREATE TABLE kept USING lance_df LOCATION '{root / 'plain.lance'}'")
    spark.sql("CACHE TABLE kept")
    spark.sql("CACHE TABLE some AS SELECT k FROM kept WHERE k > 8")
    assert sql(spark, "SELECT count(*) FROM kept").collect() == [(10,)]
    try:
        for number, verb in ((1, "INTO"), (2, "INTO"), (0, "OVERWRITE")):
            sql(spark, f"INSERT {verb} kept VALUES (10, 'new')")
            rows = 10 + number if number else 1
            assert sql(spark, "SELECT count(*) FROM kept").collect() == [(rows,)]
            assert sql(spark, "SELECT count(*) FROM some").collect() == [(1 + number if number else 1,)]
        assert spark.catalog.isCached("kept")
    finally:
        spark.catalog.clearCache()


def test_overwrite_schema(spark, root):
    path = str(root / "plain.lance")
    lance_df.spark.write(spark.range(3).toDF("K"), path, mode="overwrite", overwrite_schema=False)
    assert lance_df.dataset(path).schema.equals(ROWS.schema)
    assert lance_df.dataset(path).to_table()["k"].to_pylist() == [0, 1, 2]
    rows = spark.range(3).toDF("k").write.format("lance_df").option("overwriteSchema", "false")
    with (
        pytest.raises(InvalidInputError, match="'s' is missing in the data, and overwriteSchema is"),
        typed_errors(),
    ):
        rows.mode("overwrite").save(path)
    lance_df.spark.write(spark.range(3).toDF("K"), path, mode="overwrite")
    assert lance_df.dataset(path).schema.names == ["K"]


def test_names_and_places_of_new_tables(spark, root, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    sql = lance_df.spark.sql
    with pytest.raises(AlreadyExistsError, match=r"plain\.lance: already exists"):
        sql(spark, "CREATE TABLE plain USING lance_df AS SELECT 1 AS x")
    with pytest.raises(AlreadyExistsError, match="differs only in case"):
        sql(spark, "CREATE TABLE PLAIN USING lance_df AS SELECT 1 AS x")
    assert sql(spark, "CREATE TABLE IF NOT EXISTS Plain USING lance_df AS SELECT 1 AS x").columns == []
    for name in ("../outside", ".", "x/y", "memory://x"):
        with pytest.raises(InvalidInputError, match="cannot be the name of a table"):
            sql(spark, f"CREATE TABLE `{name}` USING lance_df AS SELECT 1 AS x")
    first = f"CREATE TABLE made USING lance_df LOCATION '{elsewhere}/a' AS SELECT 1 AS x"
    sql(spark, first)
    again = first.replace("/a'", "/b'")
    sql(spark, again.replace("made", "IF NOT EXISTS made"))
    with pytest.raises(AlreadyExistsError, match="a table of this name already exists"):
        sql(spark, again)
    with pytest.raises(NotFoundError, match="database `nowhere` does not exist"):
        sql(spark, again.replace("made", "nowhere.made"))
    assert [each.name for each in elsewhere.iterdir()] == ["a"]
    assert sorted(each.name for each in root.iterdir()) == ["parted", "plain.lance"]
    for statement in ("DROP TABLE plain", "drop view if exists `Plain`;", "/* x */ DROP VIEW plain"):
        with pytest.raises(UnsupportedFeatureError, match="would appear again"):
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
        ("/* x */ CREATE TABLE c USING lance_df COMMENT 'x' AS SELECT 1 AS x", "PARTITIONED BY"),
        ("-- x\nINSERT INTO plain BY NAME SELECT 1L AS k, 'a' AS s", "BY NAME"),
    ],
)
def test_other_forms_are_refused(spark, root, statement, message):
    with pytest.raises(UnsupportedFeatureError, match=message):
        lance_df.spark.sql(spark, statement)
    assert lance_df.dataset(root / "plain.lance").version == 1


def test_versions_in_what_keeps_its_text(spark, root):
    sql = lance_df.spark.sql
    for statement in (
        *("CREATE TEMP VIEW old AS ", "CACHE TABLE old AS "),
        *("/* x */ CREATE TEMP VIEW old AS ", "-- x\nCACHE TABLE old AS "),
    ):
        with pytest.raises(UnsupportedFeatureError, match="createOrReplaceTempView"):
            sql(spark, f"{statement}SELECT * FROM plain VERSION AS OF 1")
    spark.sql(f"CREATE TABLE listed USING lance_df LOCATION '{root / 'plain.lance'}'")
    assert sql(spark, "SELECT count(*) FROM listed VERSION AS OF 1").collect() == [(10,)]
    with pytest.raises(UnsupportedFeatureError, match="current database; switch to the database of 'listed'"):
        sql(spark, "SELECT count(*) FROM default.listed VERSION AS OF 1")
    sql(spark, "SELECT * FROM plain VERSION AS OF 1").createOrReplaceTempView("old")
    assert sql(spark, "SELECT count(*) FROM old").collect() == [(10,)]
    # which keeps rows, and no text
    sql(spark, "CREATE TABLE copy USING parquet AS SELECT * FROM plain VERSION AS OF 1")
    assert spark.table("copy").count() == 10


def test_versions_are_those_of_tables(spark, root):
    sql = lance_df.spark.sql
    with pytest.raises(InvalidInputError, match="'plain' is a query of WITH"):
        sql(spark, "WITH plain AS (SELECT 99 AS x) SELECT * FROM plain VERSION AS OF 1")
    with pytest.raises(InvalidInputError, match=r"not after IDENTIFIER\('plain'\)"):
        sql(spark, "SELECT * FROM IDENTIFIER('plain') VERSION AS OF 1")


def test_a_column_that_is_inserted_twice(spark, root):
    sql = lance_df.spark.sql
    for columns, message in (
        ("k, k", "'k' of plain is named twice"),
        ("k, K", "both match column 'k' of the target"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            sql(spark, f"INSERT INTO plain ({columns}) VALUES (1, 2)")
    assert lance_df.dataset(root / "plain.lance").version == 1


def test_names_in_double_quotes(spark, root):
    sql = lance_df.spark.sql
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    try:
        sql(spark, 'CREATE TABLE "made" USING lance_df PARTITIONED BY ("k") AS SELECT 1 AS k')
        sql(spark, 'INSERT INTO "made" ("k") VALUES (5)')
        assert sorted(sql(spark, 'SELECT k FROM "made$partitions"').collect()) == [(1,), (5,)]
        query = """SELECT "k", '"k"' FROM "made" VERSION AS OF 2"""
        assert sql(spark, query).collect() == [(1, '"k"')]
        spark.conf.set("spark.sql.ansi.enabled", "false")
        assert sql(spark, 'SELECT "k" FROM made LIMIT 1').collect() == [("k",)]
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
        spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")
    assert sql(spark, 'SELECT "k" FROM made LIMIT 1').collect() == [("k",)]


def test_columns_of_new_tables_differ_in_more_than_case(spark, root):
    sql = lance_df.spark.sql
    for clause in ("", "PARTITIONED BY (a)"):
        with pytest.raises(InvalidInputError, match="columns 'a' and 'A' differ only in case"):
            sql(spark, f"CREATE TABLE twice USING lance_df {clause} AS SELECT 1 AS a, 3 AS b, 2 AS A")
    with pytest.raises(InvalidInputError, match="columns 'a' and 'A' differ only in case"):
        lance_df.spark.write(spark.sql("SELECT 1 AS a, 2 AS A"), root / "plain.lance", mode="overwrite")
    assert not (root / "twice").exists()
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        twice = spark.sql("SELECT 1 AS a, 2 AS a")
        for partition_by in (None, ["identity(a)"]):
            with pytest.raises(InvalidInputError, match="duplicate column 'a'"):
                lance_df.spark.write(twice, root / "twice", partition_by=partition_by)
        lance_df.spark.write(spark.sql("SELECT 1 AS a, 2 AS A"), root / "twice")
    finally:
        spark.conf.set("spark.sql.caseSensitive", "false")
    assert lance_df.dataset(root / "twice").schema.names == ["a", "A"]


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
        ("DELETE FROM listed WHERE k = 1", r"spark\.delete\(spark, '.*plain\.lance', where=…\)"),
        ("UPDATE default.listed SET k = 1", r"spark\.update\(spark, '.*plain\.lance', {column: expression}"),
        ("MERGE INTO plain USING listed ON false WHEN MATCHED THEN DELETE", r"spark\.merge\(.*plain\.lance'"),
        ("WITH c AS (SELECT 1) DELETE FROM plain", r"spark\.delete\("),
        ("TRUNCATE TABLE listed", r"spark\.delete\(spark, '.*plain\.lance'\)"),
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


def test_new_tables_are_of_the_registered_folder_unless_a_format_is_given(spark, root):
    sql = lance_df.spark.sql
    sql(spark, "CREATE TABLE made PARTITIONED BY (s) AS SELECT * FROM plain WHERE k > 3")
    assert lance_df.PartitionedNamespace.open(root / "made").count_rows() == 6
    assert sql(spark, "CREATE TABLE IF NOT EXISTS made AS SELECT 1 AS x").columns == []
    with pytest.raises(AlreadyExistsError, match="already exists"):
        sql(spark, "CREATE TABLE made AS SELECT 1 AS x")
    with pytest.raises(UnsupportedFeatureError, match="CREATE OR REPLACE TABLE made"):
        sql(spark, "CREATE OR REPLACE TABLE made AS SELECT 1 AS x")
    sql(spark, "CREATE TABLE default.other AS SELECT * FROM plain")
    assert spark.catalog.tableExists("default.other")
    assert not (root / "other").exists()


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
    with pytest.raises(AlreadyExistsError, match="already exists"):
        lance_df.spark.write(df, path)
    lance_df.spark.write(df, path, mode="ignore")
    for partition_by in (None, ["bucket(id, 2)"]):
        for _ in range(2):
            lance_df.spark.write(df, tmp_path / "once", partition_by=partition_by, run_id="a")
        with pytest.raises(AlreadyExistsError, match="already exists"):
            lance_df.spark.write(df, tmp_path / "once", run_id="b")
        assert lance_df.spark.read(spark, tmp_path / "once").count() == 10
        shutil.rmtree(tmp_path / "once")
    lance_df.spark.write(df, path, mode="append", run_id="a")
    lance_df.spark.write(df, path, mode="append", run_id="a")
    assert lance_df.dataset(path).count_rows() == 20
    lance_df.spark.write(df.limit(3), path, mode="overwrite")
    assert lance_df.dataset(path).count_rows() == 3
    with pytest.raises(AlreadyExistsError, match="a table already exists"):
        lance_df.spark.write(df, path, mode="append", partition_by=["bucket(id, 2)"])
    lance_df.spark.write(df, tmp_path / "ns", mode="ignore", partition_by=["bucket(id, 2)"])
    lance_df.spark.write(df, tmp_path / "ns", mode="append")
    assert lance_df.PartitionedNamespace.open(tmp_path / "ns").count_rows() == 20
    with pytest.raises(InvalidInputError, match="got 'merge'"):
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


OVERWRITES = "spark.sql.sources.partitionOverwriteMode"


@pytest.fixture
def only_a(spark):
    yield spark.sql("SELECT 1L AS k, 'a' AS s")
    spark.conf.unset(OVERWRITES)


def rows_of_s(root):
    return sorted(lance_df.PartitionedNamespace.open(root / "parted").to_table()["s"].to_pylist())


def test_the_session_says_what_overwrite_replaces(spark, root, only_a):
    spark.conf.set(OVERWRITES, "dynamic")
    only_a.write.format("lance_df").mode("overwrite").save(str(root / "parted"))
    assert rows_of_s(root) == ["a", *["b"] * 5]
    lance_df.spark.write(only_a, root / "parted", mode="overwrite")
    assert rows_of_s(root) == ["a", *["b"] * 5]
    only_a.write.format("lance_df").option("partitionOverwriteMode", "static").mode("overwrite").save(
        str(root / "parted")
    )
    assert rows_of_s(root) == ["a"]


def test_each_write_takes_the_setting_of_its_time(spark, root, only_a):
    changes = {
        "conf.set": (lambda: spark.conf.set(OVERWRITES, "dynamic"), 6),
        "conf.unset": (lambda: spark.conf.unset(OVERWRITES), 1),
        "SET": (lambda: spark.sql(f"SET {OVERWRITES}=dynamic"), 6),
        "RESET": (lambda: spark.sql(f"RESET {OVERWRITES}"), 1),
        "another object": (lambda: SparkSession.active().conf.set(OVERWRITES, "DYNAMIC"), 6),
        "sql": (lambda: lance_df.spark.sql(spark, f"SET {OVERWRITES}=static"), 1),
    }
    writer = only_a.write.format("lance_df").mode("overwrite")
    for name, (change, count) in changes.items():
        lance_df.spark.write(
            spark.createDataFrame(ROWS), root / "parted", mode="overwrite", partition_overwrite_mode="static"
        )
        change()
        writer.save(str(root / "parted"))
        assert (name, len(rows_of_s(root))) == (name, count)


def test_each_session_has_its_own_mode_of_overwrites(spark, root, only_a):
    path = str(root / "parted")
    other = spark.newSession()
    other.conf.set(OVERWRITES, "dynamic")
    lance_df.spark.register(other)
    try:
        other.sql("SELECT 1L AS k, 'a' AS s").write.save(path, "lance_df", "overwrite")
        assert rows_of_s(root) == ["a", *["b"] * 5]
        only_a.write.save(path, format="lance_df", mode="overwrite")  # the other session is the active one
        assert rows_of_s(root) == ["a"]
    finally:
        lance_df.spark.register(spark)


def test_the_mode_of_the_session_is_for_lance_alone(spark, tmp_path, only_a):
    spark.conf.set(OVERWRITES, "dynamic")
    only_a.write.mode("overwrite").parquet(str(tmp_path / "files"))
    only_a.write.mode("overwrite").save(str(tmp_path / "files"))
    assert spark.read.load(str(tmp_path / "files")).collect() == [(1, "a")]
    only_a.write.format("lance_df").mode("overwrite").save(str(tmp_path / "t.lance"))
    assert lance_df.dataset(tmp_path / "t.lance").count_rows() == 1


def test_errors_of_spark_are_typed(spark, root):
    with pytest.raises(NotFoundError):
        lance_df.spark.sql(spark, "SELECT * FROM missing_table")
    with pytest.raises(PySparkException):
        spark.sql("SELECT * FROM missing_table")
