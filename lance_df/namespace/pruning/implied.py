"""What one comparison with a column implies for the value of a partition field.

Where a row satisfies ``id = 7``, its partition has the value that the field's expression gives for 7; where
it satisfies ``ts >= '2024-03-01'``, its year is 2024 or later. Spec: partitioning, appendix D.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

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
from lance_df.namespace.spec.partition_spec import PartitionField
from lance_df.namespace.spec.partition_values import partition_values
from lance_df.namespace.spec.transforms import CALENDAR_PARTS, TransformKind
from lance_df.records import dataclass

NOTHING: Final = Literal(True)
RANGE_ENDS: Final = (Operator.LT, Operator.LE, Operator.GT, Operator.GE)

_MAX_FLOATS: Final = 16
_INCLUSIVE: Final = {Operator.LT: (Operator.LE, -1), Operator.GT: (Operator.GE, 1)}


@dataclass(frozen=True, slots=True)
class SourcedField:
    """A partition field and the columns that it is computed from, as they are named and typed by now."""

    field: PartitionField
    paths: tuple[tuple[str, ...], ...]
    types: tuple[pa.DataType, ...]

    @property
    def kind(self) -> TransformKind | None:
        """Its transform; None for an expression."""
        return None if self.field.transform is None else self.field.transform.kind

    @property
    def column(self) -> Column:
        """Its column in ``__manifest``."""
        return Column((self.field.column,))

    def implied(self, leaf: Predicate) -> Predicate:
        """Return what a predicate on the one source column implies; `NOTHING` if nothing is known.

        Parameters
        ----------
        leaf
            `Comparison`, `In`, `IsNull`, `Truth`, or `Not` of one of the latter three; with literals of the
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
            case Comparison() | Not(In() | IsNull()) if self.kind in _NULL_FOR_NULL_ONLY:
                return Not(IsNull(self.column))
            case _:
                return NOTHING

    def among(self, sources: Sequence[pa.Array]) -> Predicate:
        """Return that the partition value is one of those that some rows of source values have."""
        found = self.values(sources)
        return NOTHING if found is None else self.equals_any(found)

    def values(self, sources: Sequence[pa.Array]) -> pa.Array | None:
        """Return the partition values of rows of source values; None where the expression fails."""
        try:
            return partition_values(self.field, sources)
        except InvalidInputError:
            return None

    def equals_any(self, found: pa.Array) -> Predicate:
        """Return that the partition value is one of these, NULL being one like others."""
        present = found.drop_null().unique()
        parts: list[Predicate] = []
        if len(present) == 1 or (len(present) <= _MAX_FLOATS and pa.types.is_floating(present.type)):
            parts += [Comparison(self.column, Operator.EQ, value) for value in present]
        elif len(present):
            parts.append(In(self.column, _with_both_zeros(present)))
        if found.null_count:
            parts.append(IsNull(self.column))
        return either(parts)

    def _of_identity(self, leaf: Predicate) -> Predicate:
        is_float = pa.types.is_floating(self.field.result_type)
        match leaf:
            case Comparison(_, Operator.EQ) | In():
                values = possible_values(leaf, self.types[0])
                return NOTHING if values is None else self.among([values])
            case Comparison(_, operator, value):
                bound = compare(self.column, self.field.result_type, operator, value)
                if isinstance(bound, Unknown):
                    return NOTHING
                if not is_float:
                    return bound
                # one partition has the NaN of both signs, which are above and below all numbers
                nan = pa.scalar(float("nan"), self.field.result_type)
                return Or((bound, Comparison(self.column, Operator.EQ, nan)))
            case Not(In(_, values, has_null)) if not is_float:
                listed = is_in(self.column, self.field.result_type, values)
                return Not(In(self.column, listed.values, has_null)) if isinstance(listed, In) else NOTHING
            case IsNull():
                return IsNull(self.column)
            case Truth():
                return Truth(self.column)
            case Not(Truth()):
                return Not(Truth(self.column))
            case _:
                return Not(IsNull(self.column))

    def _of_end(self, leaf: Comparison) -> Predicate:
        """Rounding keeps the order, so what is not below a value is not rounded below its rounded value."""
        bound = inclusive(leaf, self.types[0])
        if bound is None:
            return Literal(False)
        found = self.values([pa.repeat(bound.value, 1)])
        if found is None or found.null_count:
            return NOTHING
        operator = Operator.GE if bound.operator in (Operator.GE, Operator.GT) else Operator.LE
        is_own_prefix = bound.operator is Operator.LT and pa.types.is_string(found.type)
        if is_own_prefix and found[0].as_py() == bound.value.as_py():
            operator = Operator.LT  # all that begins with the text is not below it
        return Comparison(self.column, operator, found[0])


_NULL_FOR_NULL_ONLY: Final = (TransformKind.BUCKET, TransformKind.TRUNCATE)


def possible_values(leaf: Predicate, data_type: pa.DataType) -> pa.Array | None:
    """Return the values that a column may have where a predicate on it is true; None if they are many."""
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
    return _with_both_zeros(values)


def inclusive(leaf: Comparison, data_type: pa.DataType) -> Comparison | None:
    """Return ``x <= 4`` for ``x < 5`` where values have neighbours; None if no value fulfils it."""
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
    """Return a leaf with literals of the column's type; it may become another predicate on that column."""
    return bind_literals(leaf, data_type)


def either(parts: Sequence[Predicate]) -> Predicate:
    """Return that one of the predicates is true, with as few nodes as that takes."""
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def both(parts: Sequence[Predicate]) -> Predicate:
    """Return that all predicates are true, without those that say nothing."""
    kept = tuple(part for part in parts if part != NOTHING)
    if not kept:
        return NOTHING
    return kept[0] if len(kept) == 1 else And(kept)


def calendar_fields(fields: Sequence[SourcedField]) -> dict[TransformKind, PartitionField]:
    """Return those of some fields of one column that are calendar parts."""
    return {each.kind: each.field for each in fields if each.kind in CALENDAR_PARTS and each.kind is not None}


def _with_both_zeros(values: pa.Array) -> pa.Array:
    """Return the values, and where a zero is among them that of the other sign: they are equal."""
    if not pa.types.is_floating(values.type):
        return values
    is_zero = float_values(values) == 0
    return pa.concat_arrays([values, pa.array([0.0, -0.0], values.type)]) if is_zero.any() else values
