"""What statements of Spark say about tables of lance_df."""

from __future__ import annotations

import re

import pytest

from lance_df.errors import InvalidInputError
from lance_df.sql.spark_dialect import SPARK_NAMES
from lance_df.sql.spark_statements import (
    OtherCreate,
    OtherInsert,
    SparkAlter,
    SparkChange,
    SparkCreate,
    SparkDrop,
    SparkInsert,
    parse_spark,
)
from lance_df.sql.time_travel import with_versions


@pytest.mark.parametrize(
    ("text", "name", "columns", "query"),
    [
        (r"INSERT INTO t VALUES (1, 'it\'s')", ("t",), (), r"VALUES (1, 'it\'s')"),
        (r'/* a */ INSERT INTO t SELECT "a\"b"; ', ("t",), (), r'SELECT "a\"b"'),
        ("INSERT INTO TABLE d.2024_sales SELECT 1", ("d", "2024_sales"), (), "SELECT 1"),
        ("INSERT INTO t (map, values) VALUES (1, 2)", ("t",), ("map", "values"), "VALUES (1, 2)"),
        ("INSERT INTO t (`c,d`, `e``f`) SELECT 1", ("t",), ("c,d", "e`f"), "SELECT 1"),
        ("INSERT INTO t (select) (SELECT 1)", ("t",), ("select",), "(SELECT 1)"),
        ("INSERT INTO t (SELECT a, b FROM u)", ("t",), (), "(SELECT a, b FROM u)"),
        ("INSERT INTO t (TABLE u)", ("t",), (), "(TABLE u)"),
        ("INSERT INTO t (VALUES (1), (2))", ("t",), (), "(VALUES (1), (2))"),
        ("INSERT INTO t VALUES (905, DEFAULT, 1)", ("t",), (), "VALUES (905, NULL, 1)"),
        ("INSERT INTO t VALUES (default), (DEFAULT);", ("t",), (), "VALUES (NULL), (NULL)"),
        ("INSERT INTO t VALUES DEFAULT, 'DEFAULT'", ("t",), (), "VALUES NULL, 'DEFAULT'"),
        ("INSERT INTO t VALUES (DEFAULT + 1, f(DEFAULT))", ("t",), (), "VALUES (DEFAULT + 1, f(DEFAULT))"),
        ("INSERT INTO t VALUES (`DEFAULT`)", ("t",), (), "VALUES (`DEFAULT`)"),
        ("INSERT INTO t SELECT default FROM u", ("t",), (), "SELECT default FROM u"),
    ],
)
def test_insert(text, name, columns, query):
    assert parse_spark(text) == SparkInsert(name, columns, query, is_overwrite=False)
    overwrite = text.replace("INTO TABLE", "OVERWRITE TABLE").replace("INTO", "OVERWRITE")
    assert parse_spark(overwrite) == SparkInsert(name, columns, query, is_overwrite=True)


@pytest.mark.parametrize(
    ("clauses", "path", "partition_by"),
    [
        (r"LOCATION '/tmp/it\'s'", "/tmp/it's", ()),
        (r"OPTIONS (path '/tmp/it\'s')", "/tmp/it's", ()),
        ('OPTIONS (`path` = "/tmp/a")', "/tmp/a", ()),
        ("PARTITIONED BY (`my g`, bucket(4, id))", None, ("`my g`", "bucket(4, id)")),
    ],
)
def test_create(clauses, path, partition_by):
    assert parse_spark(f"CREATE TABLE 2024_t USING lance_df {clauses} AS SELECT 1") == SparkCreate(
        ("2024_t",),
        "SELECT 1",
        path,
        partition_by,
        if_not_exists=False,
        has_format=True,
        has_columns=False,
        is_replaced=False,
    )


@pytest.mark.parametrize(("clauses", "partition_by"), [("AS", ()), ("PARTITIONED BY (g)", ("g",))])
def test_create_without_a_format(clauses, partition_by):
    assert parse_spark(f"CREATE TABLE IF NOT EXISTS d.t {clauses} SELECT 1 USING") == SparkCreate(
        ("d", "t"),
        "SELECT 1 USING",
        None,
        partition_by,
        if_not_exists=True,
        has_format=False,
        has_columns=False,
        is_replaced=False,
    )


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("/* x */ DROP VIEW t", SparkDrop(("t",), "VIEW")),
        ("DROP TABLE IF EXISTS `my tab` PURGE;", SparkDrop(("my tab",), "TABLE")),
        ("drop table d.t", SparkDrop(("d", "t"), "TABLE")),
        ("DROP FUNCTION t", None),
        ("-- a\nALTER TABLE t ADD COLUMN x INT", SparkAlter(("t",), "ADD COLUMN")),
        ("/* x */ CREATE TABLE c USING `lance_df` COMMENT 'x' AS (SELECT 1)", OtherCreate()),
        ("CREATE TABLE c USING parquet COMMENT 'x' AS SELECT 1", None),
        ("CREATE TABLE c (a INT)", None),
        ("CREATE TABLE c LOCATION '/tmp/c' AS SELECT 1", None),
        ("CREATE TABLE c STORED AS parquet AS SELECT 1", None),
        ("CREATE TABLE c LIKE d", None),
        ("/* x */ WITH c AS (SELECT 1) INSERT INTO t SELECT * FROM c", OtherInsert(("t",))),
        ("FROM u INSERT OVERWRITE TABLE `my tab` SELECT 1", OtherInsert(("my tab",))),
        ("INSERT INTO d.t BY NAME SELECT 1", OtherInsert(("d", "t"))),
        ("INSERT INTO t WITH (path = 'p') SELECT 1", None),
        ("WITH c AS (SELECT 'INSERT INTO t') SELECT * FROM c", None),
        ("delete from d.t WHERE a = 1", SparkChange(("d", "t"), "DELETE")),
        ("/* x */ UPDATE `my tab` SET a = 1", SparkChange(("my tab",), "UPDATE")),
        ("WITH c AS (SELECT 1) MERGE INTO t USING c ON a", SparkChange(("t",), "MERGE")),
        ("MERGE WITH SCHEMA EVOLUTION INTO t USING c ON a", SparkChange(("t",), "MERGE")),
        ("TRUNCATE TABLE t", SparkChange(("t",), "TRUNCATE")),
        ("WITH c AS (DELETE FROM t) SELECT 1", None),
        ("WITH c AS (SELECT 1) SELECT delete FROM t", None),
        ("WITH c AS (SELECT a AS delete FROM t) SELECT delete FROM c JOIN t", None),
        ("WITH c AS (SELECT 1) SELECT update u FROM t", None),
        ("FROM t SELECT update u", None),
        (
            "WITH RECURSIVE c (a) MAX RECURSION LEVEL 3 AS (SELECT (1)), d (SELECT 2) DELETE FROM t",
            SparkChange(("t",), "DELETE"),
        ),
        ("WITH c AS (SELECT 1) FROM c INSERT INTO t SELECT *", OtherInsert(("t",))),
        ("EXPLAIN INSERT INTO t BY NAME SELECT 1", None),
        ("INSERT INTO t VALUES ('unfinished", None),
        ("", None),
    ],
)
def test_other_statements(text, statement):
    assert parse_spark(text) == statement


@pytest.mark.parametrize(
    ("behind", "expected"),
    [
        (" MINUS SELECT 1", " AS `T` MINUS SELECT 1"),
        (" TABLESAMPLE (100 PERCENT)", " TABLESAMPLE (100 PERCENT) AS `T`"),
        (
            " TABLESAMPLE (1 ROWS) REPEATABLE (3) WHERE a",
            " TABLESAMPLE (1 ROWS) REPEATABLE (3) AS `T` WHERE a",
        ),
        (" TABLESAMPLE (1 ROWS) a", " TABLESAMPLE (1 ROWS) a"),
        (" PIVOT (count(*) FOR g IN (1))", " AS `T` PIVOT (count(*) FOR g IN (1))"),
        (" SORT BY a", " AS `T` SORT BY a"),
        (" DISTRIBUTE BY a", " AS `T` DISTRIBUTE BY a"),
        (" |> WHERE a", " AS `T` |> WHERE a"),
        (r" WHERE a = 'it\'s'", r" AS `T` WHERE a = 'it\'s'"),
        (" AS a", " AS a"),
        ("", " AS `T`"),
    ],
)
def test_versions_in_spark(behind, expected):
    text = with_versions(
        f"SELECT 1 FROM T VERSION AS OF 3{behind}", lambda *parts: "/".join(parts), SPARK_NAMES
    )
    assert text == f"SELECT 1 FROM `T/version/3`{expected}"


def test_names_of_versions_in_spark():
    text = r"""SELECT "it's" FROM 2024_t FOR VERSION AS OF 'a\'b', `x``y` TIMESTAMP AS OF "a" z"""
    assert with_versions(text, lambda *parts: "/".join(parts), SPARK_NAMES) == (
        r"""SELECT "it's" FROM `2024_t/tag/a'b` AS `2024_t`, `x``y/time/a` z"""
    )


@pytest.mark.parametrize(
    "text",
    [
        "WITH t AS (SELECT 1) SELECT * FROM t VERSION AS OF 1",
        "WITH u AS (SELECT 1), T (a) (SELECT 1) SELECT * FROM u JOIN t VERSION AS OF 1",
        "WITH t MAX RECURSION LEVEL 3 AS (SELECT 1) (SELECT * FROM (SELECT * FROM t VERSION AS OF 1))",
        "WITH RECURSIVE t AS (SELECT 1 UNION ALL SELECT * FROM t VERSION AS OF 1) SELECT * FROM t",
        "WITH t AS (SELECT 1), u AS (SELECT * FROM t VERSION AS OF 1) SELECT * FROM u",
        "INSERT INTO t WITH `T` AS (SELECT 1) SELECT * FROM t VERSION AS OF 1",
    ],
)
def test_queries_of_with_have_no_versions(text):
    with pytest.raises(InvalidInputError, match="'t' is a query of WITH"):
        with_versions(text, lambda *parts: "/".join(parts), SPARK_NAMES)


@pytest.mark.parametrize(
    "text",
    [
        "WITH t AS (SELECT * FROM t VERSION AS OF 1) SELECT * FROM t",
        "SELECT * FROM (WITH t AS (SELECT 1) SELECT * FROM t), t VERSION AS OF 1",
        "WITH t AS (SELECT 1) SELECT * FROM db.t VERSION AS OF 1, t",
        "WITH u AS (SELECT * FROM t VERSION AS OF 1), t AS (SELECT 1) SELECT * FROM t",
        "SELECT CAST(a AS TIMESTAMP WITH TIME ZONE) FROM t VERSION AS OF 1",
    ],
)
def test_tables_with_the_name_of_a_query_elsewhere_have_versions(text):
    assert "`t/version/1` AS `t`" in with_versions(text, lambda *parts: "/".join(parts), SPARK_NAMES)


@pytest.mark.parametrize("table", ["IDENTIFIER('t' || \"x\")", "(SELECT (1))", "range(3)"])
def test_versions_are_those_of_names(table):
    with pytest.raises(InvalidInputError, match=re.escape(f"before TABLESAMPLE, not after {table}")):
        with_versions(f"SELECT * FROM {table} VERSION AS OF 1", lambda *parts: "/".join(parts), SPARK_NAMES)
