"""Derive the condition on a partition field from one comparison with a source column.

If a row satisfies ``id = 7``, its partition value is that of the field's expression for 7. If it satisfies
``ts >= '2024-03-01'``, its year is 2024 or later. Spec: partitioning, appendix D.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import InvalidInputError
from lance_df.expr.floats import float_values
from lance_df.expr.literals import bind_literals, compare, integer_limits, is_in
from lance_df.expr.nodes import (
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Literal,
    Not,
    Operator,
    Or,
    Predicate,
    Truth,
    Unknown,
)
from lance_df.namespace.pruning.value_tuples import equals_any, with_both_zeros
from lance_df.namespace.spec.literal_values import MAX_ROWS, values_of_literals, with_literals
from lance_df.namespace.spec.partition_spec import PartitionField
from lance_df.namespace.spec.transforms import CALENDAR_PARTS, TransformKind
from lance_df.records import dataclass

NOTHING: Final = Literal(True)
RANGE_ENDS: Final = (Operator.LT, Operator.LE, Operator.GT, Operator.GE)

_INCLUSIVE: Final = {Operator.LT: (Operator.LE, -1), Operator.GT: (Operator.GE, 1)}


@dataclass(frozen=True, slots=True)
class SourcedField:
    """A partition field and its source columns, with their current names and types."""

    field: PartitionField
    paths: tuple[tuple[str, ...], ...]
    types: tuple[pa.DataType, ...]

    @property
    def kind(self) -> TransformKind | None:
        """The transform of the field; None for an expression."""
        return None if self.field.transform is None else self.field.transform.kind

    @property
    def column(self) -> Column:
        """The column of the field in ``__manifest``."""
        return Column((self.field.column,))

    def implied(self, leaf: Predicate) -> Predicate:
        """Return the condition that a predicate on the only source column implies, or `NOTHING`.

        Parameters
        ----------
        leaf
            `Comparison`, `In`, `IsNull`, `Truth`, or `Not` of one of the last three, with literals of the
            column's type.
        """
        if self.kind is TransformKind.IDENTITY:
            return self._of_identity(leaf)
        values = possible_values(leaf, self.types[0])
        if values is not None:
            return self.among([values])
        match leaf:
            case Comparison(_, operator) if operator in RANGE_ENDS and self.kind is TransformKind.TRUNCATE:
                return self._of_end(leaf)
            case Comparison(_, Operator.NE, value) if self.kind is TransformKind.TRUNCATE:
                return self._of_others(pa.repeat(value, 1))
            case Not(In(_, values)) if self.kind is TransformKind.TRUNCATE:
                return self._of_others(values)
            case Comparison() | Not(In() | IsNull()) if self.kind in _NULL_FOR_NULL_ONLY:
                return Not(IsNull(self.column))
            case _:
                return NOTHING

    def among(self, sources: Sequence[pa.Array]) -> Predicate:
        """Return the condition that the partition value is that of one of the rows of source values."""
        values = self.values(sources)
        return NOTHING if values is None else equals_any(self.column, values)

    def values(self, sources: Sequence[pa.Array]) -> pa.Array | None:
        """Return the partition values of rows of source values, or None if the expression fails."""
        try:
            return values_of_literals(self.field, sources)
        except InvalidInputError:
            return None

    def _of_identity(self, leaf: Predicate) -> Predicate:
        is_float = pa.types.is_floating(self.field.result_type)
        match leaf:
            case Comparison(_, Operator.EQ) | In():
                values = possible_values(leaf, self.types[0])
                return NOTHING if values is None else self.among([values])
            case Comparison(_, operator, value) if is_float:
                return self._of_float(operator, value)
            case Comparison(_, operator, value):
                bound = compare(self.column, self.field.result_type, operator, value)
                return NOTHING if isinstance(bound, Unknown) else bound
            case Not(In(_, values)):
                if is_float:  # in a partition of a zero or of NaN, only some of the rows may be listed
                    floats = float_values(values)
                    values = values.filter(pa.array((floats != 0) & ~np.isnan(floats)))
                return self._is_other(values)
            case IsNull():
                return IsNull(self.column)
            case Truth():
                return Truth(self.column)
            case Not(Truth()):
                return Not(Truth(self.column))
            case _:
                return Not(IsNull(self.column))

    def _of_float(self, operator: Operator, value: pa.Scalar) -> Predicate:
        """Return the condition that a comparison of floats implies.

        The partition of 0.0 has zeros of both signs. The partition of NaN has NaN of both signs, which sort
        above and below all numbers.
        """
        number = value.as_py()
        if math.isnan(number) and math.copysign(1, number) < 0:  # no SQL literal is a negative NaN
            return Not(IsNull(self.column))
        data_type = self.field.result_type
        bound = compare(self.column, data_type, operator, pa.scalar(number + 0.0, value.type))
        if isinstance(bound, Unknown):
            return NOTHING
        return Or((bound, Comparison(self.column, Operator.EQ, pa.scalar(math.nan, data_type))))

    def _of_end(self, leaf: Comparison) -> Predicate:
        """Truncation is monotonic, so if ``x >= v``, the truncated ``x`` is not below the truncated ``v``."""
        bound = inclusive(leaf, self.types[0])
        if bound is None:
            return Literal(False)
        computed = self.values([pa.repeat(bound.value, 1)])
        if computed is None or computed.null_count:
            return NOTHING
        operator = Operator.GE if bound.operator in (Operator.GE, Operator.GT) else Operator.LE
        is_prefix = _is_text(computed.type) and computed[0].as_py() == bound.value.as_py()
        if bound.operator is Operator.LT and is_prefix:
            operator = Operator.LT  # no string that begins with the text is below it
        elif bound.operator is Operator.GT and len(self._alone(pa.repeat(bound.value, 1))):
            operator = Operator.GT
        return Comparison(self.column, operator, computed[0])

    def _of_others(self, values: pa.Array) -> Predicate:
        """Return the condition implied if a truncated column has none of some values."""
        return self._is_other(self._alone(values))

    def _alone(self, values: pa.Array) -> pa.Array:
        """Return the values whose truncated value belongs to no other value."""
        width = self.field.transform.width if self.field.transform is not None else None
        if _is_text(values.type):
            return values.filter(pc.less(pc.utf8_length(values), width))
        if not pa.types.is_integer(values.type) or width is None:
            return values.slice(0, 0)
        if width == 1:
            return values
        # the steps at the limits of a type may have only one value, except the step around 0
        ends = [limit for limit in integer_limits(values.type) if limit and limit % width == 0]
        return values.filter(pc.is_in(values, pa.array(ends, values.type)))

    def _is_other(self, values: pa.Array) -> Predicate:
        """Return the condition that the partition value is not NULL and is none of these values."""
        listed = is_in(self.column, self.field.result_type, values)
        has_values = isinstance(listed, In) and len(listed.values) > 0
        return Not(listed) if has_values else Not(IsNull(self.column))


@dataclass(frozen=True, slots=True)
class Derivation:
    """How a part of a predicate on a partition column was derived from values of source columns.

    Attributes
    ----------
    implied
        The last leaf of that part.
    """

    field: PartitionField
    sources: tuple[pa.Array, ...]
    implied: Predicate

    def to_sql(self) -> str | None:
        """Return the expression with values in place of columns, or None for identity or many values.

        Raises
        ------
        LanceError
            A value has no SQL literal, or the expression is malformed.
        """
        transform = self.field.transform
        is_identity = transform is not None and transform.kind is TransformKind.IDENTITY
        if is_identity or len(self.sources[0]) > MAX_ROWS:
            return None
        return ", ".join(dict.fromkeys(with_literals(self.field, self.sources, typed=False)))


_NULL_FOR_NULL_ONLY: Final = (TransformKind.BUCKET, TransformKind.TRUNCATE)


def possible_values(leaf: Predicate, data_type: pa.DataType) -> pa.Array | None:
    """Return the values that a column may have if a predicate on it is true; None if there are many."""
    match leaf:
        case Comparison(_, Operator.EQ, value):
            values = pa.repeat(value, 1)
        case In(_, values, _):
            pass
        case IsNull(Column()):
            return pa.nulls(1, data_type)
        case Truth():
            return pa.array([True])
        case Not(Truth()):
            return pa.array([False])
        case _:
            return None
    return with_both_zeros(values)


def _is_text(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))


def inclusive(leaf: Comparison, data_type: pa.DataType) -> Comparison | None:
    """Return ``x <= 4`` for ``x < 5`` if the type is discrete, or None if no value satisfies it."""
    if leaf.operator not in _INCLUSIVE:
        return leaf
    operator, step = _INCLUSIVE[leaf.operator]
    value = leaf.value
    if pa.types.is_integer(data_type):
        number, limits = value.as_py() + step, integer_limits(data_type)
        moved = pa.scalar(number, data_type) if limits[0] <= number <= limits[1] else None
    elif pa.types.is_date(data_type) or pa.types.is_timestamp(data_type):
        width = pa.int32() if pa.types.is_date32(data_type) else pa.int64()
        number, limits = pa.repeat(value, 1).view(width)[0].as_py() + step, integer_limits(width)
        within = limits[0] <= number <= limits[1]
        moved = pa.array([number], width).view(data_type)[0] if within else None
    else:
        return leaf
    return None if moved is None else Comparison(leaf.column, operator, moved)


def bound_leaf(leaf: Predicate, data_type: pa.DataType) -> Predicate:
    """Return a leaf with literals of the column's type; the result may be another kind of predicate."""
    return bind_literals(leaf, data_type)


def both(parts: Sequence[Predicate]) -> Predicate:
    """Return the conjunction of all predicates except `NOTHING`."""
    needed = tuple(part for part in parts if part != NOTHING)
    if not needed:
        return NOTHING
    return needed[0] if len(needed) == 1 else And(needed)


def calendar_fields(fields: Sequence[SourcedField]) -> dict[TransformKind, PartitionField]:
    """Return the fields of one column that are calendar parts, by kind."""
    return {each.kind: each.field for each in fields if each.kind in CALENDAR_PARTS and each.kind is not None}
