"""What expressions of DataFusion are and read, whatever their columns are called."""

from __future__ import annotations

import datafusion
import pyarrow as pa
import pyarrow.dataset
import pytest

from lance_df.compute import expressions
from lance_df.compute.expressions import aggregate_call
from lance_df.sql.splice import quote_identifier

pytestmark = pytest.mark.engine

# names that look like parts of what DataFusion shows
HOSTILE = [
    "fetch=1",
    'a" FILTER (WHERE ',
    "a) FILTER (WHERE b",
    "a) ORDER BY [b ASC NULLS LAST]",
    "x DISTINCT ",
    "DISTINCT a",
    "<subquery>",
    "TableScan: ",
    "random()",
    "uuid(",
    "größe 🙂",
    "new\nline",
    "d.e",
    "t.a",
    "CAST(a AS Int8)",
    "IGNORE NULLS",
    " null_aware",
    "__made_up_1",
]


@pytest.fixture(scope="module")
def context():
    names = ["a", "b", "s", *HOSTILE]
    rows = pa.table({name: [1, 2, 2] if name != "s" else ["x", "y", "z"] for name in names})
    found = datafusion.SessionContext()
    for name in ("t", "u"):
        found.register_dataset(name, pyarrow.dataset.dataset(rows))
    return found


def _aggregates(context, text):
    plan = context.sql(text).logical_plan()
    while type(plan.to_variant()).__name__ != "Aggregate":
        (plan,) = plan.inputs()
    return plan.to_variant().aggregate_exprs()


def _computed(context, text):
    """Return the expressions of a SELECT, before anything is optimized."""
    return list(context.sql(text).logical_plan().to_variant().projections())


def _calls(context, *calls):
    listed = ", ".join(f"{call} AS c{number}" for number, call in enumerate(calls))
    return [aggregate_call(expr) for expr in _aggregates(context, f"SELECT {listed} FROM t")]


@pytest.mark.parametrize("name", ["a", *HOSTILE])
def test_a_call_without_modifiers_is_plain_whatever_its_columns_are_called(context, name):
    column = quote_identifier(name)
    (plain, distinct, added) = _calls(
        context, f"sum({column})", f"count(DISTINCT {column})", f"max({column} + 1)"
    )
    assert (plain.function, plain.is_distinct, plain.is_plain) == ("sum", False, True)
    assert [expressions.column_name(each) for each in plain.arguments] == [name]
    assert (distinct.function, distinct.is_distinct, distinct.is_plain) == ("count", True, True)
    assert (added.function, added.is_plain) == ("max", True)


@pytest.mark.parametrize("name", ["a", *HOSTILE])
@pytest.mark.parametrize(
    "call",
    [
        "sum({0}) FILTER (WHERE {0} > 1)",
        "sum({0}) FILTER (WHERE b > 1)",
        "first_value({0} ORDER BY {0})",
        "first_value({0} ORDER BY b DESC)",
        "first_value({0}) IGNORE NULLS",
        "first_value({0}) RESPECT NULLS",
        "array_agg({0} ORDER BY b) FILTER (WHERE b > 1)",
        "approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY {0})",
    ],
)
def test_a_call_with_a_modifier_is_not_plain(context, call, name):
    (found,) = _calls(context, call.format(quote_identifier(name)))
    assert not found.is_plain


def test_a_distinct_call_with_a_filter_is_both(context):
    (found,) = _calls(context, "sum(DISTINCT a) FILTER (WHERE b > 1)")
    assert (found.function, found.is_distinct, found.is_plain) == ("sum", True, False)


def test_a_call_of_a_cast_column_is_plain(context):
    plan = context.sql("SELECT corr(a, b), avg(a) FROM t").optimized_logical_plan()
    while type(plan.to_variant()).__name__ != "Aggregate":
        (plan,) = plan.inputs()
    calls = [aggregate_call(expr) for expr in plan.to_variant().aggregate_exprs()]
    assert [(call.function, call.is_plain) for call in calls] == [("corr", True), ("avg", True)]


def test_a_function_of_a_session_is_called_by_its_name(context):
    class Zero(datafusion.Accumulator):
        def update(self, *values): ...
        def merge(self, states): ...

        def state(self):
            return [pa.scalar(0)]

        def evaluate(self):
            return pa.scalar(0)

    other = datafusion.SessionContext()
    other.register_dataset("t", pyarrow.dataset.dataset(pa.table({"a": [1]})))
    other.register_udaf(
        datafusion.udaf(Zero, pa.int64(), pa.int64(), [pa.int64()], "immutable", name="my (agg) FILTER (")
    )
    (call,) = map(aggregate_call, _aggregates(other, 'SELECT "my (agg) FILTER ("(a) FROM t'))
    assert (call.function, call.is_plain) == ("my (agg) FILTER (", True)


@pytest.mark.parametrize("call", ["count(*)", "count(1)", "count(7)"])
def test_counts_of_rows_are_told(context, call):
    (found,) = _calls(context, call)
    assert found.counts_rows


@pytest.mark.parametrize(
    "call",
    [
        *("count(a)", "count(DISTINCT 1)", "count(*) FILTER (WHERE a > 1)", "count(NULL)", "count('x')"),
        *('count("DISTINCT a")', "sum(1)", "count(a, 1)"),
    ],
)
def test_other_counts_are_not_of_rows(context, call):
    (found,) = _calls(context, call)
    assert not found.counts_rows


def test_what_is_no_aggregate_is_no_call(context):
    assert [aggregate_call(each) for each in _computed(context, "SELECT a, abs(b), 1 FROM t")] == [None] * 3


@pytest.mark.parametrize("name", ["a", *HOSTILE])
@pytest.mark.parametrize(
    "expr", ["{0}", "{0} + 1", "abs({0})", "CASE WHEN {0} > 1 THEN {0} END", "sum({0}) OVER ()"]
)
def test_no_subquery_is_seen_where_there_is_none(context, expr, name):
    found = _computed(context, f"SELECT {expr.format(quote_identifier(name))} AS c FROM t")
    assert [expressions.holds_subquery(each) for each in found] == [False]


def test_a_name_like_a_subquery_in_what_is_only_shown_counts_as_one(context):
    [call] = _aggregates(context, 'SELECT sum(a) FILTER (WHERE "<subquery>" > 1) FROM t')
    assert expressions.holds_subquery(call)
    [call] = _aggregates(context, "SELECT sum(a) FILTER (WHERE b > 1) FROM t")
    assert not expressions.holds_subquery(call)


@pytest.mark.parametrize(
    "expr",
    [
        "(SELECT max(a) FROM u)",
        "a + (SELECT max(a) FROM u)",
        "abs((SELECT max(a) FROM u))",
        "CASE WHEN a > 1 THEN (SELECT max(a) FROM u) END",
        "a IN (SELECT a FROM u)",
        "a NOT IN (SELECT a FROM u)",
        "EXISTS (SELECT a FROM u)",
        "a IN (1, 2, (SELECT max(a) FROM u))",
        "(SELECT max(a) FROM u) IS NULL",
    ],
)
def test_subqueries_are_seen(context, expr):
    found = _computed(context, f"SELECT {expr} AS c FROM t")
    assert [expressions.holds_subquery(each) for each in found] == [True]


def test_a_subquery_of_a_filter_of_an_aggregate_is_seen(context):
    [call] = _aggregates(context, "SELECT sum(a) FILTER (WHERE b > (SELECT max(a) FROM u)) FROM t")
    assert expressions.holds_subquery(call)


@pytest.mark.parametrize(
    ("expr", "is_called"),
    [
        ("random()", True),
        ("a + 2 * random()", True),
        ("CASE WHEN random() > 0.5 THEN a END", True),
        ('"random()"', False),
        ('abs("random()")', False),
        ("'random()'", False),
        ("a", False),
    ],
)
def test_calls_of_functions_are_seen(context, expr, is_called):
    (found,) = _computed(context, f"SELECT {expr} AS c FROM t")
    assert expressions.may_call(found, expressions.VOLATILE_FUNCTIONS) is is_called


def test_calls_in_aggregates_are_seen(context):
    names = ("sum", "random")
    calls = [
        *("sum(a)", "max(random())", "max(a) FILTER (WHERE random() > 0.5)"),
        *("array_agg(a ORDER BY random())", 'max("random()")'),
    ]
    listed = ", ".join(f"{call} AS c{number}" for number, call in enumerate(calls))
    found = [expressions.may_call(expr, names) for expr in _aggregates(context, f"SELECT {listed} FROM t")]
    assert found == [True, True, True, True, False]


def test_calls_in_windows_are_seen(context):
    calls = [
        "sum(random()) OVER ()",
        "sum(a) OVER (ORDER BY random())",
        'sum("random()") OVER ()',
        "sum(a) OVER ()",
    ]
    found = []
    for call in calls:
        (plan,) = context.sql(f"SELECT {call} AS c FROM t").logical_plan().inputs()
        (expr,) = plan.to_variant().get_window_expr()
        found.append(expressions.may_call(expr, expressions.VOLATILE_FUNCTIONS))
    # of a window not all is given, so a name like a call may be one
    assert found == [True, True, True, False]


def test_columns_that_are_read(context):
    names = ["a", "b", "s", "x DISTINCT "]
    texts = ["a + b", "1", 'CASE WHEN "x DISTINCT " > 1 THEN s END', "'a'", "sum(a) OVER (PARTITION BY b)"]
    listed = ", ".join(f"{text} AS c{number}" for number, text in enumerate(texts))
    plan = context.sql(f"SELECT {listed} FROM t").logical_plan()
    found = [expressions.columns_read(expr, names) for expr in plan.to_variant().projections()]
    assert found[:4] == [{"a", "b"}, set(), {"x DISTINCT ", "s"}, set()]
    [call] = _aggregates(context, "SELECT sum(a) FILTER (WHERE b > 1) FROM t")
    assert expressions.columns_read(call, names) >= {"a", "b"}


@pytest.mark.parametrize("name", ["a", *HOSTILE])
def test_names_of_columns(context, name):
    plan = context.sql(f"SELECT {quote_identifier(name)}, {quote_identifier(name)} AS z FROM t AS x")
    plain, renamed = plan.logical_plan().to_variant().projections()
    assert [expressions.column_name(each) for each in (plain, renamed)] == [name, name]
    assert [expressions.qualified_name(each) for each in (plain, renamed)] == [f"x.{name}"] * 2
    assert [expressions.output_name(each) for each in (plain, renamed)] == [name, "z"]
    assert expressions.relation_of(plain) == "x"
    assert expressions.is_column(plain)
    assert not expressions.is_column(renamed)


def test_other_expressions_are_no_columns(context):
    (found,) = _computed(context, "SELECT a + 1 FROM t")
    assert expressions.column_name(found) is None
    assert expressions.qualified_name(found) is None
    assert expressions.relation_of(found) is None


@pytest.mark.parametrize("name", ["a", *HOSTILE])
@pytest.mark.parametrize(
    ("type_name", "shown"),
    [
        ("INT", "Int32"),
        ("DECIMAL(10, 2)", "Decimal128(10, 2)"),
        ("DOUBLE", "Float64"),
        ("DATE", "Date32"),
    ],
)
def test_types_of_casts(context, name, type_name, shown):
    (found,) = _computed(context, f"SELECT CAST({quote_identifier(name)} AS {type_name}) AS c FROM t")
    assert expressions.cast_type(expressions.unaliased(found)) == shown
    inner, casts = expressions.uncast(found)
    assert expressions.column_name(inner) == name
    assert len(casts) == 1


def test_columns_with_equal_texts_are_different(context):
    context.register_dataset("n", pyarrow.dataset.dataset(pa.table({"x.y": [1], "z": [2]})))
    one = context.sql('SELECT "x.y" FROM n').logical_plan().to_variant().projections()[0]
    (other,) = (
        context.sql('SELECT y FROM (SELECT z AS y FROM n) AS "n.x"').logical_plan().to_variant().projections()
    )
    assert expressions.shown(one) == expressions.shown(other) == "n.x.y"
    assert not expressions.same(one, other)
    assert expressions.same(one, one)


def test_literals(context):
    values = _computed(context, "SELECT 1 AS a, 'x' AS b, NULL AS c, 1 + 1 AS d FROM t")
    found = [expressions.literal(expressions.unaliased(each)) for each in values]
    assert [None if each is None else each.as_py() for each in found] == [1, "x", None, None]
    assert found[3] is None
    assert found[2] is not None


def test_conjuncts(context):
    text = "SELECT a FROM t WHERE a > 1 AND (b > 2 OR s = 'x AND y') AND s <> ' AND '"
    plan = context.sql(text).logical_plan().inputs()[0]
    found = list(expressions.conjuncts(plan.to_variant().predicate()))
    assert [expressions.operator_of(each) for each in found] == [">", "OR", "!="]
