"""EXPLAIN in sessions shows the plan that a query runs with, whatever rules have made of it."""

import datafusion
import pyarrow as pa
import pytest

import lance_df
from lance_df.engine.optimizer import planned

pytestmark = pytest.mark.engine

JOIN = (
    "SELECT f.k, count(*) AS n FROM facts f JOIN few d ON f.k = d.k WHERE d.v < 3 GROUP BY f.k ORDER BY f.k"
)
QUERIES = [
    "SELECT k FROM facts WHERE v = 7",
    "SELECT k, sum(v) AS s FROM facts GROUP BY k",
    "SELECT k FROM facts ORDER BY v DESC LIMIT 3",
    "SELECT * FROM (SELECT k FROM facts ORDER BY v DESC LIMIT 3) JOIN few USING (k)",
    "WITH x AS (SELECT k FROM facts LIMIT 20) SELECT k FROM x EXCEPT SELECT k FROM few",
    "SELECT count(*) FROM facts WHERE v > (SELECT max(v) FROM few)",
    JOIN,
]


@pytest.fixture
def ctx(tmp_path, monkeypatch):
    monkeypatch.setattr(planned, "WORTH_ROWS", 1)
    rows = range(20_000)
    facts = pa.table({"k": [row % 50 for row in rows], "v": rows})
    lance_df.write_dataset(facts, tmp_path / "facts.lance")
    lance_df.write_dataset(facts.slice(0, 40), tmp_path / "few.lance")
    lance_df.write_dataset(pa.table({"a": [1]}), tmp_path / "query.lance")
    return lance_df.connect(tmp_path)


def explained(ctx, statement, *values):
    rows = ctx.sql(statement, None, list(values) or None).to_pydict()
    return dict(zip(rows["plan_type"], rows["plan"], strict=True))


@pytest.mark.parametrize("query", QUERIES)
def test_the_plan_is_the_one_that_runs(ctx, query):
    shown = explained(ctx, f"EXPLAIN {query}")
    assert list(shown) == ["logical_plan", "physical_plan"]
    runs = ctx.sql(query).execution_plan().display_indent()
    assert shown["physical_plan"].strip() == runs.strip()


def test_rules_are_seen(ctx):
    # the smaller side of a join is built on
    query = "SELECT f.v, d.v FROM facts f LEFT JOIN few d ON f.k = d.k"
    assert "join_type=Right" in explained(ctx, f"EXPLAIN {query}")["physical_plan"]


def test_names_and_types(ctx):
    plain = datafusion.SessionContext().sql("EXPLAIN SELECT 1").schema()
    assert ctx.sql(f"EXPLAIN {JOIN}").schema() == plain
    assert ctx.sql(f"EXPLAIN {JOIN}").to_arrow_table().schema == plain


def test_parameters_and_queries_without_select(ctx):
    assert "v = Int64(7)" in explained(ctx, "EXPLAIN SELECT k FROM facts WHERE v = $1", 7)["logical_plan"]
    assert explained(ctx, "EXPLAIN FROM few") == explained(ctx, "/* all */ explain SELECT * FROM few;")


def test_what_is_left_to_datafusion(ctx):
    assert "┌" in explained(ctx, "EXPLAIN FORMAT tree SELECT k FROM facts")["physical_plan"]
    assert len(explained(ctx, "EXPLAIN VERBOSE SELECT k FROM facts")) > 10
    assert (
        "output_rows=20"
        in explained(ctx, "EXPLAIN ANALYZE SELECT k FROM facts LIMIT 20")["Plan with Metrics"]
    )
    assert explained(ctx, "EXPLAIN SELECT 1") == explained(datafusion.SessionContext(), "EXPLAIN SELECT 1")
    ctx.sql("SET datafusion.explain.physical_plan_only = true")
    assert list(explained(ctx, "EXPLAIN SELECT k FROM facts")) == ["physical_plan"]


def test_errors(ctx):
    with pytest.raises(lance_df.ColumnNotFoundError, match="EXPLAIN SELECT nothing"):
        ctx.sql("EXPLAIN SELECT nothing FROM facts")
    with pytest.raises(lance_df.LanceError):
        ctx.sql("EXPLAIN WITH x AS (SELECT 1 AS a) INSERT INTO query SELECT a FROM x")
    assert ctx.sql("SELECT * FROM query").to_pylist() == [{"a": 1}]
