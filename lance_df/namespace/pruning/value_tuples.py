"""Conditions that the values of several partition columns are together one of some tuples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.expr.floats import float_values
from lance_df.expr.nodes import And, Column, Comparison, In, IsNull, Operator, Or, Predicate, Unknown
from lance_df.records import dataclass

# Up to this many floats are an OR of equalities, in which 0.0 equals -0.0.
_MAX_FLOATS: Final = 16


@dataclass(frozen=True, slots=True)
class ValueTuples(Unknown):
    """``(a, b) IN ((1, 2), …)`` with NULL as an ordinary value. The result is never NULL.

    Attributes
    ----------
    names
        The columns.
    values
        For each column, its value in each tuple.
    """

    names: tuple[str, ...] = ()
    values: tuple[pa.Array, ...] = ()

    def contain(self, columns: Mapping[str, pa.Array]) -> pa.BooleanArray:
        """Return for each row whether its values form one of the tuples."""
        listed = np.zeros(len(self.values[0]), np.int64)
        rows: npt.NDArray[np.int64] | None = None
        for name, values in zip(self.names, self.values, strict=True):
            distinct = values.unique()
            known, codes = _codes(values, distinct), _codes(columns[name], distinct)
            keys, listed = np.unique(listed * len(distinct) + known, return_inverse=True)
            before = np.zeros(len(codes), np.int64) if rows is None else rows
            wanted = before * len(distinct) + codes
            indices = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            rows = np.where((before >= 0) & (codes >= 0) & (keys[indices] == wanted), indices, -1)
        return pa.array(np.zeros(0, np.bool_) if rows is None else rows >= 0)

    def spelled_out(self) -> Predicate:
        """Return the same condition as comparisons, with tuples of the same first values grouped."""
        return _grouped(list(zip(self.names, self.values, strict=True)))


def _codes(values: pa.Array, distinct: pa.Array) -> npt.NDArray[np.int64]:
    if pa.types.is_float16(values.type):  # which Arrow cannot look up
        values, distinct = (each.cast(pa.float32()) for each in (values, distinct))
    indices = pc.index_in(values, value_set=distinct)
    return cast(
        "npt.NDArray[np.int64]", pc.fill_null(indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    )


def _grouped(tuples: Sequence[tuple[str, pa.Array]]) -> Predicate:
    (name, values), *others = tuples
    if not others:
        return equals_any(Column((name,)), values)
    codes = _codes(values, values.unique())
    groups = []
    for code in range(codes.max(initial=-1) + 1):
        rows = pa.array(np.flatnonzero(codes == code))
        rest = _grouped([(other, column.take(rows)) for other, column in others])
        groups.append(And((equals_any(Column((name,)), values.take(rows)), rest)))
    return groups[0] if len(groups) == 1 else Or(tuple(groups))


def equals_any(column: Column, values: pa.Array) -> Predicate:
    """Return the condition that a partition column has one of some values, with NULL as an ordinary value."""
    present = values.drop_null().unique()
    parts: list[Predicate] = []
    if len(present) == 1 or (len(present) <= _MAX_FLOATS and pa.types.is_floating(present.type)):
        parts += [Comparison(column, Operator.EQ, value) for value in present]
    elif len(present):
        parts.append(In(column, with_both_zeros(present)))
    if values.null_count:
        parts.append(IsNull(column))
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def with_both_zeros(values: pa.Array) -> pa.Array:
    """Return the values, with both 0.0 and -0.0 if one of them is included, as they are equal."""
    if not pa.types.is_floating(values.type):
        return values
    is_zero = float_values(values) == 0
    return pa.concat_arrays([values, pa.array([0.0, -0.0], values.type)]) if is_zero.any() else values
