# ruff: noqa: E501 - statements
"""Statements that change tables, as data."""

import pytest

from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.sql.changes import (
    CreateTable,
    Delete,
    DropTable,
    Header,
    Insert,
    Merge,
    MergeAction,
    PartitionTerm,
    RowKind,
    Update,
    Verb,
)
from lance_df.sql.parse_changes import parse_change, parse_header
from lance_df.sql.time_travel import with_versions


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ('insert into lake."T" values (1)', Header(Verb.INSERT, ("lake", "T"))),
        ("/* x */ DELETE FROM T", Header(Verb.DELETE, ("t",))),
        (
            "CREATE OR REPLACE TABLE IF NOT EXISTS t (a INT)",
            Header(Verb.CREATE, ("t",), frozenset({"OR REPLACE", "IF NOT EXISTS"})),
        ),
        ("DROP TABLE IF EXISTS t", Header(Verb.DROP, ("t",), frozenset({"IF EXISTS"}))),
        ("CREATE VIEW v AS SELECT 1", None),
        ("CREATE EXTERNAL TABLE t STORED AS CSV", None),
        ("SELECT 'DELETE FROM t'", None),
        ("DELETE FROM 'unfinished", None),
        ("UPDATE", None),
    ],
)
def test_headers(text, header):
    assert parse_header(text) == header


def test_text_of_expressions_stays_as_it_is_written():
    change = parse_change(
        """UPDATE t AS x SET a = CASE WHEN b IS DISTINCT FROM 1 THEN 'a, b' ELSE "from" END, x."B" = f(1, (2)) -- c
        FROM u JOIN v ON u.a = v.a WHERE extract(year FROM at) > 3 ;"""
    )
    assert change == Update(
        ("t",),
        "x",
        (("a", """CASE WHEN b IS DISTINCT FROM 1 THEN 'a, b' ELSE "from" END"""), ("B", "f(1, (2))")),
        "u JOIN v ON u.a = v.a",
        "extract(year FROM at) > 3",
    )


@pytest.mark.parametrize(
    ("text", "change"),
    [
        (
            "INSERT INTO t (A, \"B\") VALUES (1, ')')",
            Insert(("t",), ("a", "B"), "VALUES (1, ')')", has_values=True),
        ),
        ("INSERT INTO t (SELECT 1)", Insert(("t",), None, "(SELECT 1)")),
        ("DELETE FROM a.b.t", Delete(("a", "b", "t"), "t", None)),
        ("DROP TABLE t", DropTable(("t",), if_exists=False)),
        (
            'CREATE TABLE t PARTITIONED BY (bucket(a, 4), identity "B", c) AS SELECT 1',
            CreateTable(
                ("t",),
                None,
                (
                    PartitionTerm("bucket", ("a",), 4),
                    PartitionTerm("identity", ("B",)),
                    PartitionTerm("identity", ("c",)),
                ),
                "SELECT 1",
            ),
        ),
    ],
)
def test_changes(text, change):
    assert parse_change(text) == change


def test_merge():
    change = parse_change(
        "MERGE INTO t USING s.u ON t.a = u.a WHEN MATCHED AND CASE WHEN u.b THEN TRUE END THEN DELETE "
        "WHEN NOT MATCHED BY TARGET THEN INSERT (a) VALUES (f(1, 2)) WHEN NOT MATCHED BY SOURCE THEN DO NOTHING"
    )
    assert isinstance(change, Merge)
    assert (change.source, change.source_alias, change.condition) == ('"s"."u" AS "u"', "u", "t.a = u.a")
    assert [(clause.rows, clause.action) for clause in change.clauses] == [
        (RowKind.MATCHED, MergeAction.DELETE),
        (RowKind.NOT_MATCHED, MergeAction.INSERT),
        (RowKind.NOT_MATCHED_BY_SOURCE, MergeAction.NOTHING),
    ]
    assert change.clauses[0].condition == "CASE WHEN u.b THEN TRUE END"
    assert change.clauses[1].assignments == (("a", "f(1, 2)"),)


@pytest.mark.parametrize(
    "text",
    [
        "DELETE FROM t WHERE",
        "DELETE FROM t WHERE a) OR (b",
        "DELETE FROM t WHERE (a",
        "DELETE FROM t; DROP TABLE t",
        "UPDATE t SET",
        "UPDATE t SET a",
        "UPDATE t SET a = 1, ",
        "INSERT INTO t",
        "INSERT INTO t (a, ) VALUES (1)",
        "CREATE TABLE t",
        "CREATE TABLE t ()",
        "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED",
        "MERGE INTO t USING t ON TRUE WHEN MATCHED THEN DELETE",
        "MERGE INTO t USING u ON TRUE WHEN NOT MATCHED THEN DELETE",
        "TRUNCATE TABLE t x",
    ],
)
def test_malformed(text):
    with pytest.raises(InvalidInputError):
        parse_change(text)


@pytest.mark.parametrize(
    "value",
    [
        "array < 3",
        "array < b AND map > c",
        "struct < b OR t.map < c",
        "array < map",
        "map < b AND struct > 3",
        "x::STRUCT<a INT, b ARRAY<STRUCT<from DOUBLE PRECISION, d DECIMAL(10, 2)>>>",
        "x::MAP<VARCHAR(3), TIMESTAMP(3) WITH TIME ZONE>",
        "x::STRUCT<a: INT UNSIGNED, b: INT[3]>",
        'x::STRUCT<"a" INT, b INT>',
    ],
)
def test_types_are_no_comparisons(value):
    assert parse_change(f"UPDATE t SET a = {value}, b = 1 WHERE c > 1 AND {value}") == Update(
        ("t",), "t", (("a", value), ("b", "1")), None, f"c > 1 AND {value}"
    )
    merge = f"MERGE INTO t USING u ON {value} WHEN NOT MATCHED THEN INSERT VALUES ({value}, c > d)"
    assert parse_change(merge).clauses[0].values == (value, "c > d")


@pytest.mark.parametrize("string", ["E'{}'", "$${}$$", "$q${}$q$", "N'{}'", "U&'{}'"])
@pytest.mark.parametrize("word", ["from", "where", "limit", "returning", "case", "("])
def test_strings_have_no_words(string, word):
    value = string.format(word)
    assert parse_change(f"UPDATE t SET a = {value}, b = 1 WHERE c = {value}") == Update(
        ("t",), "t", (("a", value), ("b", "1")), None, f"c = {value}"
    )
    assert parse_change(f"INSERT INTO t SELECT 3, {value}").query == f"SELECT 3, {value}"
    merge = parse_change(f"MERGE INTO t USING u ON t.a = {value} WHEN MATCHED THEN UPDATE SET a = {value}")
    assert merge.condition == f"t.a = {value}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM t VERSION AS OF 3", 'SELECT * FROM "t/version/3" AS "t"'),
        ("FROM a.T VERSION AS OF 'x' b WHERE 1", 'FROM a."t/tag/x" b WHERE 1'),
        ("FROM \"T\" TIMESTAMP AS OF 'now', u", 'FROM "T/time/now" AS "T", u'),
        ("SELECT version AS of FROM t", "SELECT version AS of FROM t"),
        ("SELECT 1 FROM (SELECT version AS of FROM t)", "SELECT 1 FROM (SELECT version AS of FROM t)"),
        ('FROM "select" VERSION AS OF 3', 'FROM "select/version/3" AS "select"'),
        ("SELECT 't VERSION AS OF 3'", "SELECT 't VERSION AS OF 3'"),
        ("SELECT * FROM t, E'version' AS OF 3", "SELECT * FROM t, E'version' AS OF 3"),
    ],
)
def test_time_travel(text, expected):
    assert with_versions(text, lambda *parts: "/".join(parts)) == expected


@pytest.mark.parametrize(
    "condition", ["a = ANY (SELECT 1)", "a > all ((SELECT 1))", "NOT a <> SOME (FROM s)"]
)
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM t WHERE ?",
        "UPDATE t SET a = 1 WHERE ?",
        "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED AND ? THEN DELETE",
    ],
)
def test_comparisons_with_all_rows_of_a_query_are_refused(statement: str, condition: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"(ANY|ALL|SOME) \(SELECT …\).*use IN"):
        parse_change(statement.replace("?", condition))
    for other in ("a = ANY ([1, 2])", "a = any", "a IN (SELECT 1)", "a > (SELECT all FROM s)"):
        parse_change(statement.replace("?", other))


@pytest.mark.parametrize(
    ("condition", "is_refused"),
    [
        ("a NOT IN (SELECT b FROM s) OR c = 1", True),
        ("NOT (c = 1 AND a IN (SELECT b FROM s))", True),
        ("NOT (a NOT IN (SELECT b FROM s))", True),
        ("(a IN (SELECT b FROM s)) IS NULL", True),
        ("CASE WHEN a IN (SELECT 1) THEN true ELSE false END", True),
        ("EXISTS (SELECT 1 FROM s WHERE b NOT IN (SELECT c FROM r) OR d)", True),
        ("a NOT IN (SELECT b FROM s)", False),
        ("NOT a IN (SELECT b FROM s)", False),
        ("c = 1 AND NOT (a IN (SELECT b FROM s)) AND d", False),
        ("a IN (SELECT b FROM s) OR c = 1", False),
        ("a NOT IN (1, 2) OR c = 1", False),
        ("NOT EXISTS (SELECT 1 FROM s WHERE b = a) OR c = 1", False),
        ("NOT (a = (SELECT max(b) FROM s WHERE b IN (SELECT 1)))", False),
    ],
)
@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM t WHERE {}",
        "UPDATE t SET c = 2 WHERE {}",
        "UPDATE t SET c = (SELECT max(c) FROM u WHERE {}) WHERE true",
        "UPDATE t SET c = 2 FROM (SELECT a FROM u WHERE {}) AS s, u WHERE s.a = t.a",
        "MERGE INTO t USING s ON {} WHEN MATCHED THEN DELETE",
        "MERGE INTO t USING (SELECT a FROM u WHERE {}) s (a) ON t.a = s.a WHEN MATCHED THEN DELETE",
        "MERGE INTO t USING (SELECT a FROM u JOIN v ON {}) s ON t.a = s.a WHEN MATCHED THEN DELETE",
        "MERGE INTO t USING (SELECT a FROM u GROUP BY a HAVING {}) s ON t.a = s.a WHEN MATCHED THEN DELETE",
        "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED AND EXISTS (SELECT 1 FROM u WHERE {}) THEN DELETE",
        "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN UPDATE SET a = (SELECT max(a) FROM u WHERE {})",
        "MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED THEN INSERT VALUES ((SELECT max(a) FROM u WHERE {}))",
    ],
)
def test_conditions_that_take_null_for_false(change, condition, is_refused):
    if is_refused:
        with pytest.raises(UnsupportedFeatureError, match=r"reads NULL as false, is .*use NOT EXISTS"):
            parse_change(change.format(condition))
    else:
        parse_change(change.format(condition))
