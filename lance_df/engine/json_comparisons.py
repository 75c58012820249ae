"""Comparisons of JSON columns with text, which would compare the text with a document as it is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_df.compute.expressions import column_name, kind_of, literal, operands, operator_of
from lance_df.engine.plans.nodes import Filter
from lance_df.engine.plans.walks import nodes
from lance_df.expr.literals import compared_with_text, is_json

if TYPE_CHECKING:
    from collections.abc import Collection

    from lance_df.engine.plans.nodes import PlanNode

_OPERATORS: Final = frozenset(
    {"=", "<>", "!=", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"}
)
_LISTS: Final = ("InList", "Between")


def check_json_comparisons(plan: PlanNode, schema: pa.Schema) -> None:
    """Check the filters of a plan, as it is written, over rows of a stored schema.

    Raises
    ------
    InvalidInputError
        One compares a JSON column with text.
    """
    columns = {field.name for field in schema if is_json(field)}
    if not columns:
        return
    for node in nodes(plan):
        if isinstance(node, Filter):
            _check(node.predicate, columns)


def _check(expr: Any, columns: Collection[str]) -> None:
    parts = operands(expr) or []
    if kind_of(expr) in _LISTS or (kind_of(expr) == "BinaryExpr" and operator_of(expr) in _OPERATORS):
        compared = next((name for name in map(column_name, parts) if name in columns), None)
        if compared is not None and any(map(_is_text, parts)):
            raise compared_with_text(compared)
    for part in parts:
        _check(part, columns)


def _is_text(expr: Any) -> bool:
    value = literal(expr)
    return value is not None and pa.types.is_string(value.type)
