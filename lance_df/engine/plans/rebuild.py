"""Replace parts of a logical plan with other frames, and rebuild the nodes above them.

DataFusion's Python API cannot change a plan. It can create a frame from any part of a plan, and the methods
of frames accept the expressions of plan nodes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, Final

from lance_df.compute.compat import DataFrame, Expr, PlainSessionContext
from lance_df.compute.expressions import output_name, qualified_name
from lance_df.engine.plans.nodes import (
    NO_LIMIT,
    Aggregate,
    Distinct,
    Filter,
    Join,
    Limit,
    PlanNode,
    Projection,
    Sort,
    SubqueryAlias,
    Union,
    Window,
    frame_of,
    plan_of,
)
from lance_df.engine.plans.qualified_columns import QualifiedColumn, renaming
from lance_df.engine.plans.walks import Path

_HOW: Final = {
    "Inner": "inner",
    "Left": "left",
    "Right": "right",
    "Full": "full",
    "LeftSemi": "semi",
    "LeftAnti": "anti",
}
# before 53, errors are printed as Rust writes them
_AMBIGUOUS: Final = re.compile(
    r"Schema error: Schema contains |SchemaError\((AmbiguousReference|Duplicate(Un)?[qQ]ualifiedField)\b"
)


class NotRebuiltError(Exception):
    """A plan has a node that no method of a frame can build."""


@contextmanager
def refusals() -> Iterator[None]:
    """Raise `NotRebuiltError` if DataFusion refuses a plan because names of columns would be ambiguous.

    These may be names in the statement, or names that its optimizer makes up. All other errors pass.
    """
    try:
        yield
    except Exception as err:
        # DataFusion raises no specific exception if planning fails
        if type(err) is Exception and _AMBIGUOUS.search(str(err)) is not None:
            raise NotRebuiltError(f"names of columns would be ambiguous: {err}") from err
        raise


def columns_of(frame: DataFrame, node: PlanNode | None = None) -> list[QualifiedColumn]:
    """Return the columns of a frame.

    Parameters
    ----------
    node
        The plan of the frame, if it is known.

    Raises
    ------
    NotRebuiltError
        The tables of the columns are not known.
    """
    node = plan_of(frame) if node is None else node
    while isinstance(node, Distinct):  # it has the columns of its input, but does not show them
        if not node.is_of_all_columns:
            raise NotRebuiltError("it has a DISTINCT ON, whose columns are unknown")
        (node,) = node.inputs
    shown = node.columns
    return [QualifiedColumn.of(each, name) for each, name in zip(shown, frame.schema().names, strict=True)]


def rebuilt(
    ctx: PlainSessionContext, node: PlanNode, path: Path, replacements: Mapping[Path, DataFrame]
) -> DataFrame:
    """Return a frame of ``node`` in which frames with the same columns replace the nodes at some paths.

    Raises
    ------
    NotRebuiltError
        The frame cannot be built.
    """
    if path in replacements:
        return replacements[path]
    if not any(other[: len(path)] == path for other in replacements):
        return frame_of(ctx, node)
    inputs = [rebuilt(ctx, child, (*path, number), replacements) for number, child in enumerate(node.inputs)]
    return rebuilt_node(ctx, node, inputs)


def rebuilt_node(ctx: PlainSessionContext, node: PlanNode, inputs: Sequence[DataFrame]) -> DataFrame:
    """Return a frame of a node with other inputs that have the same columns.

    Raises
    ------
    NotRebuiltError
        The frame cannot be built.
    """
    if isinstance(node, Distinct) and node.is_of_all_columns:  # its columns are those of its input
        return inputs[0].distinct()
    return checked(_node(ctx, node, inputs), node)


def carried(ctx: PlainSessionContext, node: PlanNode, path: Path, names: Collection[str]) -> DataFrame:
    """Return a frame of ``node`` with additional columns, passed up from the node at the end of a path.

    Raises
    ------
    NotRebuiltError
        The frame cannot be built.
    """
    frame = frame_of(ctx, node)
    missing = set(names).difference(frame.schema().names)
    if not missing:
        return frame
    inputs = [
        carried(ctx, child, path[1:], names) if number == path[0] else frame_of(ctx, child)
        for number, child in enumerate(node.inputs)
    ]
    return _node(ctx, node, inputs, missing)


def checked(frame: DataFrame, node: PlanNode) -> DataFrame:
    """Return ``frame`` if its columns are those of ``node``.

    Raises
    ------
    NotRebuiltError
        The columns differ.
    """
    columns, wanted = plan_of(frame).columns, node.columns
    if columns != wanted:
        raise NotRebuiltError(f"its columns would be {columns}")
    return frame


def has_joins_above(plan: PlanNode, paths: Sequence[Path]) -> bool:
    """Whether a node above one of the paths has several inputs."""
    pending: list[tuple[PlanNode, Path]] = [(plan, ())]
    while pending:
        node, path = pending.pop()
        if path in paths or not any(other[: len(path)] == path for other in paths):
            continue
        inputs = node.inputs
        if len(inputs) > 1:
            return True
        pending += [(child, (*path, number)) for number, child in enumerate(inputs)]
    return False


def _node(
    ctx: PlainSessionContext, node: PlanNode, inputs: Sequence[DataFrame], more: Collection[str] = ()
) -> DataFrame:
    match node, inputs:
        case Projection(), [frame]:
            below = columns_of(frame) if more else []
            others = [Expr.column(str(column)) for column in below if column.name in more]
            return frame.select(*map(Expr, node.expressions), *others)
        case Filter(), [frame]:
            return frame.filter(Expr(node.predicate))
        case Aggregate(), [frame]:
            grouped = frame.aggregate(list(map(Expr, node.groups)), list(map(Expr, node.aggregates)))
            # above grouping sets, a frame adds a projection that drops the grouping set of each row
            return frame_of(ctx, plan_of(grouped).inputs[0]) if node.has_grouping_sets else grouped
        case Sort(), [frame]:
            ordered = sorted_by(frame, node.sort_exprs)
            return ordered if node.fetch is None else ordered.limit(node.fetch)
        case Limit(), [frame]:
            count, skip = node.rows
            return frame.limit(NO_LIMIT if count is None else count, skip)
        case SubqueryAlias(), [frame]:
            return _with_alias(ctx, frame, node)
        case Window(), [frame]:
            below = [Expr.column(str(column)) for column in columns_of(frame)]
            return frame.select(*below, *map(Expr, node.expressions))
        case Union(), [first, *others]:
            return reduce(DataFrame.union, others, first)
        case Join(), [left, right]:
            return _joined(left, right, node)
    raise NotRebuiltError(f"above it is {node.shown!r:.80}, which cannot be rebuilt")


def _with_alias(ctx: PlainSessionContext, frame: DataFrame, alias: SubqueryAlias) -> DataFrame:
    below = columns_of(frame)
    plain = with_numbered_columns(frame)
    shown = list(zip(alias.columns, frame.schema().names, strict=False))
    renamed = [QualifiedColumn.of(each, name) for each, name in shown]
    # what is carried along
    renamed += [QualifiedColumn((alias.name,), each.name) for each in below[len(shown) :]]
    return plain.select(*renaming(ctx, list(zip(plain.schema().names, renamed, strict=True))))


def sorted_by(frame: DataFrame, sort_exprs: Sequence[Any]) -> DataFrame:
    """Return the rows of a frame sorted by columns of the frame.

    Directly above a projection such as ``a AS b, b AS a``, DataFusion resolves ``a`` to the expression below
    the projection instead of to the output column.
    """
    if isinstance(plan_of(frame), Projection):
        frame = frame.filter(Expr.literal(True))
    return DataFrame(frame.df.sort(*sort_exprs))


def numbered_name(number: int) -> str:
    """Return a unique name that stands in for a column whose name may not be unique."""
    return f"__lance_df_{number}"


def with_numbered_columns(frame: DataFrame, node: PlanNode | None = None) -> DataFrame:
    """Return a frame whose columns are renamed to numbered names, because their names may not be unique.

    Parameters
    ----------
    node
        The plan of the frame, if it is known.
    """
    columns = columns_of(frame, node)
    return frame.select(
        *(Expr.column(str(column)).alias(numbered_name(number)) for number, column in enumerate(columns))
    )


def _joined(left: DataFrame, right: DataFrame, join: Join) -> DataFrame:
    how = _HOW.get(join.how)
    # frames have no anti join in which NULL keys matter
    if how is None or join.may_be_null_aware(holds_in=True):
        raise NotRebuiltError(f"above it is a {join.how} join, which cannot be rebuilt")
    conditions = _null_safe(left, right, join) if join.null_equals_null else conditions_of(join)
    return left.join_on(right, *(conditions or [Expr.literal(True)]), how=how)


def _null_safe(left: DataFrame, right: DataFrame, join: Join) -> list[Expr]:
    """Return the conditions of a join in which NULL equals NULL, as in INTERSECT and EXCEPT."""
    # DataFusion uses these as keys if there are no other conditions
    if join.filter is not None or not join.is_by_columns:
        raise NotRebuiltError(
            "above it is a join with more conditions than equal columns, in which NULL equals NULL"
        )
    # Python has no expression for the operator, so it is parsed from text, over the columns of both sides
    both = left.join_on(right, Expr.literal(True), how="inner")
    return [
        Expr(both.parse_sql_expr(f"{_column_sql(one)} IS NOT DISTINCT FROM {_column_sql(other)}").expr)
        for one, other in join.on
    ]


def _column_sql(key: Any) -> str:
    return str(QualifiedColumn.of(qualified_name(key) or "", output_name(key)))


def conditions_of(join: Join) -> list[Expr]:
    """Return the conditions of a join: the equal keys and the filter."""
    conditions = [Expr(one) == Expr(other) for one, other in join.on]
    return conditions if join.filter is None else [*conditions, Expr(join.filter)]
