"""What nodes of DataFusion's plans are, whatever tables and columns are called."""

from __future__ import annotations

import datafusion
import pyarrow as pa
import pyarrow.dataset
import pytest

from lance_df.compute import expressions
from lance_df.engine.plans import nodes as plan_nodes
from lance_df.engine.plans.hidden_scans import HiddenScans, is_shown_by
from lance_df.engine.plans.nodes import optimized_plan_of, plan_of
from lance_df.engine.plans.walks import (
    chain,
    groups_rows,
    has_node,
    has_subquery,
    have_same_shape,
    holds_in_subquery,
    limits_rows,
    may_call,
    node_at,
    nodes,
    nodes_with_paths,
    scans_joined_without_keys,
)
from lance_df.sql.splice import quote_identifier

pytestmark = pytest.mark.engine

RELEASE = int(datafusion.__version__.partition(".")[0])
COLUMNS = [
    "fetch=1",
    'a" FILTER (WHERE ',
    "x DISTINCT ",
    "<subquery>",
    "größe 🙂",
    "new\nline",
    "a null_aware",
]
TABLES = [
    *("fetch=1", "<subquery>", "TableScan: ", "TableScan: t", " IN (<subquery>)", "Aggr", "größe 🙂"),
    *("new\nline", "t projection=[a]", "a.b", 'quoted "name"', "t\n  TableScan: u", "CAST(", "random()"),
]


@pytest.fixture(scope="module")
def context():
    rows = pa.table(
        {name: [1, 2, 2] for name in ("a", "b", *COLUMNS)} | {"s": ["x", "y", "z"], "d": [1.0, 2.0, None]}
    )
    found = datafusion.SessionContext()
    for name in ("t", "u", *TABLES):
        found.register_dataset(quote_identifier(name), pyarrow.dataset.dataset(rows))
    return found


def _plan(context, text, **names):
    quoted = {key: quote_identifier(name) for key, name in names.items()}
    return plan_of(context.sql(text.format(**quoted)))


def _optimized(context, text, **names):
    quoted = {key: quote_identifier(name) for key, name in names.items()}
    return optimized_plan_of(context.sql(text.format(**quoted)))


def _hidden(plan):
    return HiddenScans(plan, list(nodes(plan)))


def _first(plan, kind):
    return next(node for node in nodes(plan) if isinstance(node, kind))


@pytest.mark.parametrize("table", ["t", *TABLES])
@pytest.mark.parametrize("column", ["a", *COLUMNS])
def test_scans(context, table, column):
    plan = _optimized(context, "SELECT {c}, b FROM {t} WHERE {c} > 1 AND d = 2", c=column, t=table)
    scan = _first(plan, plan_nodes.Scan)
    assert scan.table == (None, table)
    assert sorted(scan.projection) == sorted(["b", column])
    assert scan.fetch is None
    assert [expressions.operator_of(each) for each in scan.filters] == [">", "="]
    assert sorted(scan.columns) == sorted([f"{table}.b", f"{table}.{column}"])
    assert scan.qualifier == table
    assert not limits_rows(plan)
    assert not has_subquery(plan)
    assert not holds_in_subquery(plan)
    assert not groups_rows(plan)


def test_a_scan_that_needs_some_rows(context):
    plan = _optimized(context, "SELECT a FROM t LIMIT 3")
    assert _first(plan, plan_nodes.Scan).fetch == 3
    assert limits_rows(plan)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("LIMIT 3", (3, 0)),
        ("LIMIT 0", (0, 0)),
        ("LIMIT 3 OFFSET 2", (3, 2)),
        ("OFFSET 2", (None, 2)),
        ("LIMIT 9223372036854775807", (2**63 - 1, 0)),
    ],
)
def test_limits(context, text, rows):
    plan = _plan(context, f'SELECT a, "fetch=1" FROM "fetch=1" {text}')
    assert _first(plan, plan_nodes.Limit).rows == rows
    assert limits_rows(plan)


@pytest.mark.parametrize("text", ["LIMIT 2 + 1", "LIMIT (SELECT 1)", "OFFSET 1 + 1"])
def test_a_limit_that_is_no_number(context, text):
    limit = _first(_plan(context, f"SELECT a FROM t {text}"), plan_nodes.Limit)
    with pytest.raises(ValueError, match="not a limit by numbers"):
        limit.rows  # noqa: B018


def test_sorts(context):
    plan = _optimized(context, 'SELECT a FROM t ORDER BY b DESC NULLS LAST, "x DISTINCT " LIMIT 5')
    sort = _first(plan, plan_nodes.Sort)
    assert sort.fetch == 5
    keys = [(expressions.column_name(key.expr), key.is_ascending, key.has_nulls_first) for key in sort.keys]
    assert keys == [("b", False, False), ("x DISTINCT ", True, False)]
    assert [str(key) for key in sort.keys] == ["t.b DESC NULLS LAST", "t.x DISTINCT  ASC NULLS LAST"]
    assert limits_rows(plan)
    again = _first(_optimized(context, "SELECT a, b FROM t ORDER BY b DESC NULLS LAST"), plan_nodes.Sort)
    assert again.keys[0].identity == sort.keys[0].identity
    other = _first(_optimized(context, "SELECT a, b FROM t ORDER BY b DESC NULLS FIRST"), plan_nodes.Sort)
    assert other.keys[0].identity != sort.keys[0].identity
    assert not limits_rows(_optimized(context, "SELECT a, b FROM t ORDER BY b"))


def test_a_distinct_on_is_no_distinct(context):
    assert _first(_plan(context, "SELECT DISTINCT a FROM t"), plan_nodes.Distinct).is_of_all_columns
    plan = _plan(context, "SELECT DISTINCT ON (a) a, b FROM t")
    assert not _first(plan, plan_nodes.Distinct).is_of_all_columns


@pytest.mark.parametrize("column", ["a", *COLUMNS])
def test_aggregates(context, column):
    plan = _plan(context, "SELECT sum({c}), count(DISTINCT b), {c} + 1 FROM t GROUP BY {c} + 1", c=column)
    aggregate = _first(plan, plan_nodes.Aggregate)
    assert [(call.function, call.is_distinct, call.is_plain) for call in aggregate.calls] == [
        ("sum", False, True),
        ("count", True, True),
    ]
    assert [expressions.columns_read(each, ["b", column]) for each in aggregate.groups] == [{column}]
    assert not aggregate.has_grouping_sets
    assert groups_rows(plan)


def test_grouping_sets(context):
    plan = _optimized(context, "SELECT a, s, count(*) FROM t GROUP BY ROLLUP (a, s)")
    assert _first(plan, plan_nodes.Aggregate).has_grouping_sets


def test_windows(context):
    text = "SELECT sum(a) OVER (PARTITION BY b, s ORDER BY d), sum(b) OVER (PARTITION BY b, s) FROM t"
    plan = _optimized(context, text)
    windows = [node for node in nodes(plan) if isinstance(node, plan_nodes.Window)]
    found = [[expressions.column_name(each) for each in keys] for node in windows for keys in node.partitions]
    assert found == [["b", "s"], ["b", "s"]]
    assert groups_rows(plan)


def test_projections(context):
    plan = _plan(context, 'SELECT a AS z, b, a + b, "new\nline" FROM t')
    projection = _first(plan, plan_nodes.Projection)
    assert [*projection.outputs] == ["z", "b", "t.a + t.b", "new\nline"]
    assert not projection.computes_nothing
    renamed = _first(_plan(context, "SELECT a AS z, b FROM t"), plan_nodes.Projection)
    assert (renamed.computes_nothing, renamed.chooses_only) == (True, False)
    chosen = _first(_plan(context, "SELECT b, a FROM t"), plan_nodes.Projection)
    assert (chosen.computes_nothing, chosen.chooses_only) == (True, True)


def test_a_name_that_two_columns_have_is_of_neither(context):
    plan = _plan(context, "SELECT x.a, y.a FROM t AS x, t AS y")
    assert _first(plan, plan_nodes.Projection).outputs == {"a": None}


@pytest.mark.parametrize(
    ("join", "how", "is_by_columns", "has_filter"),
    [
        ("x JOIN u AS y ON x.a = y.a", "Inner", True, False),
        ("x JOIN u AS y ON x.a = y.a AND x.b < y.b", "Inner", True, True),
        ("x JOIN u AS y ON x.a + 1 = y.a", "Inner", False, False),
        ("x JOIN u AS y USING (a)", "Inner", True, False),
        ("x LEFT JOIN u AS y ON x.a = y.a", "Left", True, False),
        ("x FULL JOIN u AS y ON x.a = y.a", "Full", True, False),
        ("x LEFT SEMI JOIN u AS y ON x.a = y.a", "LeftSemi", True, False),
        ("x LEFT ANTI JOIN u AS y ON x.a = y.a", "LeftAnti", True, False),
        ("x JOIN u AS y ON x.a < y.a", "Inner", False, True),
    ],
)
def test_joins(context, join, how, is_by_columns, has_filter):
    node = _first(_optimized(context, f"SELECT x.d FROM t AS {join}"), plan_nodes.Join)
    assert (node.how, node.is_by_columns, node.filter is not None) == (how, is_by_columns, has_filter)
    assert not node.null_equals_null
    assert node.is_inner_by_columns == (how == "Inner" and is_by_columns)
    assert not node.may_be_null_aware(holds_in=False)


def test_joins_in_which_null_equals_null(context):
    plan = _optimized(context, "SELECT x.a FROM t AS x JOIN u AS y ON x.a IS NOT DISTINCT FROM y.a")
    node = _first(plan, plan_nodes.Join)
    assert node.null_equals_null
    assert not node.is_inner_by_columns


@pytest.mark.parametrize("column", ["a", *COLUMNS])
@pytest.mark.parametrize("table", ["u", *TABLES])
def test_anti_joins_of_not_in_are_null_aware(context, column, table):
    text = "SELECT a FROM t WHERE {c} NOT IN (SELECT {c} FROM {u})"
    raw = _plan(context, text, c=column, u=table)
    assert holds_in_subquery(raw)
    node = _first(_optimized(context, text, c=column, u=table), plan_nodes.Join)
    assert node.how == "LeftAnti"
    assert node.may_be_null_aware(holds_in_subquery(raw)) == (RELEASE >= 52)


@pytest.mark.parametrize("column", ["a", *COLUMNS])
@pytest.mark.parametrize("more", ["", " AND {u}.b < t.b"])
def test_other_anti_joins_are_not(context, column, more):
    text = "SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM {u} WHERE {u}.{c} = t.{c}" + more + ")"
    raw = _plan(context, text, c=column, u="fetch=1")
    assert not holds_in_subquery(raw)
    node = _first(_optimized(context, text, c=column, u="fetch=1"), plan_nodes.Join)
    assert node.how == "LeftAnti"
    assert not node.may_be_null_aware(holds_in_subquery(raw))


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM t WHERE a IN (SELECT a FROM u)",
        "SELECT a FROM t WHERE NOT a IN (SELECT a FROM u)",
        "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.b NOT IN (SELECT b FROM t))",
        "SELECT (SELECT max(a) FROM u WHERE b NOT IN (SELECT b FROM t)) FROM t",
        "SELECT sum(a) FROM t HAVING sum(a) IN (SELECT a FROM u)",
        "VALUES (1), (2), (3), (4), (5), (6), ((SELECT max(a) FROM t WHERE a NOT IN (SELECT a FROM u)))",
    ],
)
def test_in_subqueries_are_seen(context, text):
    assert holds_in_subquery(_plan(context, text))


def test_values_show_some_rows_and_hold_all(context):
    plan = _plan(context, "VALUES (1), (2), (3), (4), (5), (6), ((SELECT max(random()) FROM t))")
    values = _first(plan, plan_nodes.Values)
    assert values.has_subquery
    assert may_call(plan, ["random"])
    plan = _plan(context, "VALUES (1.0), (2), (3), (4), (5), (6), (random())")
    assert not _first(plan, plan_nodes.Values).has_subquery
    assert may_call(plan, ["random"])
    assert not may_call(plan, ["uuid"])


@pytest.mark.parametrize(
    ("condition", "cannot_fail"),
    [
        ("a < b AND (d >= 1.5 OR s != 'x')", True),
        ("a IS NULL OR NOT (s IS NOT NULL) OR (a = b) IS TRUE OR (a < b) IS NOT UNKNOWN", True),
        ("(a IS DISTINCT FROM b) AND a BETWEEN 1 AND b AND b IN (a, 7)", True),
        ("CAST(a AS DOUBLE) < d AND CAST(a AS BIGINT) = b", True),
        ("CAST(a AS INT) = b", False),
        ("CAST(s AS BIGINT) = b", False),
        ("CAST(d AS BIGINT) = b", False),
        ("a + 1 < b", False),
        ("-a < b", False),
        ("s LIKE 'x%'", False),
        ("abs(a) < b", False),
        ("random() < d", False),
        ("a IN (SELECT b FROM u)", False),
        ("a = (SELECT max(b) FROM u)", False),
    ],
)
def test_what_cannot_fail(context, condition, cannot_fail):
    predicate = _first(_plan(context, f"SELECT a FROM t WHERE {condition}"), plan_nodes.Filter).predicate
    types = {"t.a": pa.int64(), "t.b": pa.int64(), "t.d": pa.float64(), "t.s": pa.string()}
    assert expressions.cannot_fail(predicate, types) is cannot_fail
    if cannot_fail:
        assert expressions.qualified_columns(predicate) <= types.keys()
    without_types = expressions.cannot_fail(predicate, {})
    assert without_types is (cannot_fail and "CAST" not in condition)


def test_empty_relations(context):
    assert _first(_plan(context, "SELECT 1"), plan_nodes.EmptyRelation).has_row
    empty = _first(_optimized(context, "SELECT a FROM t WHERE false"), plan_nodes.EmptyRelation)
    assert not empty.has_row


def test_nodes_without_a_class_of_their_own(context):
    node = _plan(context, "EXPLAIN SELECT a FROM t")
    assert type(node) is plan_nodes.PlanNode
    assert node.expressions is None
    assert not node.has_subquery


@pytest.mark.parametrize(
    ("text", "is_called"),
    [
        ("SELECT random() FROM t", True),
        ("SELECT a FROM t WHERE random() > 0.5", True),
        ("SELECT sum(a) FROM t GROUP BY random()", True),
        ("SELECT a FROM t ORDER BY random()", True),
        ("SELECT sum(a) OVER (PARTITION BY random()) FROM t", True),
        ("SELECT x.a FROM t AS x JOIN u AS y ON x.d + random() > y.a", True),
        ("SELECT a FROM t WHERE a > (SELECT max(a) FROM u WHERE random() > 0.5)", True),
        ('SELECT "random()".a FROM "random()" WHERE "random()".b > 1', False),
        ("SELECT 'random()', a FROM t", False),
    ],
)
def test_calls_of_a_plan(context, text, is_called):
    assert may_call(_plan(context, text), expressions.VOLATILE_FUNCTIONS) is is_called


def test_walks(context):
    plan = _optimized(context, "SELECT x.a, count(*) FROM t AS x JOIN u AS y ON x.a = y.a GROUP BY x.a")
    found = dict(nodes_with_paths(plan))
    scans = [path for path, node in found.items() if isinstance(node, plan_nodes.Scan)]
    assert len(scans) == 2
    for path in scans:
        assert [type(node) for node in chain(plan, path)] == [
            type(node_at(plan, path[:depth])) for depth in range(len(path) + 1)
        ]
    assert node_at(plan, scans[1]).table == (None, "u")
    assert has_node(plan, plan_nodes.Join)
    assert not has_node(plan, plan_nodes.Window, plan_nodes.Union)


@pytest.mark.parametrize("table", ["u", *TABLES])
@pytest.mark.parametrize("column", ["a", *COLUMNS])
def test_a_scan_inside_an_expression_is_not_missed(context, table, column):
    text = "SELECT a FROM t WHERE a > (SELECT max({c}) FROM {u} WHERE {c} > 0)"
    plan = _optimized(context, text, c=column, u=table)
    visible = {node.table[1] for node in nodes(plan) if isinstance(node, plan_nodes.Scan)}
    hidden = _hidden(plan)
    assert table in visible or hidden.may_read(table)
    assert has_subquery(plan) == (table not in visible)


@pytest.mark.parametrize("table", ["t", *TABLES])
def test_a_table_that_is_scanned_inside_an_expression_and_outside(context, table):
    text = "SELECT a FROM {t} WHERE a > (SELECT max(a) FROM {t})"
    plan = _optimized(context, text, t=table)
    scans = [node for node in nodes(plan) if isinstance(node, plan_nodes.Scan)]
    assert len(scans) == 2 or _hidden(plan).may_read(table)


@pytest.mark.parametrize("qualified", ["u", "public.u", "datafusion.public.u"])
def test_scans_inside_expressions_are_known_under_all_names(context, qualified):
    plan = _optimized(context, f"SELECT a FROM u WHERE a > (SELECT max(a) FROM {qualified})")
    scans = [node for node in nodes(plan) if isinstance(node, plan_nodes.Scan)]
    assert len(scans) == 2 or _hidden(plan).may_read("u")
    assert not _hidden(plan).may_read("public")


def test_tables_that_are_only_scanned_in_sight(context):
    text = "SELECT t.a FROM t, {u} WHERE t.a = {u}.a AND t.a > (SELECT max(a) FROM u)"
    for table in TABLES:
        hidden = _hidden(_optimized(context, text, u=table))
        assert not hidden.may_read("t")
        if table != "t\n  TableScan: u":
            assert not hidden.may_read(table), table


@pytest.mark.parametrize("table", ["u", *(name for name in TABLES if "\n " not in name)])
def test_scans_inside_expressions_that_may_be_blocked(context, table):
    blocked = "SELECT a FROM t WHERE a > (SELECT max(a) FROM {u} WHERE b > 1 AND NULL)"
    plan = _optimized(context, blocked, u=table)
    shown = _hidden(plan).may_be_blocked
    assert not has_subquery(plan) or any(is_shown_by(table, each) for each in shown)
    plain = _optimized(context, "SELECT a FROM t WHERE a > (SELECT max(a) FROM {u} WHERE b > 1)", u=table)
    assert not [each for each in _hidden(plain).may_be_blocked if is_shown_by("t", each)]


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("SELECT t.a FROM t CROSS JOIN u", {"t", "u"}),
        ("SELECT t.a FROM t JOIN u ON t.a < u.a WHERE t.b > 1", {"t", "u"}),
        ("SELECT t.a FROM t JOIN u ON t.a = u.a", set()),
        ("SELECT t.a FROM t JOIN u ON t.a = u.a AND t.b < u.b", set()),
        ("SELECT t.a FROM t CROSS JOIN (SELECT max(a) AS m FROM u WHERE b > 1) x", set()),
        ("SELECT t.a FROM t CROSS JOIN (SELECT a, count(*) AS n FROM u GROUP BY a) x", {"t"}),
        ("SELECT * FROM (SELECT count(*) AS n FROM t) x CROSS JOIN (SELECT count(*) AS m FROM u) y", set()),
        ("SELECT x.a FROM t x JOIN t y ON x.a = y.a CROSS JOIN u", {"t", "u"}),
        ("SELECT t.a FROM t LEFT JOIN (SELECT a FROM u ORDER BY a LIMIT 5) x ON t.a > x.a", {"t", "u"}),
        ("SELECT sum(t.a) FROM t CROSS JOIN u", {"t", "u"}),
        ("SELECT t.a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a > t.a)", {"t", "u"}),
        ("SELECT a FROM t UNION ALL SELECT t.a FROM t CROSS JOIN u", {"t", "u"}),
    ],
)
def test_scans_that_are_joined_without_keys(context, text, joined):
    plan = _optimized(context, text)
    assert {node_at(plan, path).table[1] for path in scans_joined_without_keys(plan)} == joined


def test_plans_of_one_shape(context):
    texts = [
        "SELECT a FROM t WHERE a IN (SELECT a FROM u WHERE b + 1 > 2)",
        "SELECT a FROM t WHERE a IN (SELECT a FROM u WHERE b + 1 > 3)",
        "SELECT a FROM u WHERE a IN (SELECT a FROM u WHERE b + 1 > 2)",
        "SELECT a FROM t",
    ]
    # names that the optimizer makes up differ from one planning to the next
    other = _optimized(context, f"SELECT * FROM ({texts[0]}) WHERE a IN (SELECT a FROM u)")
    plans = [_optimized(context, text) for text in texts]
    assert have_same_shape(plans[0], _optimized(context, texts[0]))
    assert not any(have_same_shape(plans[0], each) for each in (*plans[1:], other))
    joins = [node for node in nodes(other) if isinstance(node, plan_nodes.Join)]
    assert any(have_same_shape(plans[0], each) for each in joins)
