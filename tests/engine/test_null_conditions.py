"""Conditions with NULL literals in any context: as over the same rows in memory."""

from __future__ import annotations

import datafusion
import pyarrow as pa
import pytest

import lance_df
from lance_df import partition
from tests.engine.query_results import assert_same_result

pytestmark = pytest.mark.engine

ROWS = pa.table(
    {
        "a": pa.array([1, 2, None, 4, 5, 6], pa.int64()),
        "k": pa.array([1, 1, 2, 2, None, 3], pa.int32()),
        "f": pa.array([0.5, float("nan"), None, -0.0, 2.0, 3.0], pa.float64()),
        "s": pa.array(["x", None, "", "ä", "x", "z"], pa.string()),
        "y": pa.array([b"x", None, b"", b"y", b"z", b"\xff"], pa.binary()),
        "b": pa.array([True, False, None, True, False, None], pa.bool_()),
        "d": pa.array([1, 2, None, 4, 5, 6], pa.date32()),
        "t": pa.array([1, 2, None, 4, 5, 6], pa.timestamp("us")),
        "m": pa.array([1, 2, None, 4, 5, 6], pa.decimal128(9, 2)),
        "l": pa.array([[1], [None], None, [], [2, 3], [4]], pa.list_(pa.int64())),
    }
)
SOURCES = ["rows", "parts"]
TYPES = {
    "a": "BIGINT",
    "k": "INT",
    "f": "DOUBLE",
    "s": "VARCHAR",
    "y": "BYTEA",
    "b": "BOOLEAN",
    "d": "DATE",
    "t": "TIMESTAMP",
    "m": "DECIMAL(9, 2)",
}
CONDITIONS = [
    "NULL",
    "NOT NULL",
    "NULL AND NULL",
    "NULL AND k = 1",
    "k = 1 AND NULL",
    "k = 1 AND NULL AND s = 'x'",
    "CAST(NULL AS BOOLEAN) AND k = 1 AND b",
    "NULL AND true AND k = 1",
    "NULL AND b AND NOT b",
    "NULL OR k = 1",
    "k = 1 OR NULL",
    "NULL AND (k = 1 OR NULL) AND a > 1",
    "NOT (NULL AND k = 1)",
    "NOT (NULL OR k = 1)",
    "(NULL OR b) AND (k = 2 OR NULL)",
    "NULL IS NULL AND k = 1",
    "NULL IS NOT NULL AND k = 1",
    "(NULL AND k = 1) IS NULL",
    "k = NULL",
    "NULL = NULL AND k = 1",
    "a = NULL AND k = 1",
    "k <> NULL OR a = 4",
    "(k IS DISTINCT FROM NULL) AND a < 5",
    "k IS NOT DISTINCT FROM NULL",
    "k IN (1, NULL)",
    "k NOT IN (1, NULL)",
    "k IN (NULL) AND a = 1",
    "k IN (1, 2, 3, 4, NULL) AND NULL",
    "NULL IN (1, 2) AND k = 1",
    "NULL IN (k, a) AND k = 1",
    "a BETWEEN NULL AND 3 AND k = 1",
    "a NOT BETWEEN NULL AND 3",
    "NULL BETWEEN a AND k AND k = 1",
    "s LIKE NULL AND k = 1",
    "CASE WHEN k = 1 THEN NULL ELSE true END",
    "CASE WHEN NULL THEN false ELSE k = 1 END",
    "CASE WHEN k = 1 THEN NULL END AND a = 1",
    "coalesce(NULL, k = 1) AND a > 1",
    "nullif(true, true) AND k = 1",
    "NULL AND k = 1 OR a = 4",
    "a + NULL > 1 AND k = 1",
    "l = NULL AND k = 1",
    "NULL AND length(s) = 1",
    "NULL AND a > k",
    "true AND a >= k",
    "EXISTS (SELECT 1 FROM {other} WHERE NULL AND k = 1)",
    "k IN (SELECT k FROM {other} WHERE NULL AND a = 1)",
    "k NOT IN (SELECT k FROM {other} WHERE NULL AND a = 1)",
    "k = (SELECT max(k) FROM {other} WHERE NULL AND a = 1)",
    "EXISTS (SELECT 1 FROM {other} o WHERE o.k = {source}.k AND NULL)",
]
# in plain contexts DataFusion's binding fails before it reaches a scan (docs/partitioning.md)
LISTS_THAT_BEGIN_WITH_NULL = [
    "b IN (NULL, false)",
    "k IN (NULL, 1)",
    "s IN (NULL, 'x', 'z') AND a > 0",
    "k NOT IN (NULL, 1)",
    "(b IN (NULL, false)) = b",
    "(b IN (NULL, false)) IS NULL",
    "k IN (1, NULL) OR b IN (NULL, true)",
    "k IN (NULL, 1, 2, 3, 4)",
]
JOINS = [
    "SELECT x.a, y.s FROM {source} x {kind} {other} y ON NULL WHERE x.k = 1",
    "SELECT x.a, y.s FROM {source} x {kind} {other} y ON NULL AND y.k = 1",
    "SELECT x.a, y.s FROM {source} x {kind} {other} y ON x.a = y.a AND NULL AND x.k = 1",
    "SELECT x.a, y.s FROM {source} x {kind} {other} y ON x.a = y.a WHERE NULL AND x.k = 1 AND y.k = 1",
    "SELECT x.a, y.s FROM {source} x {kind} {other} y ON x.a = y.a AND y.k IS NOT NULL WHERE y.k = 2",
    "SELECT count(*) AS n FROM {source} x {kind} {other} y ON x.a = NULL AND y.b",
]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nulls")
    lance_df.write_dataset(ROWS, folder / "rows.lance", max_rows_per_file=2)
    namespace = lance_df.PartitionedNamespace.create(
        folder / "parts", ROWS.schema, [partition.identity("k"), partition.bucket("a", 2)]
    )
    namespace.append(ROWS)
    return folder


@pytest.fixture(scope="module")
def memory():
    context = datafusion.SessionContext()
    for name in SOURCES:
        context.from_arrow(ROWS, name)
    return context


@pytest.fixture(scope="module", params=["plain", "session"])
def ctx(request, root):
    if request.param == "session":
        return lance_df.connect(root)
    context = datafusion.SessionContext()
    lance_df.register(context, "rows", root / "rows.lance")
    lance_df.register(context, "parts", root / "parts")
    return context


def placed(source):
    return {"source": source, "other": SOURCES[1 - SOURCES.index(source)]}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_conditions(ctx, memory, source, condition):
    condition = condition.format(**placed(source))
    for query in (
        f"SELECT * FROM {source} WHERE {condition} ORDER BY a",
        f"SELECT count(*) AS n FROM {source} WHERE {condition}",
        f"SELECT s, max(f) AS f FROM {source} WHERE {condition} GROUP BY s ORDER BY s",
    ):
        assert_same_result(ctx.sql(query), memory.sql(query))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("name", TYPES)
def test_nulls_of_each_type(ctx, memory, source, name):
    null = f"CAST(NULL AS {TYPES[name]})"
    for condition in (
        f"{name} = {null}",
        f"{null} < {name} AND k = 1",
        f"{name} IN ({null})",
        f"{name} IS NOT DISTINCT FROM {null}",
        f"{null} IS NULL AND {name} IS NULL",
    ):
        query = f"SELECT a, {name} AS v FROM {source} WHERE {condition} ORDER BY a"
        assert_same_result(ctx.sql(query), memory.sql(query))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
@pytest.mark.parametrize("query", JOINS)
def test_joins(ctx, memory, source, kind, query):
    query = query.format(kind=kind, **placed(source))
    assert_same_result(ctx.sql(query), memory.sql(query))


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("condition", LISTS_THAT_BEGIN_WITH_NULL)
def test_lists_that_begin_with_null(root, memory, source, condition):
    session = lance_df.connect()
    session.register_table("rows", lance_df.dataset(root / "rows.lance"))
    session.register_dataset("parts", lance_df.PartitionedNamespace.open(root / "parts"))
    query = f"SELECT * FROM {source} WHERE {condition} ORDER BY a"
    assert_same_result(session.sql(query), memory.sql(query))
    assert_same_result(lance_df.connect(root).sql(query), memory.sql(query))


@pytest.mark.parametrize(
    "condition", [each for each in CONDITIONS + LISTS_THAT_BEGIN_WITH_NULL if "{" not in each]
)
def test_sql_of_a_dataset(root, memory, condition):
    query = f"SELECT * FROM rows WHERE {condition} ORDER BY a"
    builder = lance_df.dataset(root / "rows.lance").sql(query).table_name("rows")
    found = datafusion.SessionContext().from_arrow(builder.build().to_stream_reader())
    assert_same_result(found, memory.sql(query))


def test_other_conditions_prune_in_any_context(tmp_path, monkeypatch):
    from lance_df.engine.provider import LanceTableProvider

    plans = []
    planned = LanceTableProvider.get_fragments

    def noted(self, *given):
        found = planned(self, *given)
        plans.append(self.log.scans[-1])
        return found

    monkeypatch.setattr(LanceTableProvider, "get_fragments", noted)
    for number in range(4):
        rows = pa.table({"a": range(number * 100, number * 100 + 100), "__true": [False] * 100})
        lance_df.write_dataset(rows, tmp_path / "t.lance", mode="append")
    context = datafusion.SessionContext()
    lance_df.register(context, "t", tmp_path / "t.lance")
    assert context.sql('SELECT * FROM t WHERE a = 150 AND NOT "__true"').to_pydict() == {
        "a": [150],
        "__true": [False],
    }
    assert [len(plan.tasks) for plan in plans] == [1]
    assert context.sql("SELECT a FROM t WHERE NULL AND a = 150").to_pydict() == {"a": []}
    assert [len(plan.tasks) for plan in plans] == [1, 1]
