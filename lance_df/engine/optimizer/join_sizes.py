"""Estimate the number of rows of logical plan nodes, to choose the smaller side of a join.

DataFusion does not receive statistics of tables through Python. The manifest contains the number of rows of
each table. The effect of filters, joins and groups is estimated with textbook formulas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from lance_df.compute.expressions import kind_of, operator_of, relation_of
from lance_df.engine.plans.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Limit,
    PlanNode,
    Projection,
    Scan,
    Sort,
    SubqueryAlias,
    Union,
    Window,
)
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.engine.statement import PlannedTable

_SELECTIVITY: Final = {"=": 0.1, "!=": 0.9, "<": 0.4, "<=": 0.4, ">": 0.4, ">=": 0.4}
_OTHER_SELECTIVITY: Final = 0.2
_IN_GROUPS: Final = 0.3


@dataclass(frozen=True, slots=True)
class Size:
    """The number of rows of a node, and of the tables that it reads, by the qualifiers of their columns."""

    rows: float
    tables: Mapping[str, float]

    def among(self, column: Any) -> float:
        """Return the number of rows, before filters, of the table that contains a join key."""
        relation = relation_of(column)
        if relation is not None and relation in self.tables:
            return self.tables[relation]
        return max(self.tables.values(), default=self.rows)


def scanned_size(scan: Scan, tables: Sequence[PlannedTable]) -> Size | None:
    """Return the size of a scan; None if the number of rows of its table is not known."""
    name = scan.table
    named = [table for table in tables if table.is_called(name)]
    rows = named[0].estimated_rows() if len(named) == 1 else None
    if rows is None:
        return None
    return Size(max(1.0, rows * _joint_selectivity(scan.filters)), {scan.qualifier: float(rows)})


def size_above(node: PlanNode, inputs: Sequence[Size]) -> Size | None:
    """Return the size of a node whose inputs have known sizes; None if it cannot be estimated."""
    match node, inputs:
        case ((Projection() | Sort() | Window()), [one]):
            return one
        case SubqueryAlias(), [one]:
            return Size(one.rows, {node.name: max(one.tables.values(), default=one.rows)})
        case Filter(), [one]:
            return replace(one, rows=max(1.0, one.rows * _selectivity(node.predicate)))
        case Aggregate(), [one]:
            rows = max(1.0, one.rows * _IN_GROUPS) if node.groups else 1.0
            return replace(one, rows=rows)
        case Distinct(), [one]:
            return replace(one, rows=max(1.0, one.rows * _IN_GROUPS))
        case Limit(), [one]:
            count = node.rows[0]
            return one if count is None else replace(one, rows=min(one.rows, float(count)))
        case Union(), several:
            return Size(sum(each.rows for each in several), {})
        case Join(), [left, right]:
            return _joined(node.how, node.on, left, right)
        case _:
            return None


def semi_joined(on: Sequence[tuple[Any, Any]], left: Size, right: Size) -> Size:
    """Return the size of a semi join's result."""
    among = max((left.among(one) for one, _ in on), default=left.rows)
    return replace(left, rows=max(1.0, left.rows * min(1.0, right.rows / max(1.0, among))))


def _joined(how: str, on: Sequence[tuple[Any, Any]], left: Size, right: Size) -> Size | None:
    if how == "LeftSemi":
        return semi_joined(on, left, right)
    if how == "RightSemi":
        return semi_joined([(other, one) for one, other in on], right, left)
    if how in ("LeftAnti", "LeftMark"):
        return left
    if how in ("RightAnti", "RightMark"):
        return right
    # assumes that one of the two keys is unique, and that its values include all values of the other
    among = max((min(left.among(one), right.among(other)) for one, other in on), default=1.0)
    rows = max(1.0, left.rows * right.rows / max(1.0, among))
    least = {"Inner": 1.0, "Left": left.rows, "Right": right.rows, "Full": left.rows + right.rows}.get(how)
    return None if least is None else Size(max(rows, least), {**left.tables, **right.tables})


def _joint_selectivity(conditions: Sequence[Any]) -> float:
    selectivity = 1.0
    for condition in conditions:
        selectivity *= _selectivity(condition)
    return selectivity


def _selectivity(condition: Any) -> float:
    """Return the estimated share of rows that a condition keeps."""
    if kind_of(condition) == "IsNotNull":
        return 1.0
    operator = operator_of(condition)
    if operator not in ("AND", "OR"):
        return _SELECTIVITY.get(operator, _OTHER_SELECTIVITY)
    one, other = (_selectivity(operand) for operand in condition.rex_call_operands())
    return one * other if operator == "AND" else min(1.0, one + other)
