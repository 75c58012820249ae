"""Refuse comparisons of timestamps with times of a finer unit, which DataFusion truncates.

DataFusion 55 moves the cast from a column to the literal: ``ts >= TIMESTAMP '2024-03-10 06:59:59.5'`` is
``ts >= TIMESTAMP '2024-03-10 06:59:59'`` where ``ts`` has seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_df.compute.compat import Expr, PlainSessionContext
from lance_df.compute.expressions import (
    holds_subquery,
    literal,
    may_call,
    qualified_columns,
    shown,
    unaliased,
    uncast,
)
from lance_df.engine.plans.comparisons import Inputs, comparisons
from lance_df.engine.plans.nodes import Projection, optimized_plan_of
from lance_df.engine.plans.walks import has_subquery, nodes
from lance_df.errors import UnsupportedFeatureError
from lance_df.expr.literals import is_text
from lance_df.sql.dialect import STRINGS, tokenize

if TYPE_CHECKING:
    from lance_df.engine.plans.nodes import PlanNode

_NANOSECONDS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
# functions of the current time, whose digits the user does not choose
_CLOCKS: Final = frozenset({"now", "current_timestamp", "current_date", "current_time", "today"})
_TIME: Final = re.compile(r"-\d\d?[T\s]\s*\d\d?:\d\d:\d\d\.\d")
_FRACTION: Final = re.compile(r"\.(\d+)")


def check_time_comparisons(
    ctx: PlainSessionContext, plan: PlanNode, text: str = "", schemas: Iterable[pa.Schema] = ()
) -> None:
    """Check the time comparisons of an unoptimized plan that selects the rows to change.

    Parameters
    ----------
    text
        The SQL of the plan. Python cannot access the plans of subqueries in expressions. If there are any,
        each literal in the text counts as compared with each column.
    schemas
        The schemas of the tables that the plan reads.

    Raises
    ------
    UnsupportedFeatureError
        Timestamps are compared with a time of a finer unit.
    """
    for node in nodes(plan):
        for operands in comparisons(node):
            constants: list[Any] = []
            others: list[Any] = []
            for expr in operands:
                (others if qualified_columns(expr) or holds_subquery(expr) else constants).append(expr)
            if constants and others:
                _check(ctx, Inputs(ctx, node), constants, others)
    if has_subquery(plan):
        _check_literals(text, schemas)


def _check(ctx: PlainSessionContext, inputs: Inputs, constants: list[Any], others: list[Any]) -> None:
    for expr in others:
        # the coarser unit counts if an expression is cast to a finer one
        units = {_unit(inputs, expr), _unit(inputs, uncast(expr)[0])}
        unit = next((each for each in _NANOSECONDS if each in units), "ns")
        if unit == "ns":
            continue
        for constant in constants:
            time = _nanoseconds(ctx, constant)
            if time is not None and time % _NANOSECONDS[unit]:
                raise _cut(f"{shown(expr)} with {shown(constant)}", unit)


def _unit(inputs: Inputs, expr: Any) -> str | None:
    """Return the unit of an expression with timestamps, or None for other values."""
    field = inputs.field(expr)
    return str(field.type.unit) if field is not None and pa.types.is_timestamp(field.type) else None


def _nanoseconds(ctx: PlainSessionContext, expr: Any) -> int | None:
    """Return the time of a constant in nanoseconds; None for other constants and functions of the clock."""
    value = literal(expr)
    if value is None and not may_call(expr, _CLOCKS):
        rows = PlainSessionContext.sql(ctx, "SELECT 1")
        try:
            plan = optimized_plan_of(rows.select(Expr(expr).cast(pa.timestamp("ns"))))
        except Exception:  # noqa: BLE001 - it raises nothing narrower
            return None  # then the comparison fails, too
        value = literal(unaliased(plan.expressions[0])) if isinstance(plan, Projection) else None
    if value is None or not value.is_valid:
        return None
    if pa.types.is_timestamp(value.type):
        return int(value.value) * _NANOSECONDS[value.type.unit]
    return _fraction(str(value)) if is_text(value.type) else None


def _fraction(text: str) -> int:
    """Return the fraction of a second in the text of a time, in nanoseconds."""
    digits = _FRACTION.search(text)
    return 0 if digits is None else int(digits[1].ljust(9, "0")[:9])


def _check_literals(text: str, schemas: Iterable[pa.Schema]) -> None:
    units = {each.unit for schema in schemas for each in schema.types if pa.types.is_timestamp(each)}
    unit = next((each for each in _NANOSECONDS if each in units), "ns")
    for token in tokenize(text):
        is_time = token.token_type in STRINGS and _TIME.search(token.text) is not None
        if is_time and _fraction(token.text) % _NANOSECONDS[unit]:
            raise _cut(repr(token.text), unit)


def _cut(what: str, unit: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"the comparison of {what} is not supported in a change, because DataFusion truncates times to the "
        f"unit of the timestamps, {unit}; use a time of that unit"
    )
