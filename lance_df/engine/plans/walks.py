"""Traverse DataFusion's logical plans, and answer questions about a whole plan.

Python has no access to the plan of a subquery in an expression. If a plan may contain a subquery, these
functions search the plan's text and give the conservative answer.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from lance_df.compute import expressions
from lance_df.engine.plans.nodes import (
    Aggregate,
    EmptyRelation,
    Filter,
    Join,
    Limit,
    PlanNode,
    Projection,
    Scan,
    Sort,
    SubqueryAlias,
    Window,
)

Path = tuple[int, ...]
"""The path from the root of a plan to a node: the number of an input at each node."""

# aliases that the optimizer generates; their numbers differ between plans of the same statement
_MADE_UP: Final = re.compile(r"\b__[a-z]\w*?_\d+\b")


def node_at(plan: PlanNode, path: Path) -> PlanNode:
    """Return the node at a path."""
    for number in path:
        plan = plan.inputs[number]
    return plan


def nodes(plan: PlanNode) -> Iterator[PlanNode]:
    """Yield all nodes outside of expressions."""
    return (node for _, node in nodes_with_paths(plan))


def nodes_with_paths(plan: PlanNode) -> Iterator[tuple[Path, PlanNode]]:
    """Yield all nodes outside of expressions with their paths, each node before its inputs."""
    pending: list[tuple[Path, PlanNode]] = [((), plan)]
    while pending:
        path, node = pending.pop()
        yield path, node
        inputs = node.inputs
        pending += [((*path, number), inputs[number]) for number in range(len(inputs) - 1, -1, -1)]


def chain(plan: PlanNode, path: Path) -> list[PlanNode]:
    """Return the nodes on a path, from the root to the node at the path."""
    on_path = [plan]
    for number in path:
        on_path.append(on_path[-1].inputs[number])
    return on_path


def has_node(plan: PlanNode, *kinds: type[PlanNode]) -> bool:
    """Return whether a plan has a node of one of the given classes outside of expressions."""
    return any(isinstance(node, kinds) for node in nodes(plan))


def may_join_without_keys(nodes: Iterable[PlanNode]) -> bool:
    """Return whether a node joins rows without equal keys, or may do so inside an expression."""
    return any(node.has_subquery or _has_no_keys(node) for node in nodes)


def scans_joined_without_keys(plan: PlanNode) -> set[Path]:
    """Return the paths to scans whose rows are joined with many others without equal keys.

    Rows that are aggregated before the join do not count, nor does a join with a single row.
    """
    joined: set[Path] = set()
    pending: list[tuple[PlanNode, Path, bool]] = [(plan, (), False)]
    while pending:
        node, path, is_joined = pending.pop()
        if isinstance(node, Scan) and is_joined:
            joined.add(path)
        if isinstance(node, Aggregate):
            is_joined = False
        elif _has_no_keys(node):
            is_joined = is_joined or not any(map(has_one_row, node.inputs))
        pending += [(each, (*path, number), is_joined) for number, each in enumerate(node.inputs)]
    return joined


def _has_no_keys(node: PlanNode) -> bool:
    return isinstance(node, Join) and not node.on


def has_one_row(node: PlanNode) -> bool:
    """Return whether a node is known to have at most one row."""
    match node:
        case Aggregate():
            return not node.groups
        case EmptyRelation():
            return True
        case Filter() | Limit() | Projection() | Sort() | SubqueryAlias():
            return all(map(has_one_row, node.inputs))
        case Join() if not node.on:
            return all(map(has_one_row, node.inputs))
        case _:
            return False


def groups_rows(plan: PlanNode) -> bool:
    """Return whether a plan has an aggregate or a window."""
    return has_node(plan, Aggregate, Window)


def has_subquery(plan: PlanNode) -> bool:
    """Return whether an expression of a plan may contain plan nodes."""
    return any(node.has_subquery for node in nodes(plan))


def holds_in_subquery(plan: PlanNode) -> bool:
    """Return whether a plan before optimization may have an ``IN (SELECT …)`` or ``NOT IN (SELECT …)``."""
    # only the text shows subqueries; those inside other subqueries are only in the text of the whole plan
    return has_subquery(plan) and " IN (<subquery>)" in plan.shown_whole


def may_call(plan: PlanNode, names: Collection[str]) -> bool:
    """Return whether a plan may call one of the functions."""
    has_subqueries = False
    for node in nodes(plan):
        has_subqueries = has_subqueries or node.has_subquery
        if node.may_call(names):
            return True
    if not has_subqueries:
        return False
    # only the text shows the calls in subqueries
    return expressions.shows_call(plan.shown_whole, names)


def limits_rows(plan: PlanNode) -> bool:
    """Return whether a node of a plan may need only some of the rows of its input."""
    has_subqueries = False
    for node in nodes(plan):
        if isinstance(node, Limit) or (isinstance(node, Sort | Scan) and node.fetch is not None):
            return True
        has_subqueries = has_subqueries or node.has_subquery
    return has_subqueries and "fetch=" in plan.shown_whole


def have_same_shape(one: PlanNode, other: PlanNode) -> bool:
    """Return whether two plans do the same, apart from the names that the optimizer generates."""
    return _shape(one) == _shape(other)


def _shape(plan: PlanNode) -> str:
    # compares the text, which contains all nodes with their expressions, columns and types
    numbers: dict[str, int] = {}

    def numbered(name: re.Match[str]) -> str:
        return f"__{numbers.setdefault(name.group(), len(numbers))}"

    return _MADE_UP.sub(numbered, plan.plan.display_indent_schema())
