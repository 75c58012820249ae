"""Results of statements, compared with those of DataFusion over the same rows in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from datafusion import DataFrame, SessionContext

from lance_df.compute import expressions
from lance_df.engine.plans.nodes import Projection, Sort, SubqueryAlias, plan_of
from lance_df.engine.plans.order import sort_path
from lance_df.engine.plans.walks import node_at

_DIGITS = 9


def assert_same_result(found: DataFrame, expected: DataFrame) -> pa.Table:
    """Compare two frames of one statement, and return the rows of the first.

    Names, types and nullability of the columns are equal, and the batches have the types that the frame
    declares. Equal rows occur equally often, and they come in the order of the statement: if it orders them
    by columns of the result, rows of equal keys in any order among them; where it orders them by something
    else, in exactly the same order, so such a statement has to leave no choice. Floats are compared in nine
    digits, because sums depend on the order of rows.
    """
    wanted = collected(expected)
    declared = found.schema()
    assert declared.names == wanted.schema.names
    assert declared.types == wanted.schema.types
    assert [field.nullable for field in declared] == [field.nullable for field in expected.schema()]
    rows = collected(found)
    assert rows.schema.types == declared.types
    if rows.columns == wanted.columns:
        return rows
    keys = order_columns(expected)
    if keys is None:
        assert Counter(rows_of(rows)) == Counter(rows_of(wanted))
    elif not keys:
        assert rows_of(rows) == rows_of(wanted)
    else:
        assert rows_of(rows.select(keys)) == rows_of(wanted.select(keys))
        assert Counter(rows_of(rows)) == Counter(rows_of(wanted))
    return rows


def collected(frame: DataFrame) -> pa.Table:
    """Return the rows with the types that they have: DataFusion's own frames may declare others.

    Some of its batches have no NULL where others may, so the types are what is said of them all.
    """
    batches = frame.collect()
    shown = batches[0].schema if batches else frame.schema()
    schema = pa.schema([field.with_nullable(True) for field in shown])
    return pa.Table.from_batches(
        [pa.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in batches], schema
    )


def in_memory(tables: Mapping[str, pa.Table]) -> SessionContext:
    """Return a context of DataFusion's own that has tables in memory."""
    ctx = SessionContext()
    for name, rows in tables.items():
        ctx.from_arrow(rows, name)
    return ctx


def rows_of(table: pa.Table) -> list[str]:
    """Return the rows in their order, as texts."""
    columns = [list(map(_rounded, column.to_pylist())) for column in table.columns]
    return [repr(row) for row in zip(*columns, strict=True)] if columns else ["()"] * table.num_rows


def order_columns(frame: DataFrame) -> list[int] | None:
    """Return the columns of the result that order it, none if others do; None if it is not ordered."""
    plan = plan_of(frame)
    path = sort_path(plan)
    if path is None:
        return None
    sort = node_at(plan, path)
    assert isinstance(sort, Sort)
    names = [expressions.shown(key.expr) for key in sort.keys]
    for depth in range(len(path) - 1, -1, -1):
        node = node_at(plan, path[:depth])
        if isinstance(node, SubqueryAlias):
            return []
        if isinstance(node, Projection):
            assert node.computes_nothing
            renamed = dict(zip(map(_column, node.expressions), node.columns, strict=True))
            names = [renamed.get(name, "") for name in names]
    columns = plan.columns
    return [columns.index(name) for name in names] if set(names) <= set(columns) else []


def _column(expr: Any) -> str:
    return expressions.shown(expressions.unaliased(expr))


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, list):
        return list(map(_rounded, value))
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    return value
