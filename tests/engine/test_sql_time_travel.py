"""Versions of tables in SELECT: by number, tag and time."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import lance_df
from lance_df.errors import DatasetNotFoundError, InvalidInputError, NotFoundError

pytestmark = pytest.mark.engine


@pytest.fixture(params=[False, True], ids=["table", "namespace"])
def ctx(request, tmp_path):
    session = lance_df.connect(tmp_path)
    session.sql("CREATE TABLE t (a INT, b INT)" + (" PARTITIONED BY (b)" if request.param else ""))
    session.sql("INSERT INTO t VALUES (1, 1)")
    session.sql("INSERT INTO t VALUES (2, 2)")
    session.sql("DELETE FROM t WHERE a = 1")
    return session


def values(ctx, sql: str) -> list:
    return sorted(value for row in ctx.sql(sql).to_pylist() for value in row.values())


def test_numbers(ctx):
    assert [values(ctx, f"SELECT a FROM t VERSION AS OF {version}") for version in (1, 2, 3, 4)] == [
        *([], [1], [1, 2], [2])
    ]
    assert values(ctx, "SELECT x.a FROM t VERSION AS OF 3 AS x JOIN t ON t.a = x.a") == [2]
    assert values(ctx, "SELECT x.a FROM t version as of 3 x WHERE x.a < 2") == [1]
    assert values(ctx, 'SELECT t.a FROM public."t" VERSION AS OF 2, t AS u') == [1]
    assert values(ctx, "SELECT a FROM t WHERE a IN (SELECT a FROM t VERSION AS OF 3)") == [2]
    assert values(ctx, "SELECT a FROM t VERSION AS OF 2 UNION ALL SELECT a FROM t VERSION AS OF 2") == [1, 1]


def test_a_name_in_quotes_keeps_its_case(ctx):
    ctx.sql('CREATE TABLE "T" AS SELECT 7 AS a')
    ctx.sql('INSERT INTO "T" VALUES (8)')
    for name in ('"T"', "'T'", "`T`"):
        assert values(ctx, f"SELECT a FROM {name} VERSION AS OF 1") == [7]
        assert values(ctx, f"SELECT x.a FROM {name} FOR VERSION AS OF 2 x") == [7, 8]
    assert values(ctx, "SELECT a FROM 't' VERSION AS OF 2") == [1]


def test_times(ctx):
    now = dt.datetime.now(dt.UTC)
    assert values(ctx, f"SELECT a FROM t TIMESTAMP AS OF '{now.isoformat()}' AS x") == [2]
    assert values(ctx, f"SELECT a FROM t TIMESTAMP AS OF '{now:%Y-%m-%d %H:%M:%S}.999999'") == [2]
    with pytest.raises(NotFoundError):
        ctx.sql("SELECT a FROM t TIMESTAMP AS OF '2001-01-01'")
    with pytest.raises(InvalidInputError, match="time"):
        ctx.sql("SELECT a FROM t TIMESTAMP AS OF 'yesterday'")


def test_tags(ctx, tmp_path):
    if not (tmp_path / "t.lance").exists():
        with pytest.raises(InvalidInputError):
            ctx.sql("SELECT a FROM t VERSION AS OF 'before'")
        return
    lance_df.dataset(tmp_path / "t.lance").tags.create("before", 3)
    assert values(ctx, "SELECT a FROM t VERSION AS OF 'before'") == [1, 2]


def test_a_query_of_with_has_no_versions(ctx):
    with pytest.raises(InvalidInputError, match="'t' is a query of WITH"):
        ctx.sql("WITH t AS (SELECT 9 AS a) SELECT a FROM t VERSION AS OF 3")
    assert values(ctx, "WITH t AS (SELECT a FROM t VERSION AS OF 3) SELECT a FROM t") == [1, 2]
    assert values(ctx, 'WITH "T" AS (SELECT 9 AS a) SELECT t.a FROM t VERSION AS OF 2, "T"') == [1]


def test_changes_and_views_read_other_versions(ctx):
    ctx.sql("CREATE VIEW was AS SELECT a, b FROM t VERSION AS OF 3")
    assert ctx.sql("INSERT INTO t SELECT a + 10, b FROM was").to_pylist() == [{"count": 2}]
    assert ctx.sql("INSERT INTO t SELECT a + 20, b FROM t VERSION AS OF 2 WHERE a = 1").to_pylist() == [
        {"count": 1}
    ]
    assert values(ctx, "SELECT a FROM t") == [2, 11, 12, 21]
    assert values(ctx, "SELECT a FROM was") == [1, 2]


@pytest.mark.parametrize("ref", ["99", "1.5", "'no such tag'"])
def test_versions_that_are_not_there(ctx, ref):
    with pytest.raises((NotFoundError, InvalidInputError)):
        ctx.sql(f"SELECT a FROM t VERSION AS OF {ref}")


def test_tables_that_are_not_there(ctx):
    with pytest.raises(DatasetNotFoundError):
        ctx.sql("SELECT * FROM nothing VERSION AS OF 1")


def test_columns_may_have_these_names(tmp_path):
    rows = pa.table({"version": [1], "timestamp": [2]})
    lance_df.write_dataset(rows, tmp_path / "v.lance")
    ctx = lance_df.connect(tmp_path)
    assert ctx.sql('SELECT version AS of, timestamp AS "as of" FROM v').to_pylist() == [{"of": 1, "as of": 2}]
