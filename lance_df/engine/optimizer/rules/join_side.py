"""Rebuild the hash joins of a statement in an order with few rows, with the smaller side as build side.

DataFusion builds on the left side of a join in memory. It swaps the sides if statistics ask for it, but it
does not receive statistics through Python. This rule therefore rebuilds the plan: it swaps sides, moves semi
joins down to the table that has their keys, and puts inner joins in an order that costs clearly less than the
order as written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_df.compute.compat import OPTIMIZER_PASSES, DataFrame, Expr, PlainSessionContext, with_settings
from lance_df.compute.expressions import cannot_fail, qualified_columns, qualified_name
from lance_df.engine.optimizer.join_order import Edge, Order, Pair, better_order, inputs_of
from lance_df.engine.optimizer.join_sizes import Size, scanned_size, semi_joined, size_above
from lance_df.engine.optimizer.planned import WORTH_ROWS
from lance_df.engine.plans.nodes import (
    Aggregate,
    Filter,
    Join,
    PlanNode,
    Projection,
    Scan,
    SubqueryAlias,
    frame_of,
    optimized_plan_of,
)
from lance_df.engine.plans.rebuild import checked, columns_of, conditions_of, rebuilt_node
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.engine.optimizer.planned import Context, Planned
    from lance_df.engine.statement import PlannedTable

_SWAPPED: Final = {"Inner": "inner", "Left": "right", "Right": "left", "Full": "full"}
_MATCHED: Final = "__lance_df_matched"
# estimates are rough, and rebuilding a plan takes time
_CLEARLY_SMALLER: Final = 0.7
# only the joins of the optimized plan have changed; after a single pass, unused columns would remain
_PASSES: Final = "2"


def join_side(planned: Planned, context: Context) -> Planned | None:
    """Let joins build on the smaller side, in an order with few rows."""
    tables = tuple(planned.tables.values())
    schema = frame_of(context.session, planned.optimized).schema()
    built = with_small_sides_built(context.session, tables, schema, planned.optimized)
    if built is None:
        return None
    frame, optimized = built
    # with grouping sets, the nullability in an optimized plan is more precise
    is_as_written = frame.schema() == planned.frame.schema()
    return planned.replanned(frame if is_as_written else planned.frame, optimized)


def with_small_sides_built(
    ctx: PlainSessionContext, tables: Sequence[PlannedTable], schema: pa.Schema, plan: PlanNode
) -> tuple[DataFrame, PlanNode] | None:
    """Return a frame with the same rows whose joins build on the smaller side, and its optimized plan.

    None if nothing changes or DataFusion cannot plan it.

    Parameters
    ----------
    tables
        The tables that the plan reads.
    schema, plan
        The schema of the rows, and an optimized plan.
    """
    tree = _chosen(_ordered(_semi_joins_below(_tree(ctx, plan, tables))))
    if not tree.is_changed:
        return None
    try:
        anew = _frame(with_settings(ctx, {OPTIMIZER_PASSES: _PASSES}), tree)
        # DataFusion only reports a failure when it optimizes the plan
        optimized = optimized_plan_of(anew)
    except Exception:  # noqa: BLE001 - if DataFusion rejects the new plan, the statement stays unchanged
        return None
    return (anew, optimized) if anew.schema() == schema else None


@dataclass(frozen=True, slots=True)
class _Key:
    """Two equal columns of different inputs, with the numbers of the inputs."""

    inputs: tuple[int, int]
    columns: tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class _Condition:
    """An additional condition for matching rows, with the numbers of the inputs that it reads."""

    inputs: frozenset[int]
    predicate: Any


@dataclass(frozen=True, slots=True)
class _Tree:
    """A plan node, possibly with other inputs than in the plan.

    ``joins_inner`` states that the node is an inner join that may change places with other joins. ``semi_on``
    contains the keys of a semi join of ``inputs``, which replaces the node and has its columns. If ``order``
    is set, inner joins of all ``inputs``, with the keys ``joined_on`` and ``conditions``, replace the node.
    """

    node: PlanNode
    inputs: tuple[_Tree, ...]
    size: Size | None
    joins_inner: bool = False
    is_swapped: bool = False
    is_changed: bool = False
    semi_on: tuple[tuple[Any, Any], ...] = ()
    order: Order | None = None
    joined_on: tuple[_Key, ...] = ()
    conditions: tuple[_Condition, ...] = ()

    @property
    def columns(self) -> list[str]:
        return self.node.columns

    def over(self, inputs: tuple[_Tree, ...]) -> _Tree:
        """Return the node with other inputs that have the same columns."""
        if all(one is other for one, other in zip(inputs, self.inputs, strict=True)):
            return self
        is_changed = self.is_changed or any(each.is_changed for each in inputs)
        if self.order is not None:
            return replace(self, inputs=inputs)
        return replace(self, inputs=inputs, size=_size(self.node, inputs), is_changed=is_changed)


def _tree(ctx: PlainSessionContext, node: PlanNode, tables: Sequence[PlannedTable]) -> _Tree:
    if isinstance(node, Scan):
        return _Tree(node, (), scanned_size(node, tables))
    inputs = tuple(_tree(ctx, child, tables) for child in node.inputs)
    joins_inner = isinstance(node, Join) and node.is_inner_by_columns and _may_move(ctx, node)
    return _Tree(node, inputs, _size(node, inputs), joins_inner)


def _may_move(ctx: PlainSessionContext, join: Join) -> bool:
    """Whether a join has no filter, or one that raises no errors if rows arrive in another order."""
    if join.filter is None:
        return True
    below = [frame_of(ctx, each).schema() for each in join.inputs]
    names = [name for each in join.inputs for name in each.columns]
    types = [field.type for schema in below for field in schema]
    return len(names) == len(types) and cannot_fail(join.filter, dict(zip(names, types, strict=True)))


def _size(node: PlanNode, inputs: Sequence[_Tree]) -> Size | None:
    sizes = [each.size for each in inputs if each.size is not None]
    return size_above(node, sizes) if inputs and len(sizes) == len(inputs) else None


def _semi_joins_below(tree: _Tree) -> _Tree:
    """Move semi joins down to the inputs that have their keys, unless these inputs are larger."""
    tree = tree.over(tuple(map(_semi_joins_below, tree.inputs)))
    join = tree.node
    if not isinstance(join, Join) or join.how != "LeftSemi" or join.filter is not None:
        return tree
    left, right = tree.inputs
    if join.null_equals_null or not join.is_by_columns or left.size is None or right.size is None:
        return tree
    if left.size.rows < WORTH_ROWS:
        return tree
    on = tuple(join.on)
    ordered = _semi_joined(left, right, on, {qualified_name(key) for key, _ in on})
    # the semi join stays where it is if no other position is better
    return ordered if ordered.inputs != tree.inputs or _builds_right(left, right) else tree


def _semi_joined(left: _Tree, right: _Tree, on: tuple[tuple[Any, Any], ...], keys: set[str | None]) -> _Tree:
    assert left.size is not None
    assert right.size is not None
    for number, child in enumerate(left.inputs if _lets_through(left) else ()):
        if child.size is None or child.size.rows > left.size.rows or not keys.issubset(child.columns):
            continue
        inputs = list(left.inputs)
        inputs[number] = _semi_joined(child, right, on, keys)
        return left.over(tuple(inputs))
    return _Tree(
        left.node,
        (left, right),
        semi_joined(on, left.size, right.size),
        is_changed=True,
        semi_on=on,
    )


def _lets_through(tree: _Tree) -> bool:
    """Whether a semi join above the node can be moved below it."""
    if tree.semi_on:
        return False
    match tree.node:
        case Join() as join:
            return join.how == "Inner"
        case Projection() as projection:
            return projection.chooses_only
        case _:
            return isinstance(tree.node, Filter)


def _ordered(tree: _Tree) -> _Tree:
    """Reorder inner joins by columns if the new order costs clearly less."""
    if not _is_inner(tree):
        return tree.over(tuple(map(_ordered, tree.inputs)))
    inputs: list[_Tree] = []
    written = _joined_inputs(tree, inputs)
    inputs = list(map(_ordered, inputs))
    sizes = [each.size for each in inputs if each.size is not None]
    if len(inputs) < 3 or len(sizes) < len(inputs) or max(size.rows for size in sizes) < WORTH_ROWS:
        return _over_inputs(tree, iter(inputs))
    matched = _matched(tree, inputs)
    order = None
    if matched is not None:
        edges = [_edge(key, sizes) for key in matched[0]]
        order = better_order([size.rows for size in sizes], edges, written)
    if matched is None or order is None:
        return _over_inputs(tree, iter(inputs))
    keys, conditions = matched
    return replace(
        tree, inputs=tuple(inputs), is_changed=True, order=order, joined_on=keys, conditions=conditions
    )


def _is_inner(tree: _Tree) -> bool:
    """Whether a node is a movable inner join."""
    return not tree.semi_on and tree.joins_inner


def _is_passed(tree: _Tree) -> bool:
    """Whether a node is a selection of columns between inner joins."""
    return (
        isinstance(tree.node, Projection)
        and _lets_through(tree)
        and (_is_inner(*tree.inputs) or _is_passed(*tree.inputs))
    )


def _joined_inputs(tree: _Tree, leaves: list[_Tree]) -> Order:
    """Append the inputs of nested inner joins to a list, and return the order in which they are joined."""
    if _is_passed(tree):
        return _joined_inputs(tree.inputs[0], leaves)
    if _is_inner(tree):
        one, other = tree.inputs
        return Pair(_joined_inputs(one, leaves), _joined_inputs(other, leaves))
    leaves.append(tree)
    return len(leaves) - 1


def _over_inputs(tree: _Tree, inputs: Iterator[_Tree]) -> _Tree:
    """Return nested inner joins with other inputs, given in the order of `_joined_inputs`."""
    if _is_passed(tree) or _is_inner(tree):
        return tree.over(tuple(_over_inputs(each, inputs) for each in tree.inputs))
    return next(inputs)


def _matched(tree: _Tree, inputs: Sequence[_Tree]) -> tuple[tuple[_Key, ...], tuple[_Condition, ...]] | None:
    """Return all keys and filters of nested inner joins; None if their inputs are ambiguous."""
    owners: dict[str, int] = {}
    for number, each in enumerate(inputs):
        for name in each.columns:
            if owners.setdefault(name, number) != number:
                return None
    keys: list[_Key] = []
    conditions: list[_Condition] = []
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node.node, Join) and _is_inner(node):
            for one, other in node.node.on:
                first, second = (owners.get(qualified_name(key) or "") for key in (one, other))
                if first is None or second is None:
                    return None
                keys.append(_Key((first, second), (one, other)))
            if node.node.filter is not None:
                read = {owners.get(name) for name in qualified_columns(node.node.filter)}
                known = frozenset(number for number in read if number is not None)
                if None in read or len(known) < 2:
                    return None
                conditions.append(_Condition(known, node.node.filter))
        elif not _is_passed(node):
            continue
        pending += node.inputs
    return (tuple(keys), tuple(conditions)) if keys else None


def _edge(key: _Key, sizes: Sequence[Size]) -> Edge:
    (first, second), (one, other) = key.inputs, key.columns
    return Edge(
        key.inputs,
        (qualified_name(one) or "", qualified_name(other) or ""),
        (sizes[first].among(one), sizes[second].among(other)),
    )


def _chosen(tree: _Tree) -> _Tree:
    """Swap the sides of joins if the right side is clearly smaller."""
    tree = tree.over(tuple(map(_chosen, tree.inputs)))
    join = tree.node
    if not isinstance(join, Join) or tree.semi_on or tree.order is not None:
        return tree
    can_swap = join.how in _SWAPPED and bool(join.on or join.how == "Inner")
    if join.null_equals_null or not (can_swap or _is_plain_anti(join)):
        return tree
    return replace(tree, is_swapped=True, is_changed=True) if _builds_right(*tree.inputs) else tree


def _is_plain_anti(join: Join) -> bool:
    """Whether a join is a left anti join on plain columns, without a filter and NULL-aware keys."""
    return (
        join.how == "LeftAnti"
        and join.filter is None
        and join.is_by_columns
        and not join.may_be_null_aware(holds_in=True)
    )


def _builds_right(left: _Tree, right: _Tree) -> bool:
    if left.size is None or right.size is None:
        return False
    return left.size.rows >= WORTH_ROWS and right.size.rows < _CLEARLY_SMALLER * left.size.rows


def _frame(ctx: PlainSessionContext, tree: _Tree) -> DataFrame:
    if not tree.is_changed:
        return frame_of(ctx, tree.node)
    inputs = [_frame(ctx, each) for each in tree.inputs]
    if tree.semi_on:
        return _semi_frame(tree, *inputs)
    if tree.order is not None:
        return _with_columns(ctx, _joined_frame(tree, tree.order, inputs), tree.node)
    if tree.is_swapped and isinstance(tree.node, Join):
        left, right = inputs
        if tree.node.how not in _SWAPPED:
            anti = _anti_frame(tree, tree.node, left, right)
            return rebuilt_node(ctx, tree.node, inputs) if anti is None else anti
        conditions = conditions_of(tree.node) or [Expr.literal(True)]
        joined = right.join_on(left, *conditions, how=_SWAPPED[tree.node.how])
        return _with_columns(ctx, joined, tree.node)
    return rebuilt_node(ctx, tree.node, inputs)


def _semi_frame(tree: _Tree, left: DataFrame, right: DataFrame) -> DataFrame:
    conditions = [Expr(one) == Expr(other) for one, other in tree.semi_on]
    one, other = tree.inputs
    is_unique = _is_unique(other, len(tree.semi_on))
    keys = right if is_unique else right.select(*(Expr(key) for _, key in tree.semi_on))
    if not (_builds_right(one, other) and (is_unique or _groups_as_joins(keys))):
        return checked(left.join_on(right, *conditions, how="semi"), tree.node)
    columns = [Expr.column(str(column)) for column in columns_of(left, tree.node)]
    right = keys if is_unique else keys.distinct()
    return checked(right.join_on(left, *conditions, how="inner").select(*columns), tree.node)


def _groups_as_joins(keys: DataFrame) -> bool:
    """Whether grouping and joining agree on which values are equal; they may differ for zeros and NaNs."""
    types = [field.type for field in keys.schema()]
    return not any(pa.types.is_floating(each) or pa.types.is_nested(each) for each in types)


def _anti_frame(tree: _Tree, join: Join, left: DataFrame, right: DataFrame) -> DataFrame | None:
    """Return the rows of the left side without a match, with an outer join that builds on the right side.

    Frames have no anti join that builds on the right side, and one that builds on the left side returns all
    rows in one thread. None if the keys cannot be made distinct.
    """
    conditions = [Expr(one) == Expr(other) for one, other in join.on]
    keys = right.select(*(Expr(key) for _, key in join.on))
    if not _is_unique(tree.inputs[1], len(join.on)):
        if not _groups_as_joins(keys):
            return None
        keys = keys.distinct()
    columns = [Expr.column(str(column)) for column in columns_of(left, tree.inputs[0].node)]
    matched = keys.select(
        *(Expr.column(str(column)) for column in columns_of(keys)), Expr.literal(True).alias(_MATCHED)
    )
    joined = matched.join_on(left, *conditions, how="right").filter(Expr.column(_MATCHED).is_null())
    return checked(joined.select(*columns), tree.node)


def _joined_frame(tree: _Tree, order: Order, inputs: Sequence[DataFrame]) -> DataFrame:
    if isinstance(order, int):
        return inputs[order]
    ones, others = inputs_of(order.one), inputs_of(order.other)
    conditions = [
        Expr(key.columns[0]) == Expr(key.columns[1])
        for key in tree.joined_on
        for one, other in [key.inputs]
        if (one in ones and other in others) or (one in others and other in ones)
    ]
    conditions += [
        Expr(each.predicate)
        for each in tree.conditions
        if each.inputs <= ones | others and not (each.inputs <= ones or each.inputs <= others)
    ]
    left, right = (_joined_frame(tree, each, inputs) for each in (order.one, order.other))
    joined = left.join_on(right, *conditions, how="inner")
    # DataFusion reorders consecutive joins, but not across a projection, which it removes unless the
    # projection changes something
    columns = columns_of(joined)
    return joined.select(*(Expr.column(str(column)) for column in reversed(columns)))


def _is_unique(tree: _Tree, num_keys: int) -> bool:
    """Whether the rows of a semi join's right side are distinct, with all of its columns being keys."""
    columns = tree.columns
    if len(columns) != num_keys:
        return False
    while not isinstance(tree.node, Aggregate):
        below = tree.inputs[0].columns if len(tree.inputs) == 1 else []
        match tree.node:
            case SubqueryAlias():
                columns = [below[tree.columns.index(name)] for name in columns]
            case Projection() as projection if projection.chooses_only:
                pass
            case Filter():
                pass
            case _:
                return False
        (tree,) = tree.inputs
    # columns of groups come first
    return sorted(columns) == sorted(tree.columns[: len(tree.node.groups)])


def _with_columns(ctx: PlainSessionContext, frame: DataFrame, node: PlanNode) -> DataFrame:
    columns = columns_of(frame_of(ctx, node), node)
    return checked(frame.select(*(Expr.column(str(column)) for column in columns)), node)
