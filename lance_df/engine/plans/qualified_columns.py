"""Qualify columns with the names of several tables, as a join does. A union loses these qualifiers.

DataFusion's Python API cannot create an expression ``x AS t.y``, but its protobuf format can. A projection
with such aliases is written as a message and read back, and its expressions are extracted. The message format
is that of DataFusion 51 to 55.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lance_df.compute.compat import (
    Expr,
    PlainSessionContext,
    plan_from_bytes,
    plan_to_bytes,
)
from lance_df.engine.plans.nodes import Projection, node_of
from lance_df.records import dataclass
from lance_df.sql.splice import quote_identifier

# LogicalPlanNode.projection, ProjectionNode.input and .expr, LogicalExprNode.column and .alias
_PROJECTION: Final = 3
_INPUT: Final = 1
_EXPR: Final = 2
_COLUMN: Final = 1
_ALIAS: Final = 2


@dataclass(frozen=True, slots=True)
class QualifiedColumn:
    """A column of a plan, qualified with a table, which may have a schema and a catalog, or unqualified."""

    table: tuple[str, ...]
    name: str

    @classmethod
    def of(cls, shown: str, name: str) -> QualifiedColumn:
        """Return the column that a plan shows as ``shown`` and that Arrow names ``name``."""
        table = shown.removesuffix(name).removesuffix(".") if shown != name else ""
        return cls(tuple(table.split(".")) if table else (), name)

    def __str__(self) -> str:
        """Return the column as SQL."""
        return ".".join(map(quote_identifier, (*self.table, self.name)))


def renaming(ctx: PlainSessionContext, columns: Sequence[tuple[str, QualifiedColumn]]) -> list[Expr]:
    """Return the expressions that rename unqualified columns to the given qualified columns.

    Raises
    ------
    ValueError
        DataFusion reads the message differently.
    """
    if not columns:
        return []
    items = ", ".join(f"NULL AS {quote_identifier(name)}" for name, _ in columns)
    source = PlainSessionContext.sql(ctx, f"SELECT {items}").logical_plan()
    message = _message(_INPUT, plan_to_bytes(source))
    for name, column in columns:
        alias = _message(1, _message(_COLUMN, _message(1, name.encode()))) + _message(2, column.name.encode())
        if column.table:
            parts = b"".join(_message(number, part.encode()) for number, part in enumerate(column.table, 1))
            alias += _message(3, _message(len(column.table), parts))
        message += _message(_EXPR, _message(_ALIAS, alias))
    projection = node_of(plan_from_bytes(ctx, _message(_PROJECTION, message)))
    expected = [".".join((*column.table, column.name)) for _, column in columns]
    if not isinstance(projection, Projection) or projection.columns != expected:
        raise ValueError(f"columns are called {projection.columns}, expected {expected}")
    return list(map(Expr, projection.expressions))


def _message(field: int, data: bytes) -> bytes:
    """Return a length-delimited field of a protobuf message."""
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])
