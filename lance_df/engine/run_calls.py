"""What aggregates become over runs of rows that have their number and sums, instead of single rows."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from lance_df.compute.compat import Expr, functions
from lance_df.engine.way_to_scan import column_name, unaliased
from lance_df.records import dataclass
from lance_df.sql.splice import quote_identifier
from lance_df.table.run_aggregates import RunAggregates, RunSum, summed_type

_COUNTS_ROWS: Final = re.compile(r"count\((\*|U?Int\d+\(\d+\))\)")
# they give the same however often a row is there
_OF_VALUES: Final = frozenset({"bit_and", "bit_or", "bool_and", "bool_or", "max", "min"})
_MODIFIERS: Final = (" FILTER (WHERE ", " ORDER BY [", " IGNORE NULLS", " RESPECT NULLS")
_MAX_FACTOR_DIGITS: Final = 18
_AVERAGED: Final = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32()),
    *(pa.float32(), pa.float64()),
)


@dataclass(frozen=True, slots=True)
class RunCall:
    """What is computed over runs for an aggregate: ``totals``, or without any the aggregate itself."""

    data_type: pa.DataType
    totals: tuple[Expr, ...] = ()
    is_count: bool = False

    def result(self, totals: Sequence[Expr]) -> Expr:
        """Return what the aggregate gives."""
        first, *others = totals
        if self.is_count:
            return functions.coalesce(first, Expr.literal(0))
        for number in others:
            first = first.cast(pa.float64()) / number.cast(pa.float64())
        return first.cast(self.data_type) if self.totals else first


class RunColumns:
    """The columns below an aggregate, by the names that it has for them.

    Parameters
    ----------
    own, known
        Those of the table that returns runs, and all.
    names
        That new columns must not have.
    """

    def __init__(
        self, own: Mapping[str, pa.Field], known: Mapping[str, pa.Field], names: Collection[str]
    ) -> None:
        self._own = own
        self._known = known
        self._names = names
        self._count_as = self._free_name("_run_rows")
        self._sums: dict[str, RunSum] = {}

    @property
    def runs(self) -> RunAggregates:
        """What the scan has to return."""
        return RunAggregates(self._count_as, tuple(self._sums.values()))

    def call(self, expr: Any, data_type: pa.DataType) -> RunCall | None:
        """Return what an aggregate of a type becomes; None if it cannot be made of runs."""
        inner = unaliased(expr)
        name = inner.schema_name()
        if _COUNTS_ROWS.fullmatch(name):
            return RunCall(data_type, (functions.sum(self._rows),), is_count=True)
        function, _, arguments = name.partition("(")
        if function in _OF_VALUES or arguments.startswith("DISTINCT "):
            return RunCall(data_type)
        operands = inner.rex_call_operands()
        if len(operands) != 1 or operands[0].variant_name() != "Column":
            return None
        (operand,) = operands
        match function:
            case "count":
                return RunCall(data_type, (self._count(operand),), is_count=True)
            case "sum" if (total := self._sum(operand)) is not None:
                return RunCall(data_type, (total,))
            case "avg" if self._is_averaged(operand) and (total := self._sum(operand)) is not None:
                return RunCall(data_type, (total, self._count(operand)))
        return None

    def _count(self, operand: Any) -> Expr:
        """Return the number of values of a column that are not NULL."""
        field = self._own.get(column_name(operand))
        if field is not None and summed_type(field.type) is not None:
            return self._added_up(field, pa.int64(), counts=True)
        return functions.sum(functions.when(Expr(operand).is_null(), Expr.literal(0)).otherwise(self._rows))

    def _sum(self, operand: Any) -> Expr | None:
        """Return the sum of a column; None of what has none."""
        name = column_name(operand)
        if (field := self._own.get(name)) is not None:
            kind = summed_type(field.type)
            return None if kind is None else self._added_up(field, kind)
        kind = None if (field := self._known.get(name)) is None else field.type
        # a float times a number is no sum of as many
        is_exact = kind is not None and (
            pa.types.is_signed_integer(kind)
            or (pa.types.is_decimal128(kind) and kind.precision <= _MAX_FACTOR_DIGITS)
        )
        return functions.sum(Expr(operand) * self._rows) if is_exact else None

    def _is_averaged(self, operand: Any) -> bool:
        """Whether DataFusion divides a sum of floats, which is as exact where it is one of integers."""
        field = self._known.get(column_name(operand))
        return field is not None and field.type in _AVERAGED

    def _added_up(self, field: pa.Field, data_type: pa.DataType, *, counts: bool = False) -> Expr:
        name = self._free_name(f"_run_{'count' if counts else 'sum'}_of_{field.name}")
        self._sums.setdefault(name, RunSum(field.name, name, data_type, counts))
        return functions.sum(Expr.column(quote_identifier(name)))

    @property
    def _rows(self) -> Expr:
        return Expr.column(quote_identifier(self._count_as))

    def _free_name(self, name: str) -> str:
        while name in self._names:
            name += "_"
        return name


def may_add_up(expr: Any) -> bool:
    """Whether an expression of an Aggregate node is one over all rows of a group alike."""
    inner = unaliased(expr)
    if inner.variant_name() != "AggregateFunction":
        return False
    name = inner.schema_name()
    return not any(modifier in name for modifier in _MODIFIERS)
