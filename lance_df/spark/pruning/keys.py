"""Turn the keys of a small join side into a condition on the rows of the other side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lance_df.format.column_path import quoted_name
from lance_df.spark.opened import SourceRef
from lance_df.spark.pruning.conditions import StoredColumn, all_of, compared, listed_in
from lance_df.spark.splits import plan_splits

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from lance_df.spark.pruning.relations import Relation

MAX_KEYS: Final = 1000
"""The most keys that a condition lists; for more keys, it has only the least and the greatest."""

_OF_WHOLE_NUMBERS: Final[dict[type[T.DataType], pa.DataType]] = {
    T.DateType: pa.int32(),
    T.TimestampType: pa.int64(),
    T.TimestampNTZType: pa.int64(),
}
_COMPARED: Final = (T.IntegralType, T.StringType, T.DateType, T.TimestampType, T.TimestampNTZType)


def are_comparable(column: StoredColumn) -> bool:
    """Whether keys in this column are equal in Spark exactly if they are equal in a filter."""
    return isinstance(column.spark_type, _COMPARED) and not column.is_digits


def num_bytes(relation: Relation, filter: str | None) -> int:
    """Return the approximate stored bytes of the fragments that may have rows matching a filter."""
    ref = SourceRef.of(relation.source, relation.options)
    texts = all_of([relation.options.filter, filter])
    splits = plan_splits(relation.source, ref, texts, split_bytes=relation.options.split_bytes, parallelism=1)
    return sum(piece.num_bytes for split in splits for piece in split)


def keys_condition(keys: DataFrame, column: StoredColumn) -> str | None:
    """Return a filter that is true for at least the rows whose column has one of the keys.

    Parameters
    ----------
    keys
        A DataFrame with one column of the same type.
    """
    (field,) = keys.schema.fields
    if field.dataType != column.spark_type:
        return None
    known = keys.where(F.col(quoted_name(field.name)).isNotNull()).distinct()
    values = _plain(known.limit(MAX_KEYS + 1).toArrow().column(0), column)
    if len(values) <= MAX_KEYS:
        return listed_in(column, values)
    name = F.col(quoted_name(field.name))
    extremes = keys.agg(F.min(name).alias("least"), F.max(name).alias("greatest")).toArrow()
    least, greatest = (_plain(each, column)[0] for each in extremes.columns)
    return all_of([compared(column, ">=", least), compared(column, "<=", greatest)])


def _plain(values: pa.ChunkedArray, column: StoredColumn) -> list[Any]:
    """Return values in the form of Spark's internal rows."""
    for kind, data_type in _OF_WHOLE_NUMBERS.items():
        if isinstance(column.spark_type, kind):
            values = values.cast(data_type)
    held: list[Any] = values.to_pylist()
    return held
