"""Aggregates over several frames that run one after the other: partial per frame, then merged.

Each frame therefore passes on only one row per group instead of all its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from lance_df.compute.compat import DataFrame, Expr, PlainSessionContext, functions
from lance_df.compute.expressions import AggregateCall
from lance_df.engine.plans.nodes import Aggregate, PlanNode, frame_of
from lance_df.engine.plans.qualified_columns import renaming
from lance_df.engine.plans.rebuild import (
    NotRebuiltError,
    checked,
    columns_of,
    numbered_name,
    with_numbered_columns,
)
from lance_df.records import dataclass

# for each function, the function that merges its results for parts of a group
_MERGED_BY: Final = {
    "bool_and": functions.bool_and,
    "bool_or": functions.bool_or,
    "count": functions.sum,
    "max": functions.max,
    "min": functions.min,
    "sum": functions.sum,
}
_AVERAGE: Final = "avg"
# If a user-defined function has one of these names, merging gives wrong results.
MERGED_FUNCTIONS: Final = frozenset({*_MERGED_BY, _AVERAGE})


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of an aggregate function, and the type of its result."""

    function: str
    data_type: pa.DataType

    @property
    def num_parts(self) -> int:
        return 2 if self.function == _AVERAGE else 1

    def partial(self, call: AggregateCall) -> list[Expr]:
        """Return the partial aggregates to compute for each frame."""
        if self.function != _AVERAGE:
            return [Expr(call.expr)]
        (operand,) = call.arguments
        return [functions.sum(Expr(operand).cast(pa.float64())), functions.count(Expr(operand))]

    def merged(self, values: Sequence[Expr]) -> list[Expr]:
        """Return the aggregates that merge the partial aggregates of the frames."""
        if self.function == _AVERAGE:
            return [functions.sum(each) for each in values]
        return [_MERGED_BY[self.function](each) for each in values]

    def result(self, values: Sequence[Expr]) -> Expr:
        """Return the result, computed from the merged values."""
        if self.function == "count":
            return functions.coalesce(values[0], Expr.literal(0))
        if self.function == _AVERAGE:
            return values[0] / values[1].cast(pa.float64())
        return values[0].cast(self.data_type)


@dataclass(frozen=True, slots=True)
class PartialAggregate:
    """An Aggregate node of a plan whose result can be merged from partial aggregates of frames."""

    node: Aggregate
    num_groups: int
    calls: tuple[_Call, ...]

    @classmethod
    def of(cls, ctx: PlainSessionContext, node: PlanNode) -> PartialAggregate | None:
        """Return the aggregate of a plan node; None if its result cannot be merged."""
        if not isinstance(node, Aggregate) or node.has_grouping_sets:
            return None
        num_groups = len(node.groups)
        fields = list(frame_of(ctx, node).schema())[num_groups:]
        calls = [_call(call, field.type) for call, field in zip(node.calls, fields, strict=True)]
        known = tuple(call for call in calls if call is not None)
        if len(known) < len(calls):
            return None
        aggregates = cls(node, num_groups, known)
        try:
            # only this call shows whether DataFusion can plan it; optimizing an optimized plan again may fail
            aggregates.over(node, frame_of(ctx, node.inputs[0])).optimized_logical_plan()
        except Exception:  # noqa: BLE001 - DataFusion raises no specific exception
            return None
        return aggregates

    def over(self, node: PlanNode, below: DataFrame) -> DataFrame:
        """Return the partial aggregates of one frame.

        Parameters
        ----------
        node, below
            The corresponding node in a plan over some of the rows, and a frame of its input.

        Raises
        ------
        NotRebuiltError
            ``node`` is not an aggregate.
        """
        if not isinstance(node, Aggregate):
            raise NotRebuiltError(f"{node.shown} is not an aggregate")
        parts = [
            part
            for call, stored in zip(self.calls, node.calls, strict=True)
            if stored is not None
            for part in call.partial(stored)
        ]
        named = [part.alias(f"{numbered_name(number)}_part") for number, part in enumerate(parts)]
        return with_numbered_columns(below.aggregate(list(map(Expr, node.groups)), named))

    def merged(self, ctx: PlainSessionContext, parts: DataFrame) -> DataFrame:
        """Return the rows of the node, merged from the partial aggregates of all frames.

        Raises
        ------
        NotRebuiltError
            The rows would have other columns.
        """
        columns = columns_of(frame_of(ctx, self.node), self.node)
        keys, names = columns[: self.num_groups], [each.name for each in columns[self.num_groups :]]
        names_of_parts = parts.schema().names
        values = [Expr.column(name) for name in names_of_parts[self.num_groups :]]
        renamed = renaming(ctx, list(zip(names_of_parts, keys, strict=False))) if keys else []
        source = parts.select(*renamed, *values)
        columns = [Expr.column(str(key)) for key in keys]
        merged: list[Expr] = []
        results: list[Expr] = []
        for call in self.calls:
            taken, values = values[: call.num_parts], values[call.num_parts :]
            totals = [f"{numbered_name(len(merged) + number)}_total" for number in range(call.num_parts)]
            merged += [expr.alias(total) for expr, total in zip(call.merged(taken), totals, strict=True)]
            results.append(call.result([Expr.column(total) for total in totals]))
        grouped = source.aggregate(columns, merged)
        return checked(
            grouped.select(*columns, *(expr.alias(name) for expr, name in zip(results, names, strict=True))),
            self.node,
        )


def _call(call: AggregateCall | None, data_type: pa.DataType) -> _Call | None:
    if call is None or call.is_distinct:
        return None
    if call.function == _AVERAGE:
        # DataFusion has its own rules for the digits of decimals; a modifier would apply to both parts
        return _Call(call.function, data_type) if call.is_plain and pa.types.is_float64(data_type) else None
    return _Call(call.function, data_type) if call.function in _MERGED_BY else None
