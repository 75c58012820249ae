"""Partition fields: how `lance_df.PartitionedNamespace` computes the partition of a row from its columns.

Every function takes one or more column names (``a.b`` is a field of a struct) and, as ``field_id``, a name
for the partition field. By default the name is built from the column and the transform. Spec: partitioning,
"Partition Transform".
"""

from __future__ import annotations

import pyarrow as pa

from lance_df.arguments import checked_names as _checked_names
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
    """Partition by the value itself."""
    return PartitionBy((column,), Transform(TransformKind.IDENTITY), field_id=field_id)


def year(column: str, *, field_id: str | None = None) -> PartitionBy:
    """Partition by the year of a date or timestamp. A timestamp's time zone, if any, determines its year."""
    return PartitionBy((column,), Transform(TransformKind.YEAR), field_id=field_id)


def month(column: str, *, field_id: str | None = None) -> PartitionBy:
    """Partition by the month, 1 to 12, regardless of the year."""
    return PartitionBy((column,), Transform(TransformKind.MONTH), field_id=field_id)


def day(column: str, *, field_id: str | None = None) -> PartitionBy:
    """Partition by the day of the month, 1 to 31, regardless of the month."""
    return PartitionBy((column,), Transform(TransformKind.DAY), field_id=field_id)


def hour(column: str, *, field_id: str | None = None) -> PartitionBy:
    """Partition by the hour, 0 to 23, regardless of the day."""
    return PartitionBy((column,), Transform(TransformKind.HOUR), field_id=field_id)


def bucket(column: str, num_buckets: int, *, field_id: str | None = None) -> PartitionBy:
    """Partition by the murmur3 hash of the value, modulo ``num_buckets``."""
    return PartitionBy((column,), Transform(TransformKind.BUCKET, num_buckets), field_id=field_id)


def multi_bucket(columns: list[str], num_buckets: int, *, field_id: str | None = None) -> PartitionBy:
    """Partition by the murmur3 hash of several values, modulo ``num_buckets``. NULLs do not affect it."""
    return PartitionBy(_names(columns), Transform(TransformKind.MULTI_BUCKET, num_buckets), field_id=field_id)


def truncate(column: str, width: int, *, field_id: str | None = None) -> PartitionBy:
    """Partition by the first ``width`` characters of a string, or by a number truncated to a multiple of it.

    Numbers are rounded towards zero to a multiple of ``width``.
    """
    return PartitionBy((column,), Transform(TransformKind.TRUNCATE, width=width), field_id=field_id)


def expression(
    text: str, columns: list[str], *, field_id: str | None = None, result_type: pa.DataType | None = None
) -> PartitionBy:
    """Partition by a DataFusion SQL expression, in which ``col0``, ``col1`` … stand for ``columns``.

    The expression must meet these conditions, which are checked when the spec is created: it depends only on
    its row, it returns the same result for equal values of any width, and it is defined for NULL.
    """
    return PartitionBy(_names(columns), expression=text, field_id=field_id, result_type=result_type)


def _names(columns: list[str] | str) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(_checked_names(columns, "columns"))
