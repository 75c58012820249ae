"""The nodes of DataFusion's logical plans: their kinds and their properties.

`node_of` returns the topmost node of a plan as an instance of one of the classes here. Its inputs are such
instances, too. Use it with ``match``::

    match node_of(plan):
        case Filter() as node:
            node.predicate

Attributes are read from the plan at first use. The information comes from the classes of the binding. Some of
it is only in the text of a plan. Only this package and `lance_df.compute.expressions` read this text, as
described there. Checked with DataFusion 51, 53 and 55.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cached_property
from typing import Any, Final

from lance_df.compute import expressions
from lance_df.compute.compat import (
    DataFrame,
    LogicalPlan,
    PlainSessionContext,
    shows_null_aware_joins,
    variant,
)
from lance_df.compute.expressions import AggregateCall, aggregate_call
from lance_df.records import dataclass

NO_LIMIT: Final = 2**62
"""A limit larger than any number of rows. It keeps all rows, but no filter can pass it."""

_LIMIT: Final = re.compile(r"Limit: skip=(\d+), fetch=(\d+|None)")


class PlanNode:
    """A node of a plan. Nodes of unsupported kinds have this class, and only their inputs are known."""

    def __init__(self, plan: LogicalPlan, detail: Any) -> None:
        self.plan = plan
        self.detail = detail

    @property
    def kind(self) -> str:
        """The name of the binding's class, or of the class of None if the node has none."""
        return type(self.detail).__name__

    @cached_property
    def inputs(self) -> list[PlanNode]:
        return list(map(node_of, self.plan.inputs()))

    @cached_property
    def columns(self) -> list[str]:
        """The names of the columns, qualified with their tables."""
        return list(self.detail.schema().field_names())

    @property
    def expressions(self) -> list[Any] | None:
        """All expressions of the node; None if the binding may not return all of them."""
        return None

    @cached_property
    def has_subquery(self) -> bool:
        """Whether an expression may contain a subquery. The binding returns no plans of subqueries."""
        # the text of a node contains its expressions
        if not expressions.shows_subquery(self.shown):
            return False
        parts = self.expressions
        return parts is None or any(map(expressions.holds_subquery, parts))

    def may_call(self, names: Collection[str]) -> bool:
        """Return whether an expression may call one of the functions, outside of subqueries."""
        if not expressions.shows_call(self.shown, names):
            return False
        parts = self.expressions
        return parts is None or any(expressions.may_call(expr, names) for expr in parts)

    @cached_property
    def shown(self) -> str:
        """DataFusion's text of the node without its inputs, for messages and for text searches."""
        return str(self.plan.display())

    @cached_property
    def shown_whole(self) -> str:
        """DataFusion's text of the node with its inputs and with the plans inside expressions."""
        return str(self.plan.display_indent())


class Scan(PlanNode):
    """A scan of a table."""

    @property
    def table(self) -> tuple[str | None, str]:
        """The schema, if the statement names it, and the name of the table."""
        _, schema, name = self.detail.fqn()
        return schema, name

    @property
    def qualifier(self) -> str:
        """The qualifier of the columns if the table has no alias."""
        return ".".join(part for part in self.detail.fqn() if part)

    @property
    def filters(self) -> list[Any]:
        """The conditions that the scan applies. All of them must be true."""
        return list(self.detail.filters())

    @property
    def projection(self) -> list[str]:
        """The names of the columns that the scan of an optimized plan returns."""
        return [name for _, name in self.detail.projection() or ()]

    @property
    def fetch(self) -> int | None:
        """The number of rows that are sufficient; None for all rows."""
        count: int | None = self.detail.fetch()
        return count

    @property
    def expressions(self) -> list[Any]:
        return self.filters


class Filter(PlanNode):
    """A node that keeps the rows for which a condition is true."""

    @property
    def predicate(self) -> Any:
        return self.detail.predicate()

    @property
    def expressions(self) -> list[Any]:
        return [self.predicate]


class Projection(PlanNode):
    """A node that computes expressions for each row."""

    @cached_property
    def expressions(self) -> list[Any]:
        return list(self.detail.projections())

    @property
    def outputs(self) -> dict[str, Any]:
        """The expressions without aliases, by output name; None for names that are not unique."""
        return outputs_of(self.expressions)

    @property
    def computes_nothing(self) -> bool:
        """Whether the projection only selects and renames columns."""
        return all(expressions.is_column(expressions.unaliased(expr)) for expr in self.expressions)

    @property
    def chooses_only(self) -> bool:
        """Whether the projection only selects columns."""
        return all(map(expressions.is_column, self.expressions))


class Aggregate(PlanNode):
    """An aggregation. In an optimized plan, ``SELECT DISTINCT`` is an aggregation without calls."""

    @property
    def groups(self) -> list[Any]:
        """The distinct expressions to group by, in the order of the first columns."""
        return list({expressions.identity(expr): expr for expr in self.detail.group_by_exprs()}.values())

    @property
    def has_grouping_sets(self) -> bool:
        return any(expr.variant_name() == "GroupingSet" for expr in self.groups)

    @property
    def aggregates(self) -> list[Any]:
        """The aggregate expressions, possibly with aliases."""
        return list(self.detail.aggregate_exprs())

    @property
    def calls(self) -> list[AggregateCall | None]:
        """The calls in `aggregates`."""
        return list(map(aggregate_call, self.aggregates))

    @property
    def expressions(self) -> list[Any]:
        return [*self.groups, *self.aggregates]


class Window(PlanNode):
    """A node that adds a column for each window function."""

    @property
    def expressions(self) -> list[Any]:
        return list(self.detail.get_window_expr())

    @property
    def partitions(self) -> list[list[Any]]:
        """The PARTITION BY expressions of each window function."""
        return [list(self.detail.get_partition_exprs(expr)) for expr in self.expressions]


@dataclass(frozen=True, slots=True)
class SortKey:
    """An expression to sort by."""

    expr: Any
    is_ascending: bool
    has_nulls_first: bool

    @property
    def identity(self) -> tuple[Any, ...]:
        """A value that identifies the key, for comparisons."""
        return (*expressions.identity(self.expr), self.is_ascending, self.has_nulls_first)

    def __str__(self) -> str:
        order = "ASC" if self.is_ascending else "DESC"
        return f"{expressions.shown(self.expr)} {order} NULLS {'FIRST' if self.has_nulls_first else 'LAST'}"


class Sort(PlanNode):
    """A node that sorts rows, and may return only the first ones."""

    @property
    def keys(self) -> list[SortKey]:
        return [SortKey(key.expr(), key.ascending(), key.nulls_first()) for key in self.sort_exprs]

    @property
    def sort_exprs(self) -> list[Any]:
        """The keys as the frames of the binding accept them."""
        return list(self.detail.sort_exprs())

    @property
    def fetch(self) -> int | None:
        """The number of rows to return; None for all."""
        count: int | None = self.detail.get_fetch_val()
        return count

    @property
    def expressions(self) -> list[Any]:
        return [key.expr() for key in self.sort_exprs]


class Limit(PlanNode):
    """A node that returns some of the rows, without sorting them."""

    @property
    def rows(self) -> tuple[int | None, int]:
        """The number of rows to return (None for all), and the number of rows to skip before.

        Raises
        ------
        ValueError
            The numbers are not constants.
        """
        # before DataFusion 55, only the text contains them; text that is not a number does not match
        limit = _LIMIT.fullmatch(self.shown)
        if limit is None:
            raise ValueError(f"not a limit by numbers: {self.shown}")
        skip, fetch = limit.groups()
        return None if fetch == "None" else int(fetch), int(skip)


class Distinct(PlanNode):
    """Distinct rows. Only plans that are not optimized have this node."""

    @property
    def is_of_all_columns(self) -> bool:
        """Whether this is not a ``DISTINCT ON``, which has the same class."""
        return self.shown == "Distinct:"

    @property
    def expressions(self) -> list[Any] | None:
        return [] if self.is_of_all_columns else None


class SubqueryAlias(PlanNode):
    """A node that gives its columns another table name."""

    @property
    def name(self) -> str:
        return str(self.detail.alias())

    @property
    def expressions(self) -> list[Any]:
        return []


class Union(PlanNode):
    """A node that returns the rows of all inputs."""

    @property
    def expressions(self) -> list[Any]:
        return []


class Join(PlanNode):
    """A node that joins the rows of the left and right inputs."""

    @property
    def how(self) -> str:
        """Inner, Left, Right, Full, LeftSemi, RightSemi, LeftAnti, RightAnti, LeftMark or RightMark."""
        return str(self.detail.join_type())

    @cached_property
    def on(self) -> list[tuple[Any, Any]]:
        """Pairs of expressions, of the left and of the right input, that are equal for rows that match."""
        return list(self.detail.on())

    @property
    def filter(self) -> Any | None:
        """The additional condition that rows must satisfy to match."""
        return self.detail.filter()

    @property
    def null_equals_null(self) -> bool:
        return bool(self.detail.null_equals_null())

    @property
    def is_inner_by_columns(self) -> bool:
        """Whether this is an inner join on equal columns, possibly with a filter."""
        return self.how == "Inner" and not self.null_equals_null and self.is_by_columns

    @property
    def is_by_columns(self) -> bool:
        """Whether there are keys and all keys are plain columns."""
        on = self.on
        return bool(on) and all(expressions.is_column(key) for pair in on for key in pair)

    def may_be_null_aware(self, holds_in: bool) -> bool:
        """Whether this may be the anti join of a ``NOT IN (SELECT …)``, for which NULL keys matter.

        Parameters
        ----------
        holds_in
            Whether the statement contains an ``IN (SELECT …)``; see `holds_in_subquery`.
        """
        if "Anti" not in self.how:
            return False
        if not shows_null_aware_joins():
            return holds_in
        # Only the end of the text shows this. All text before that is known.
        on = ", ".join(f"{one.canonical_name()} = {other.canonical_name()}" for one, other in self.on)
        more = "" if self.filter is None else f" Filter: {self.filter.canonical_name()}"
        return not any(self.shown == f"{self.how} Join: {using}{on}{more}" for using in ("", "Using "))

    @property
    def expressions(self) -> list[Any]:
        more = self.filter
        return [*(expr for pair in self.on for expr in pair), *([] if more is None else [more])]


class Values(PlanNode):
    """Rows of expressions. The text of the node shows only some of them."""

    @cached_property
    def has_subquery(self) -> bool:
        return any(map(expressions.holds_subquery, self.expressions))

    def may_call(self, names: Collection[str]) -> bool:
        return any(expressions.may_call(expr, names) for expr in self.expressions)

    @property
    def expressions(self) -> list[Any]:
        return [expr for row in self.detail.values() for expr in row]


class EmptyRelation(PlanNode):
    """No rows, or one row without columns."""

    @property
    def has_row(self) -> bool:
        return bool(self.detail.produce_one_row())

    @property
    def expressions(self) -> list[Any]:
        return []


_CLASSES: Final[dict[str, type[PlanNode]]] = {
    "Aggregate": Aggregate,
    "Distinct": Distinct,
    "EmptyRelation": EmptyRelation,
    "Filter": Filter,
    "Join": Join,
    "Limit": Limit,
    "Projection": Projection,
    "Sort": Sort,
    "SubqueryAlias": SubqueryAlias,
    "TableScan": Scan,
    "Union": Union,
    "Values": Values,
    "WindowExpr": Window,
}


def node_of(plan: LogicalPlan) -> PlanNode:
    """Return the topmost node of a plan."""
    detail = variant(plan)
    return _CLASSES.get(type(detail).__name__, PlanNode)(plan, detail)


def plan_of(frame: DataFrame) -> PlanNode:
    """Return the plan of a frame as it is written."""
    return node_of(frame.logical_plan())


def optimized_plan_of(frame: DataFrame) -> PlanNode:
    """Return the plan of a frame after DataFusion has optimized it."""
    return node_of(frame.optimized_logical_plan())


def frame_of(ctx: PlainSessionContext, node: PlanNode) -> DataFrame:
    """Return a frame with the rows of a node."""
    return ctx.create_dataframe_from_logical_plan(node.plan)


def outputs_of(projections: Collection[Any]) -> dict[str, Any]:
    """Return the outputs of a projection; see `Projection.outputs`."""
    outputs: dict[str, Any] = {}
    for expr in projections:
        name = expressions.output_name(expr)
        outputs[name] = None if name in outputs else expressions.unaliased(expr)
    return outputs
