"""Queries that begin with FROM: what is selected, and where such a query begins."""

import pytest

from lance_df.engine.tables.created import with_selects
from lance_df.sql.from_first import with_select

# a query stands where ? does
PLACES = [
    "?",
    "  ?",
    "-- x\n?",
    "/* x */ ?",
    "(?)",
    "SELECT * FROM (?) s",
    "SELECT a IN (?), EXISTS (?), ARRAY(?) FROM t",
    "? UNION ALL ?",
    "? UNION ALL BY NAME ? EXCEPT ?",
    "SELECT 1 INTERSECT DISTINCT ?",
    "WITH q AS (?) ?",
    "WITH q (a, b) AS (SELECT 1, 2), r AS MATERIALIZED (?) ?",
    "WITH RECURSIVE q AS (SELECT 1 UNION ALL ?) ?",
    "WITH q AS (SELECT f(x) FROM t) (?)",
    "INSERT INTO t ?",
    "INSERT INTO TABLE t (a, b) ?",
    "INSERT INTO t WITH q AS (?) ?",
    "CREATE TABLE u AS ?",
    "CREATE OR REPLACE TABLE u PARTITIONED BY (year(a)) AS ?",
    "CREATE VIEW v AS WITH q AS (?) ?",
    "PREPARE p(INT) AS ?",
    "EXPLAIN ?",
    "EXPLAIN ANALYZE VERBOSE ?",
    "EXPLAIN FORMAT TREE ?",
    "EXPLAIN INSERT INTO t ?",
    "DESCRIBE ?",
    "COPY (?) TO 'x.csv'",
    "MERGE INTO t USING (?) s ON t.a = s.a WHEN MATCHED THEN DELETE",
    "?; ?",
]
QUERIES = [
    "FROM t",
    "FROM t |> WHERE a > 1 |> SELECT b |> LIMIT 2",
    "from 'A.csv' x WHERE a > (SELECT max(a) FROM t) LIMIT 1",
    'FROM (SELECT 1) s, "select"',
]
OTHERS = [
    "FROM t SELECT a",
    "SELECT 1 FROM t",
    "SELECT * EXCEPT (a) FROM t",
    'SELECT 1 AS "from" FROM t',
    "SELECT 'FROM t', '(FROM t)' FROM t",
    "SELECT extract(day FROM x), trim(BOTH FROM y), substring(f(x) FROM 2) FROM t",
    "SELECT a IS DISTINCT FROM b, (a IS NOT DISTINCT FROM b) FROM t",
    "WITH q AS (SELECT f(a) FROM t) SELECT f(a) FROM q",
    "WITH q AS (SELECT 1) UPDATE t SET a = f(1) FROM q",
    "DELETE FROM t WHERE f(a)",
    "UPDATE t SET a = f(s.a) FROM s",
    "SHOW COLUMNS FROM t",
    "CREATE TABLE t (a INT)",
    "FROM 'open",
    "",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("query", QUERIES)
def test_from_alone_selects_all(place, query):
    for select in (with_select, with_selects):
        assert select(place.replace("?", query)) == place.replace("?", f"SELECT * {query}")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("query", ["SELECT a FROM t", "FROM t SELECT a"])
def test_a_query_that_selects_stays(place, query):
    for select in (with_select, with_selects):
        assert select(place.replace("?", query)) == place.replace("?", query)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id, name FROM t",
        "SELECT DISTINCT all FROM t",
        "SELECT count(*) FROM t WHERE a IS DISTINCT FROM b",
        "SELECT format, verbose FROM t ORDER BY name DESC",
    ],
)
def test_most_texts_are_not_parsed(text, monkeypatch):
    monkeypatch.setattr("lance_df.sql.from_first.with_select", None)
    assert with_selects(text) == text


@pytest.mark.parametrize("text", OTHERS)
def test_other_texts_stay(text):
    assert with_select(text) == with_selects(text) == text
