"""Put other frames in the place of parts of a logical plan, and build anew what is above them.

DataFusion's Python API cannot change a plan. It can make a frame of any part of one, and a frame's methods
take the very expressions that plan nodes have.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import Any, Final

from lance_df.compute.compat import (
    DataFrame,
    Expr,
    PlainSessionContext,
    limit_of,
    plan_schema,
    variant,
)
from lance_df.engine.qualified_columns import QualifiedColumn, renaming

Path = tuple[int, ...]

_NO_LIMIT: Final = 2**62
_HOW: Final = {"Inner": "inner", "Left": "left", "Right": "right", "Full": "full", "LeftSemi": "semi"}


class NotRebuiltError(Exception):
    """A plan has a node that a frame has no method for."""


def columns_of(frame: DataFrame, plan: Any) -> list[QualifiedColumn]:
    """Return the columns of a plan, of which ``frame`` is made."""
    shown = plan_schema(variant(plan))
    return [QualifiedColumn.of(each, name) for each, name in zip(shown, frame.schema().names, strict=True)]


def rebuilt(
    ctx: PlainSessionContext, plan: Any, path: Path, replacements: Mapping[Path, DataFrame]
) -> DataFrame:
    """Return a frame of ``plan`` in which the nodes at some paths are other frames, with the same columns.

    Raises
    ------
    NotRebuiltError
        It cannot be built.
    """
    if path in replacements:
        return replacements[path]
    if not any(other[: len(path)] == path for other in replacements):
        return ctx.create_dataframe_from_logical_plan(plan)
    inputs = [
        rebuilt(ctx, child, (*path, number), replacements) for number, child in enumerate(plan.inputs())
    ]
    return rebuilt_node(ctx, plan, inputs)


def rebuilt_node(ctx: PlainSessionContext, plan: Any, inputs: Sequence[DataFrame]) -> DataFrame:
    """Return a frame of the topmost node of ``plan`` over other inputs, with the same columns.

    Raises
    ------
    NotRebuiltError
        It cannot be built.
    """
    if plan.display() == "Distinct:":  # it shows no columns: they are those of its input
        return inputs[0].distinct()
    return checked(_node(ctx, plan, inputs), plan)


def carried(ctx: PlainSessionContext, plan: Any, path: Path, names: Collection[str]) -> DataFrame:
    """Return a frame of ``plan`` that has some more columns, which those at the end of a path have.

    Raises
    ------
    NotRebuiltError
        It cannot be built.
    """
    frame = ctx.create_dataframe_from_logical_plan(plan)
    missing = set(names).difference(frame.schema().names)
    if not missing:
        return frame
    inputs = [
        carried(ctx, child, path[1:], names)
        if number == path[0]
        else ctx.create_dataframe_from_logical_plan(child)
        for number, child in enumerate(plan.inputs())
    ]
    return _node(ctx, plan, inputs, missing)


def checked(frame: DataFrame, plan: Any) -> DataFrame:
    """Return ``frame`` if its columns are those of ``plan``.

    Raises
    ------
    NotRebuiltError
        They are not.
    """
    found = plan_schema(variant(frame.logical_plan()))
    if found != plan_schema(variant(plan)):
        raise NotRebuiltError(f"its columns would be {found}")
    return frame


def has_joins_above(plan: Any, paths: Sequence[Path]) -> bool:
    """Whether a node above one of the paths has several inputs."""
    pending: list[tuple[Any, Path]] = [(plan, ())]
    while pending:
        node, path = pending.pop()
        if path in paths or not any(other[: len(path)] == path for other in paths):
            continue
        inputs = node.inputs()
        if len(inputs) > 1:
            return True
        pending += [(child, (*path, number)) for number, child in enumerate(inputs)]
    return False


def _node(
    ctx: PlainSessionContext, plan: Any, inputs: Sequence[DataFrame], more: Collection[str] = ()
) -> DataFrame:
    detail = variant(plan)
    match type(detail).__name__, inputs:
        case "Projection", [frame]:
            below = columns_of(frame, frame.logical_plan()) if more else []
            others = [Expr.column(str(column)) for column in below if column.name in more]
            return frame.select(*map(Expr, detail.projections()), *others)
        case "Filter", [frame]:
            return frame.filter(Expr(detail.predicate()))
        case "Aggregate", [frame]:
            return frame.aggregate(
                [Expr(each) for each in detail.group_by_exprs()],
                [Expr(each) for each in detail.aggregate_exprs()],
            )
        case "Sort", [frame]:
            ordered = DataFrame(frame.df.sort(*detail.sort_exprs()))
            count = detail.get_fetch_val()
            return ordered if count is None else ordered.limit(count)
        case "Limit", [frame]:
            count, skip = limit_of(plan)
            return frame.limit(_NO_LIMIT if count is None else count, skip)
        case "SubqueryAlias", [frame]:
            return _with_alias(ctx, frame, detail)
        case "WindowExpr", [frame]:
            below = [Expr.column(str(column)) for column in columns_of(frame, frame.logical_plan())]
            return frame.select(*below, *map(Expr, detail.get_window_expr()))
        case "Union", [first, *others]:
            return reduce(DataFrame.union, others, first)
        case "Join", [left, right]:
            return _joined(left, right, detail)
    raise NotRebuiltError(f"above it is {plan.display()!r:.80}, which cannot be built anew")


def _with_alias(ctx: PlainSessionContext, frame: DataFrame, detail: Any) -> DataFrame:
    below = columns_of(frame, frame.logical_plan())
    names = [f"c{number}" for number in range(len(below))]
    plain = frame.select(
        *(Expr.column(str(column)).alias(name) for column, name in zip(below, names, strict=True))
    )
    shown = list(zip(plan_schema(detail), frame.schema().names, strict=False))
    renamed = [QualifiedColumn.of(each, name) for each, name in shown]
    # what is carried along
    renamed += [QualifiedColumn((str(detail.alias()),), each.name) for each in below[len(shown) :]]
    return plain.select(*renaming(ctx, list(zip(names, renamed, strict=True))))


def _joined(left: DataFrame, right: DataFrame, detail: Any) -> DataFrame:
    how = _HOW.get(str(detail.join_type()))
    if how is None or detail.null_equals_null():
        raise NotRebuiltError(f"above it is a join, {detail.join_type()}, which cannot be built anew")
    conditions = [Expr(one) == Expr(other) for one, other in detail.on()]
    if detail.filter() is not None:
        conditions.append(Expr(detail.filter()))
    return left.join_on(right, *(conditions or [Expr.literal(True)]), how=how)
