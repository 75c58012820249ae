"""Partition fields: how `lance_df.PartitionedNamespace` derives the partition of a row from its columns.

Every function takes names of columns (``a.b`` is a field of a struct) and, as ``field_id``, a name for the
partition field; by default one is made from column and transform. Spec: partitioning, "Partition Transform".
"""

from __future__ import annotations

import pyarrow as pa

from lance_df.namespace.spec.partition_by import PartitionBy
from lance_df.namespace.spec.transforms import Transform, TransformKind

__all__ = [
    "PartitionBy",
    "bucket",
    "day",
    "expression",
    "hour",
    "identity",
    "month",
    "multi_bucket",
    "truncate",
    "year",
]


def identity(column: str, *, field_id: str | None = None) -> PartitionBy:
    """The value itself."""
    return PartitionBy((column,), Transform(TransformKind.IDENTITY), field_id=field_id)


def year(column: str, *, field_id: str | None = None) -> PartitionBy:
    """The year of a date or timestamp; with a zone, in that zone."""
    return PartitionBy((column,), Transform(TransformKind.YEAR), field_id=field_id)


def month(column: str, *, field_id: str | None = None) -> PartitionBy:
    """The month, 1 to 12, of any year."""
    return PartitionBy((column,), Transform(TransformKind.MONTH), field_id=field_id)


def day(column: str, *, field_id: str | None = None) -> PartitionBy:
    """The day of the month, 1 to 31, of any month."""
    return PartitionBy((column,), Transform(TransformKind.DAY), field_id=field_id)


def hour(column: str, *, field_id: str | None = None) -> PartitionBy:
    """The hour, 0 to 23, of any day."""
    return PartitionBy((column,), Transform(TransformKind.HOUR), field_id=field_id)


def bucket(column: str, num_buckets: int, *, field_id: str | None = None) -> PartitionBy:
    """The murmur3 hash of the value, modulo ``num_buckets``."""
    return PartitionBy((column,), Transform(TransformKind.BUCKET, num_buckets), field_id=field_id)


def multi_bucket(columns: list[str], num_buckets: int, *, field_id: str | None = None) -> PartitionBy:
    """The murmur3 hash of several values, modulo ``num_buckets``; NULLs contribute nothing."""
    return PartitionBy(_names(columns), Transform(TransformKind.MULTI_BUCKET, num_buckets), field_id=field_id)


def truncate(column: str, width: int, *, field_id: str | None = None) -> PartitionBy:
    """The first ``width`` characters of a text, or a number rounded towards zero to a multiple of it."""
    return PartitionBy((column,), Transform(TransformKind.TRUNCATE, width=width), field_id=field_id)


def expression(
    text: str, columns: list[str], *, field_id: str | None = None, result_type: pa.DataType | None = None
) -> PartitionBy:
    """The value of a DataFusion SQL expression over ``col0``, ``col1`` …, which stand for ``columns``.

    It must depend on nothing but its row, give the same for equal values of any width, and be defined for
    NULL; that is checked when the spec is made.
    """
    return PartitionBy(_names(columns), expression=text, field_id=field_id, result_type=result_type)


def _names(columns: list[str] | str) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)
