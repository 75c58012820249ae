"""Find the comparisons in the expressions of a plan, and the columns that they read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from lance_df.compute.compat import Expr, PlainSessionContext
from lance_df.compute.expressions import function_of, kind_of, operands, operator_of
from lance_df.engine.plans.nodes import Distinct, Join, PlanNode, Scan, frame_of

_OPERATORS: Final = frozenset(
    {"=", "<>", "!=", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"}
)
_TESTS: Final = frozenset({"InList", "Between", "Like", "ILike", "SimilarTo"})
_FUNCTIONS: Final = frozenset({"nullif", "greatest", "least"})


def comparisons(node: PlanNode) -> Iterator[list[Any]]:
    """Yield the operands of each comparison in the expressions of a node, without subqueries."""
    if isinstance(node, Join):
        yield from map(list, node.on)
    pending = list(node.expressions or ())
    while pending:
        expr = pending.pop()
        parts = operands(expr) or []
        if kind_of(expr) in _TESTS or operator_of(expr) in _OPERATORS or function_of(expr) in _FUNCTIONS:
            yield parts
        elif kind_of(expr) == "Case" and (base := expr.to_variant().expr()) is not None:
            yield [base, *(value for value, _ in expr.to_variant().when_then_expr())]
        pending += parts


class Inputs:
    """The columns that the expressions of a node read."""

    def __init__(self, ctx: PlainSessionContext, node: PlanNode) -> None:
        self._ctx = ctx
        self._node = node

    def fields(self) -> dict[str, pa.Field]:
        """Return the columns by the names of `qualified_name`; empty for scans."""
        fields: dict[str, pa.Field] = {}
        for each in self._node.inputs:
            shown, schema = each, frame_of(self._ctx, each).schema()
            while isinstance(shown, Distinct):  # Distinct does not expose its columns
                (shown,) = shown.inputs
            has_columns = hasattr(shown.detail, "schema")
            fields.update(zip(shown.columns if has_columns else schema.names, schema, strict=True))
        return fields

    def field(self, expr: Any) -> pa.Field | None:
        """Return the field that an expression computes, or None if it is not known."""
        node = self._node
        if isinstance(node, Scan) or (isinstance(node, Join) and ("Semi" in node.how or "Anti" in node.how)):
            return None
        rows = node if isinstance(node, Join) else next(iter(node.inputs), None)
        if rows is None:
            return None
        try:
            return frame_of(self._ctx, rows).select(Expr(expr)).schema().field(0)
        except Exception:  # noqa: BLE001 - it raises nothing narrower
            return None
