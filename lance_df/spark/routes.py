"""Compute a number for each row, by which Spark shuffles the rows of a partition together.

The number decides only which task writes a row. Writers compute the partition themselves, so a wrong number
does no harm: more tasks than needed would write a partition. Spark's own functions are used if possible,
because a Python function would transfer all columns of the rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.functions import arrow_udf

from lance_df.format.column_path import format_path, quoted_name
from lance_df.hashing import murmur3
from lance_df.namespace.changes.routing import values_of_rows
from lance_df.namespace.keys import value_keys
from lance_df.namespace.snapshot import NamespaceSnapshot
from lance_df.namespace.spec.transforms import CALENDAR_PARTS, Transform, TransformKind
from lance_df.spark.types import to_stored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from lance_df.namespace.spec.partition_spec import PartitionField
    from lance_df.spark.opened import SourceRef

_PARTS = {
    TransformKind.YEAR: F.year,
    TransformKind.MONTH: F.month,
    TransformKind.DAY: F.dayofmonth,
    TransformKind.HOUR: F.hour,
}
_HOUR_MICROS: Final = 3_600_000_000


def route(df: DataFrame, ref: SourceRef, snapshot: NamespaceSnapshot) -> Column:
    """Return a number for each row of a DataFrame, which is equal for rows of the same partition."""
    schema = snapshot.manifest.schema
    fields = snapshot.manifest.specs.current.fields
    paths = [schema.path(field_id) for field in fields for field_id in field.source_ids]
    names = [name for name in dict.fromkeys(path[0] for path in paths if path) if name in df.columns]
    if not names:
        return F.lit(0)
    values = [_spark_value(df, field, snapshot) for field in fields]
    native = [value for value in values if value is not None]
    return F.xxhash64(*native) if len(native) == len(values) else _by_writers(names, ref, snapshot)


def _by_writers(names: Sequence[str], ref: SourceRef, snapshot: NamespaceSnapshot) -> Column:
    """Return a number computed from partition values, which are computed as writers do it."""
    schema = snapshot.manifest.schema
    # nulls that must not be are refused later, by the writer
    sources = pa.schema([schema.arrow.field(name).with_nullable(True) for name in names])

    def number(*columns: pa.Array) -> pa.Array:
        source = ref.open_namespace()
        batch = to_stored(pa.RecordBatch.from_arrays(list(columns), list(names)), sources)
        values = values_of_rows(source.manifest.specs.current, source.manifest.schema, batch)
        return murmur3(value_keys(values.columns))

    udf = arrow_udf(number, "int")  # type: ignore[call-overload] # Any may be an iterator
    return udf(*(F.col(quoted_name(name)) for name in names))


def _spark_value(df: DataFrame, field: PartitionField, snapshot: NamespaceSnapshot) -> Column | None:
    """Return a Spark expression that is distinct for distinct values of a partition field, or None."""
    path = snapshot.manifest.schema.path(field.source_ids[0])
    if field.transform is None or len(field.source_ids) != 1 or path is None:
        return None
    data_type: T.DataType | None = df.schema
    for name in path:
        held = isinstance(data_type, T.StructType) and name in data_type.names
        data_type = data_type[name].dataType if isinstance(data_type, T.StructType) and held else None
    return None if data_type is None else _transformed(field.transform, F.col(format_path(path)), data_type)


def _transformed(transform: Transform, column: Column, data_type: T.DataType) -> Column | None:
    if transform.kind is TransformKind.IDENTITY:
        return column if isinstance(data_type, T.AtomicType) else None
    if transform.kind in CALENDAR_PARTS:
        if isinstance(data_type, T.TimestampType):
            return _utc_part(transform.kind, column)
        is_plain = isinstance(data_type, T.DateType | T.TimestampNTZType)
        return _PARTS[transform.kind](column) if is_plain else None
    if transform.width is not None and isinstance(data_type, T.StringType):
        return F.substring(column, 1, transform.width)
    if transform.width is not None and isinstance(data_type, T.IntegralType):
        return column - column % transform.width
    return None


def _utc_part(kind: TransformKind, column: Column) -> Column:
    """Return a part of the date in UTC; Spark's own functions fail for times far from today."""
    hours = F.floor(F.unix_micros(column) / _HOUR_MICROS)
    if kind is TransformKind.HOUR:
        return F.pmod(hours, F.lit(24))
    return _PARTS[kind](F.date_from_unix_date(F.floor(hours / 24).cast("int")))
