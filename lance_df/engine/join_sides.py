"""Give the hash joins of a statement their smaller side to build on.

DataFusion builds the left side of a join in memory and swaps sides where statistics tell it to, which it gets
none of through Python. So the plan is built anew with the sides swapped, and with semi joins applied to the
table that they say something of, before that is joined with others. The order of inner joins stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from lance_df.compute.compat import DataFrame, Expr, PlainSessionContext, plan_schema, variant
from lance_df.engine.join_sizes import Size, scanned_size, semi_joined, size_above
from lance_df.engine.plan_rebuild import checked, columns_of, rebuilt_node
from lance_df.table.table import Table

if TYPE_CHECKING:
    from lance_df.engine.statement import ResolvedTable, Statement

_SWAPPED: Final = {"Inner": "inner", "Left": "right", "Right": "left", "Full": "full"}
# guesses are rough, and to build a plan anew takes time
_CLEARLY_SMALLER: Final = 0.7
_WORTH_ROWS: Final = 10_000


def with_small_sides_built(
    ctx: PlainSessionContext, statement: Statement, frame: DataFrame, plan: Any
) -> DataFrame | None:
    """Return a frame with the same rows, in which joins build on what is smaller; None if nothing changes.

    Parameters
    ----------
    frame, plan
        The statement, and its optimized plan.
    """
    tables = tuple(statement.tables.values())
    if not any(map(_may_be_large, tables)):
        return None
    tree = _chosen(_semi_joins_below(_tree(plan, tables)))
    if not tree.is_changed:
        return None
    try:
        anew = _frame(ctx, tree)
    except Exception:  # noqa: BLE001 - whatever DataFusion does not take, the statement stands as it is
        return None
    return anew if anew.schema() == frame.schema() else None


def _may_be_large(table: ResolvedTable) -> bool:
    rows = table.provider.table.told_rows() if isinstance(table.provider.table, Table) else None
    return rows is None or rows >= _WORTH_ROWS


@dataclass(frozen=True, slots=True)
class _Tree:
    """A node of a plan, perhaps over other inputs than it has there.

    ``semi_on`` has the keys of a semi join of ``inputs``, which stands in for the node and has its columns.
    """

    plan: Any
    inputs: tuple[_Tree, ...]
    size: Size | None
    is_swapped: bool = False
    is_changed: bool = False
    semi_on: tuple[tuple[Any, Any], ...] = ()

    @property
    def kind(self) -> str:
        return type(variant(self.plan)).__name__

    def over(self, inputs: tuple[_Tree, ...]) -> _Tree:
        """Return the node over other inputs of the same columns."""
        if all(one is other for one, other in zip(inputs, self.inputs, strict=True)):
            return self
        is_changed = self.is_changed or any(each.is_changed for each in inputs)
        return replace(self, inputs=inputs, size=_size(self.plan, inputs), is_changed=is_changed)


def _tree(plan: Any, tables: Sequence[ResolvedTable]) -> _Tree:
    inputs = tuple(_tree(child, tables) for child in plan.inputs())
    detail = variant(plan)
    if type(detail).__name__ == "TableScan":
        return _Tree(plan, (), scanned_size(detail, tables))
    return _Tree(plan, inputs, _size(plan, inputs))


def _size(plan: Any, inputs: Sequence[_Tree]) -> Size | None:
    sizes = [each.size for each in inputs if each.size is not None]
    if not inputs or len(sizes) < len(inputs):
        return None
    detail = variant(plan)
    return size_above(type(detail).__name__, detail, plan, sizes)


def _semi_joins_below(tree: _Tree) -> _Tree:
    """Apply semi joins as far below as their keys come from, where that is not larger."""
    tree = tree.over(tuple(map(_semi_joins_below, tree.inputs)))
    if tree.kind != "Join":
        return tree
    detail = variant(tree.plan)
    if str(detail.join_type()) != "LeftSemi" or detail.filter() is not None or detail.null_equals_null():
        return tree
    left, right = tree.inputs
    on = tuple(detail.on())
    if not on or left.size is None or right.size is None or left.size.rows < _WORTH_ROWS:
        return tree
    found = _semi_joined(left, right, on, {key.canonical_name() for key, _ in on})
    # the semi join stays where it is if no other is better
    return found if found.inputs != tree.inputs or _builds_right(left, right) else tree


def _semi_joined(left: _Tree, right: _Tree, on: tuple[tuple[Any, Any], ...], keys: set[str]) -> _Tree:
    assert left.size is not None
    assert right.size is not None
    for number, child in enumerate(left.inputs if _lets_through(left) else ()):
        if child.size is None or child.size.rows > left.size.rows or not keys.issubset(_columns(child)):
            continue
        inputs = list(left.inputs)
        inputs[number] = _semi_joined(child, right, on, keys)
        return left.over(tuple(inputs))
    return _Tree(
        left.plan,
        (left, right),
        semi_joined(on, left.size, right.size),
        is_changed=True,
        semi_on=on,
    )


def _lets_through(tree: _Tree) -> bool:
    """Whether rows that a semi join leaves out above the node can be left out below it."""
    if tree.semi_on:
        return False
    detail = variant(tree.plan)
    if tree.kind == "Join":
        return str(detail.join_type()) == "Inner"
    if tree.kind == "Projection":
        return all(each.variant_name() == "Column" for each in detail.projections())
    return tree.kind == "Filter"


def _columns(tree: _Tree) -> list[str]:
    return plan_schema(variant(tree.plan))


def _chosen(tree: _Tree) -> _Tree:
    """Swap the sides of joins of which the right one is clearly smaller."""
    tree = tree.over(tuple(map(_chosen, tree.inputs)))
    if tree.kind != "Join" or tree.semi_on:
        return tree
    detail = variant(tree.plan)
    if str(detail.join_type()) not in _SWAPPED or not detail.on() or detail.null_equals_null():
        return tree
    return replace(tree, is_swapped=True, is_changed=True) if _builds_right(*tree.inputs) else tree


def _builds_right(left: _Tree, right: _Tree) -> bool:
    if left.size is None or right.size is None:
        return False
    return left.size.rows >= _WORTH_ROWS and right.size.rows < _CLEARLY_SMALLER * left.size.rows


def _frame(ctx: PlainSessionContext, tree: _Tree) -> DataFrame:
    if not tree.is_changed:
        return ctx.create_dataframe_from_logical_plan(tree.plan)
    inputs = [_frame(ctx, each) for each in tree.inputs]
    if tree.semi_on:
        return _semi_frame(tree, *inputs)
    if tree.is_swapped:
        detail = variant(tree.plan)
        left, right = inputs
        joined = right.join_on(left, *_conditions(detail), how=_SWAPPED[str(detail.join_type())])
        return _with_columns(ctx, joined, tree.plan)
    return rebuilt_node(ctx, tree.plan, inputs)


def _semi_frame(tree: _Tree, left: DataFrame, right: DataFrame) -> DataFrame:
    conditions = [Expr(one) == Expr(other) for one, other in tree.semi_on]
    one, other = tree.inputs
    if not _builds_right(one, other):
        return checked(left.join_on(right, *conditions, how="semi"), tree.plan)
    columns = [Expr.column(str(column)) for column in columns_of(left, tree.plan)]
    if not _is_unique(other, len(tree.semi_on)):
        right = right.select(*(Expr(key) for _, key in tree.semi_on)).distinct()
    return checked(right.join_on(left, *conditions, how="inner").select(*columns), tree.plan)


def _is_unique(tree: _Tree, num_keys: int) -> bool:
    """Whether no two rows of the right side of a semi join, whose columns are all keys, are equal."""
    if len(_columns(tree)) != num_keys:
        return False
    names = [name.rpartition(".")[2] for name in _columns(tree)]
    while tree.kind in ("SubqueryAlias", "Projection", "Filter"):
        if tree.kind == "Projection" and not _lets_through(tree):
            return False
        (tree,) = tree.inputs
    if tree.kind != "Aggregate":
        return False
    groups = [str(expr.canonical_name()).rpartition(".")[2] for expr in variant(tree.plan).group_by_exprs()]
    return sorted(names) == sorted(groups)


def _with_columns(ctx: PlainSessionContext, frame: DataFrame, plan: Any) -> DataFrame:
    columns = columns_of(ctx.create_dataframe_from_logical_plan(plan), plan)
    return checked(frame.select(*(Expr.column(str(column)) for column in columns)), plan)


def _conditions(detail: Any) -> list[Expr]:
    conditions = [Expr(one) == Expr(other) for one, other in detail.on()]
    return conditions if detail.filter() is None else [*conditions, Expr(detail.filter())]
