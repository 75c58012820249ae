"""Rewrite aggregates over single rows as aggregates over partial aggregates."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from lance_df.compute.compat import Expr, functions
from lance_df.compute.expressions import aggregate_call, qualified_name
from lance_df.records import dataclass
from lance_df.scan.request import AggregateCall, AggregateFunction
from lance_df.scan.runs import summed_type
from lance_df.sql.splice import quote_identifier

# the result does not depend on how often a row occurs
_OF_VALUES: Final = frozenset({"bit_and", "bit_or", "bool_and", "bool_or", "max", "min"})
_MAX_FACTOR_DIGITS: Final = 18
_AVERAGED: Final = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32()),
    *(pa.float32(), pa.float64()),
)


@dataclass(frozen=True, slots=True)
class MergedCall:
    """The expressions that replace an aggregate: ``totals``, or without totals the aggregate itself."""

    data_type: pa.DataType
    totals: tuple[Expr, ...] = ()
    is_count: bool = False

    def result(self, totals: Sequence[Expr]) -> Expr:
        """Return the result of the aggregate, computed from the totals."""
        first, *others = totals
        if self.is_count:
            return functions.coalesce(first, Expr.literal(0))
        for number in others:
            first = first.cast(pa.float64()) / number.cast(pa.float64())
        return first.cast(self.data_type) if self.totals else first


class MergedColumns:
    """The columns below an aggregate, by their names there.

    Parameters
    ----------
    typed, known
        The columns of the table whose scan aggregates, and all columns.
    names
        Names that new columns must not have.
    """

    def __init__(
        self, typed: Mapping[str, pa.Field], known: Mapping[str, pa.Field], names: Collection[str]
    ) -> None:
        self._typed = typed
        self._known = known
        self._names = names
        self._num_rows = self._free_name("_num_rows")
        self._calls = {
            self._num_rows: AggregateCall(AggregateFunction.COUNT_ROWS, self._num_rows, None, pa.int64())
        }

    @property
    def calls(self) -> tuple[AggregateCall, ...]:
        """The calls that the scan has to compute."""
        return tuple(self._calls.values())

    def call(self, expr: Any, data_type: pa.DataType) -> MergedCall | None:
        """Return the replacement of an aggregate with the type ``data_type``; None if it cannot be merged."""
        call = aggregate_call(expr)
        if call is None:
            return None
        if call.counts_rows:
            return MergedCall(data_type, (functions.sum(self._rows),), is_count=True)
        if call.is_distinct:
            return MergedCall(data_type) if all(map(self._is_discrete, call.arguments)) else None
        if call.function in _OF_VALUES:
            return MergedCall(data_type)
        if len(call.arguments) != 1 or call.arguments[0].variant_name() != "Column":
            return None
        (operand,) = call.arguments
        match call.function:
            case "count":
                return MergedCall(data_type, (self._count(operand),), is_count=True)
            case "sum" if (total := self._sum(operand)) is not None:
                return MergedCall(data_type, (total,))
            case "avg" if self._is_averaged(operand) and (total := self._sum(operand)) is not None:
                return MergedCall(data_type, (total, self._count(operand)))
        return None

    def _is_discrete(self, operand: Any) -> bool:
        """Whether an operand is a column without floats, for which DISTINCT always gives the same result.

        For a DISTINCT aggregate, DataFusion either groups the values, where -0.0 equals 0.0, or collects
        them, where they differ. The choice depends on the other aggregates.
        """
        field = self._known.get(_name(operand)) if operand.variant_name() == "Column" else None
        return field is not None and not pa.types.is_nested(field.type) and not _is_float(field.type)

    def _count(self, operand: Any) -> Expr:
        """Return an expression for the number of values of a column that are not NULL."""
        field = self._typed.get(_name(operand))
        if field is not None and summed_type(field.type) is not None:
            return self._added_up(field, pa.int64(), counts=True)
        return functions.sum(functions.when(Expr(operand).is_null(), Expr.literal(0)).otherwise(self._rows))

    def _sum(self, operand: Any) -> Expr | None:
        """Return an expression for the sum of a column; None if the sum cannot be merged."""
        name = _name(operand)
        if (field := self._typed.get(name)) is not None:
            kind = summed_type(field.type)
            return None if kind is None else self._added_up(field, kind)
        kind = None if (field := self._known.get(name)) is None else field.type
        # for floats, a value times a count differs from the sum of that many values
        is_exact = kind is not None and (
            pa.types.is_signed_integer(kind)
            or (pa.types.is_decimal128(kind) and kind.precision <= _MAX_FACTOR_DIGITS)
        )
        return functions.sum(Expr(operand) * self._rows) if is_exact else None

    def _is_averaged(self, operand: Any) -> bool:
        """Whether DataFusion averages a column with a sum of floats; a sum of integers is as exact."""
        field = self._known.get(_name(operand))
        return field is not None and field.type in _AVERAGED

    def _added_up(self, field: pa.Field, data_type: pa.DataType, *, counts: bool = False) -> Expr:
        name = self._free_name(f"_{'count' if counts else 'sum'}_of_{field.name}")
        function = AggregateFunction.COUNT if counts else AggregateFunction.SUM
        self._calls.setdefault(name, AggregateCall(function, name, field.name, data_type))
        return functions.sum(Expr.column(quote_identifier(name)))

    @property
    def _rows(self) -> Expr:
        return Expr.column(quote_identifier(self._num_rows))

    def _free_name(self, name: str) -> str:
        while name in self._names:
            name += "_"
        return name


def is_mergeable(expr: Any) -> bool:
    """Whether an aggregate expression is a plain call over all rows of a group."""
    call = aggregate_call(expr)
    return call is not None and call.is_plain


def _is_float(data_type: pa.DataType) -> bool:
    values = data_type.value_type if pa.types.is_dictionary(data_type) else data_type
    return bool(pa.types.is_floating(values))


def _name(expr: Any) -> str:
    return qualified_name(expr) or ""
