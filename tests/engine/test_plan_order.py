"""Rewritten statements keep the order, names and types of what was written, in results of many batches."""

from __future__ import annotations

import re

import datafusion
import numpy as np
import pyarrow as pa
import pytest
from query_results import assert_same_result, order_columns

import lance_df
from lance_df.engine.optimizer import driver
from lance_df.engine.optimizer.rules import partial_aggregate, string_views
from lance_df.engine.plans.nodes import optimized_plan_of
from lance_df.engine.plans.order import RewriteWarning, lost_by_rewriting

pytestmark = pytest.mark.engine

ROWS = 60_000
KEYS = 30_000


@pytest.fixture(autouse=True)
def _small_tables_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(string_views, "_WORTH_ROWS", 1000)
    monkeypatch.setattr(partial_aggregate, "_WORTH_GROUPED_ROWS", 1000)
    monkeypatch.setattr(partial_aggregate, "_WORTH_ROWS", 1000)


def _rows(num_rows: int = ROWS, num_keys: int = KEYS) -> pa.Table:
    numbers = np.arange(num_rows)
    keys = numbers * 7919 % num_keys
    return pa.table(
        {
            "s": pa.array([f"key {key:06}" for key in keys], pa.string()),
            "kind": pa.array([None if key % 7 == 0 else f"kind {key % 1000}" for key in keys], pa.string()),
            "k": pa.array(keys, pa.int64()),
            "region": pa.array(keys % 4, pa.int64()),
            "v": pa.array(numbers, pa.int64()),
        }
    )


@pytest.fixture(scope="module")
def rows():
    return _rows()


@pytest.fixture(scope="module")
def memory(rows):
    context = datafusion.SessionContext()
    for name in ("t", "other", "ns"):
        context.from_arrow(rows if name != "other" else rows.slice(0, KEYS), name)
    return context


@pytest.fixture(scope="module")
def root(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ordered")
    lance_df.write_dataset(rows, folder / "t.lance", max_rows_per_file=25_000)
    lance_df.write_dataset(rows.slice(0, KEYS), folder / "other.lance")
    namespace = lance_df.PartitionedNamespace.create(folder / "ns", rows.schema, ["region"])
    namespace.append(rows)
    return folder


ORDERED = [
    "SELECT s, count(*) AS n FROM {t} GROUP BY s ORDER BY s",
    "SELECT s, count(*) AS n FROM {t} GROUP BY s ORDER BY s DESC LIMIT 20000",
    "SELECT s, max(v) AS m FROM {t} GROUP BY s ORDER BY m DESC LIMIT 30 OFFSET 10000",
    "SELECT s AS name, min(kind) AS low FROM {t} GROUP BY s ORDER BY low NULLS FIRST, name DESC",
    "SELECT upper(s) AS name, max(v) AS m FROM {t} GROUP BY s ORDER BY upper(s), m",
    "SELECT DISTINCT s, kind FROM {t} ORDER BY kind DESC NULLS LAST, s",
    "SELECT s FROM {t} GROUP BY s, k ORDER BY k DESC",
    "SELECT x.s, x.n FROM (SELECT s, count(*) AS n FROM {t} GROUP BY s) AS x WHERE n > 1 ORDER BY x.s DESC",
    "SELECT * FROM (SELECT s, count(*) AS n FROM {t} GROUP BY s ORDER BY s LIMIT 20000) "
    "ORDER BY n DESC, s DESC",
    "SELECT s, kind, v FROM {t} WHERE v < 40000 ORDER BY kind, s DESC, v",
    "SELECT k, sum(v) AS total FROM {t} GROUP BY k ORDER BY total",
    "SELECT s, count(*) AS n FROM {t} GROUP BY s UNION ALL SELECT kind, count(*) FROM {t} GROUP BY kind "
    "ORDER BY s NULLS FIRST, n",
    "SELECT s, row_number() OVER (PARTITION BY kind ORDER BY s) AS r FROM (SELECT DISTINCT s, kind FROM {t}) "
    "ORDER BY s",
    "SELECT a.s, b.kind, count(*) AS n FROM {t} a JOIN other b ON a.k = b.k "
    "GROUP BY a.s, b.kind ORDER BY a.s",
    "SELECT DISTINCT ON (s) s, v FROM {t} ORDER BY s, v DESC",
]


@pytest.mark.parametrize(("table", "mode"), [("t", "auto"), ("ns", "auto"), ("ns", "always")])
@pytest.mark.parametrize("text", ORDERED)
def test_rows_come_in_the_order_of_the_statement(root, memory, text, table, mode):
    query = text.format(t=table)
    context = lance_df.connect(root, partitioned_joins=mode)
    rows = assert_same_result(context.sql(query), memory.sql(query))
    assert rows.num_rows == 30 or rows["s" if "s" in rows.schema.names else 0].num_chunks > 1


@pytest.mark.parametrize("text", ORDERED[:4])
def test_views_prepared_statements_and_streams_are_ordered(root, memory, text):
    query, context = text.format(t="t"), lance_df.connect(root)
    expected = memory.sql(query)
    context.sql(f"PREPARE p AS {query}")
    assert_same_result(context.sql("EXECUTE p"), expected)
    for each in (context, memory):
        each.sql(f"CREATE OR REPLACE VIEW ordered AS {query}")
    # DataFusion leaves out the sort of a view that a statement chooses from
    assert_same_result(context.sql("SELECT * FROM ordered"), memory.sql("SELECT * FROM ordered"))
    assert_same_result(context.table("ordered"), memory.table("ordered"))
    streamed = [batch.to_pyarrow() for batch in context.sql(query).execute_stream()]  # of one scan
    assert pa.Table.from_batches(streamed).equals(expected.to_arrow_table())


def test_many_groups_of_a_large_table(tmp_path):
    rows = _rows(400_000, 60_000)
    lance_df.write_dataset(rows, tmp_path / "t.lance")
    memory = datafusion.SessionContext()
    memory.from_arrow(rows, "t")
    query = "SELECT s, count(*) AS n, max(kind) AS m FROM t GROUP BY s ORDER BY s"
    assert_same_result(lance_df.connect(tmp_path).sql(query), memory.sql(query))


def test_functions_of_the_session_do_not_undo_the_order(root):
    query = "SELECT murmur3(s) AS h, s, count(*) AS n FROM t GROUP BY s ORDER BY s"
    found = lance_df.connect(root).sql(query).to_arrow_table()["s"].to_pylist()
    assert found == sorted(found)
    assert len(found) == KEYS


def test_the_comparison_sees_what_is_out_of_order(memory):
    ordered = memory.sql("SELECT s, count(*) AS n FROM t GROUP BY s ORDER BY s")
    assert order_columns(ordered) == [0]
    for wrong in (
        "SELECT s, count(*) AS n FROM t GROUP BY s ORDER BY s DESC",
        "SELECT s, count(*) AS m FROM t GROUP BY s ORDER BY s",
        "SELECT s, CAST(count(*) AS INT) AS n FROM t GROUP BY s ORDER BY s",
        "SELECT s, nullif(count(*), 0) AS n FROM t GROUP BY s ORDER BY s",
        "SELECT s, count(*) + 1 AS n FROM t GROUP BY s ORDER BY s",
    ):
        with pytest.raises(AssertionError):
            assert_same_result(memory.sql(wrong), ordered)
    by_other = memory.sql("SELECT s FROM t GROUP BY s, k ORDER BY k")
    assert order_columns(by_other) == []
    with pytest.raises(AssertionError):
        assert_same_result(memory.sql("SELECT s FROM t GROUP BY s, k ORDER BY k DESC"), by_other)
    assert order_columns(memory.sql("SELECT s, upper(s) AS u FROM (SELECT s FROM t ORDER BY s)")) is None


@pytest.mark.parametrize(
    ("written", "rewritten", "message"),
    [
        ("SELECT s FROM t ORDER BY s", "SELECT s FROM t", "ordered by None"),
        ("SELECT s FROM t ORDER BY s", "SELECT s FROM t ORDER BY s DESC", "ordered by"),
        ("SELECT s FROM t ORDER BY s", "SELECT s FROM t ORDER BY s NULLS FIRST", "ordered by"),
        ("SELECT s FROM t ORDER BY s, k", "SELECT s FROM t ORDER BY s", "ordered by"),
        ("SELECT s FROM t ORDER BY s", "SELECT arrow_cast(s, 'Utf8') AS s FROM "
         "(SELECT arrow_cast(s, 'Utf8View') AS s FROM t ORDER BY s LIMIT 99999)", "ordered by None"),
        ("SELECT s FROM t", "SELECT s AS x FROM t", "columns"),
        ("SELECT k FROM t", "SELECT CAST(k AS INT) AS k FROM t", "columns"),
        ("SELECT k FROM t", "SELECT coalesce(k, 0) AS k FROM t", "columns"),
        ("SELECT s FROM t", "SELECT s FROM t ORDER BY s", None),
        ("SELECT s FROM t ORDER BY k LIMIT 3", "SELECT s FROM t ORDER BY k LIMIT 3", None),
    ],
)  # fmt: skip
def test_what_is_lost_is_said(memory, written, rewritten, message):
    frame, anew = memory.sql(written), memory.sql(rewritten)
    lost = lost_by_rewriting(frame, optimized_plan_of(frame), anew)
    assert (lost is None) if message is None else message in lost


def test_keys_that_the_optimizer_leaves_out_are_not_lost(memory):
    frame = memory.sql("SELECT s, count(*) AS n FROM t GROUP BY s ORDER BY s, n")
    optimized = optimized_plan_of(frame)
    assert lost_by_rewriting(frame, optimized, frame) is None


def _cast_above(planned, context):
    frame = planned.frame
    return planned.replanned(
        frame.select(*(datafusion.col(each.name).cast(each.type).alias(each.name) for each in frame.schema()))
    )


def _fails(planned, context):
    raise KeyError("a mistake in a rule")


def _is_refused(planned, context):
    planned.plan({}).frame.aggregate([datafusion.col("nowhere")], [])


def _is_ambiguous(planned, context):
    frame = planned.plan({}).frame
    return planned.replanned(frame.select(datafusion.col("t.s"), datafusion.lit(1).alias("s")))


def _finds_damage(planned, context):
    raise lance_df.errors.CorruptDataError("a file is damaged")


def _requests_nonsense(planned, context):
    raise lance_df.errors.InvalidInputError("a column is requested twice")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (_cast_above, "ordered by None"),
        (_fails, "KeyError: 'a mistake in a rule'"),
        (_is_refused, "No field named nowhere|FieldNotFound"),
        (_requests_nonsense, "InvalidInputError: a column is requested twice"),
        (_is_ambiguous, None),
        (_finds_damage, None),
    ],
)
def test_a_rule_that_is_wrong_is_left_out(root, memory, monkeypatch, rule, message):
    query = "SELECT s, count(*) AS n FROM t GROUP BY s ORDER BY s"
    monkeypatch.setattr(string_views, "string_views", rule)
    context = lance_df.connect(root)
    if message is None:
        frame = context.sql(query)
        assert "rule string_views skipped" in str(context.explain_scan(query))
    else:
        with pytest.raises(lance_df.LanceError, match=message):  # as warnings are errors here
            context.sql(query)
        with pytest.warns(RewriteWarning, match=message):
            frame = context.sql(query)
        with pytest.warns(RewriteWarning):
            report = context.explain_scan(query)
        assert "rule string_views skipped" in str(report)
        assert re.search(message, str(report))
    assert_same_result(frame, memory.sql(query))


def test_a_view_that_is_replaced_between_two_plans(root, memory, monkeypatch):
    context = lance_df.connect(root)
    context.sql("CREATE VIEW v AS SELECT * FROM t")

    def replaced(planned, _):
        context.sql("CREATE OR REPLACE VIEW v AS SELECT * FROM other")
        found = planned.plan(planned.tables)
        return planned.replanned(found.frame, table_slots=found.table_slots)

    monkeypatch.setattr(string_views, "string_views", replaced)
    frame = context.sql("SELECT s, count(*) AS n FROM v GROUP BY s ORDER BY s")
    assert_same_result(frame, memory.sql("SELECT s, count(*) AS n FROM other GROUP BY s ORDER BY s"))


def test_rules_that_apply_are_reported(root):
    report = lance_df.connect(root).explain_scan("SELECT kind, max(s) FROM t GROUP BY kind")
    assert ("string_views", "applied") in [(each.rule, each.effect) for each in report.rules]


def test_rules_have_modules_and_functions_of_their_names():
    for rule in driver.RULES:
        module = __import__(f"lance_df.engine.optimizer.rules.{rule.name}", fromlist=[rule.name])
        assert callable(getattr(module, rule.name))
