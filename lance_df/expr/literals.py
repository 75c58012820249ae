"""Comparisons of a column with literals of other types, without loss."""

from __future__ import annotations

import pyarrow as pa

from lance_df.expr.nodes import Column, Operator, Predicate


def compare(column: Column, data_type: pa.DataType, operator: Operator, value: pa.Scalar) -> Predicate:
    """Return ``column operator value`` with the literal brought to the column's type ``data_type``."""
    raise NotImplementedError


def is_in(column: Column, data_type: pa.DataType, values: pa.Array) -> Predicate:
    """Return ``column IN (values)`` with the values brought to the column's type; nulls are allowed."""
    raise NotImplementedError
