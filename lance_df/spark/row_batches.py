"""Control the batches in which Spark passes rows to writers in Python.

After each row, Spark computes the size of its batch again, column by column, which takes longer than adding
the row. Small batches with rows of numbers and texts need no limit in bytes. Python joins small batches.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import types as T

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
_NO_BOUND: Final = str(2**31 - 1)
# Even with a text of a megabyte in each of these rows, Arrow can hold the batch.
_FEW_ROWS: Final = 1000
_NARROW: Final = (
    T.NumericType,
    T.BooleanType,
    T.StringType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
)
_JOINED_ROWS: Final = 16 * 1024
_JOINED_BYTES: Final = 8 * 1024 * 1024


@contextmanager
def bounded_by_rows(spark: SparkSession, schema: StructType) -> Iterator[None]:
    """Limit the batches that this thread writes by rows only, if rows of the schema are narrow.

    A limit that the session sets is kept. Spark Connect has no settings per thread, so nothing changes there.
    """
    context = getattr(spark, "_sc", None)
    if context is None or not _is_narrow(schema) or _ROWS in spark.conf.getAll:
        yield
        return
    settings = {_ROWS: str(_FEW_ROWS), _BYTES: _NO_BOUND}
    before = {name: context.getLocalProperty(name) for name in settings}
    try:
        for name, value in settings.items():
            context.setLocalProperty(name, value)
        yield
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same rows in fewer batches, because each batch has a cost."""
    waiting: list[pa.RecordBatch] = []
    num_rows = num_bytes = 0
    for batch in batches:
        waiting.append(batch)
        num_rows += batch.num_rows
        num_bytes += batch.nbytes
        if num_rows >= _JOINED_ROWS or num_bytes >= _JOINED_BYTES:
            yield from _as_one(waiting)
            waiting, num_rows, num_bytes = [], 0, 0
    yield from _as_one(waiting)


def _as_one(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) < 2:
        return batches
    joined: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return joined


def _is_narrow(data_type: DataType) -> bool:
    if isinstance(data_type, T.StructType):
        return all(_is_narrow(field.dataType) for field in data_type.fields)
    return isinstance(data_type, _NARROW)
