"""Decimals that cross to the JVM as integers, and become decimals there.

Spark makes a `BigDecimal` of each decimal of an Arrow batch, which takes longer than all else it does with
the row. Those of up to 18 digits it keeps as a long anyway: so a source hands over the digits as one, in a
column whose metadata tells what they stand for, and an expression of the JVM makes the decimals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DecimalType, LongType, StructField, StructType

from lance_df.errors import InvalidInputError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_KEY: Final = "lance_df.decimal"
_MAX_DIGITS: Final = 18


def can_make_decimals(spark: SparkSession) -> bool:
    """Whether a session has a JVM at hand, with the expression that this takes: Spark Connect has none."""
    if getattr(spark, "_sc", None) is None:
        return False
    from py4j.protocol import Py4JError
    from pyspark.sql import functions as F  # noqa: N812

    try:
        _made(spark, F.lit(0), DecimalType(1, 0))
    except (ImportError, Py4JError, TypeError):  # it is Spark's own, and may have moved
        return False
    return True


def with_integers(schema: StructType) -> StructType:
    """Return a schema in which columns of decimals are integers, where the names of columns are plain."""
    if len({name.lower() for name in schema.names}) < len(schema.names):
        return schema  # an expression cannot name them
    return StructType([_as_integer(field) for field in schema.fields])


def without_integers(schema: StructType) -> StructType:
    """Return a schema of `with_integers` with its decimals."""
    return StructType(
        [
            StructField(field.name, _decimal(field) or field.dataType, field.nullable)
            for field in schema.fields
        ]
    )


def to_integers(batch: pa.RecordBatch, schema: StructType, target: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the digits of those columns that are integers in a schema of `with_integers`.

    Parameters
    ----------
    batch
        Some of the columns of the schema, with their decimals.
    target
        Its columns, and their Arrow types in the schema.

    Raises
    ------
    InvalidInputError
        A decimal has more digits than its type allows.
    """
    decimals = {field.name for field in schema.fields if _decimal(field) is not None}
    columns = [
        _digits(name, column) if name in decimals else column
        for name, column in zip(target.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=target)


def with_decimals(df: DataFrame) -> DataFrame:
    """Return a DataFrame with the decimals that its integers stand for."""
    # tasks do without what only drivers need
    from pyspark.sql import functions as F  # noqa: N812

    from lance_df.spark.routes import quoted

    found = [_decimal(field) for field in df.schema.fields]
    if not any(found):
        return df
    names = [quoted([name]) for name in df.schema.names]
    columns = [
        F.col(path) if decimal is None else _made(df.sparkSession, F.col(path), decimal).alias(name)
        for name, path, decimal in zip(df.schema.names, names, found, strict=True)
    ]
    return df.select(*columns)


def _as_integer(field: StructField) -> StructField:
    held = field.dataType
    if not isinstance(held, DecimalType) or held.precision > _MAX_DIGITS:
        return field
    return StructField(field.name, LongType(), field.nullable, {_KEY: [held.precision, held.scale]})


def _decimal(field: StructField) -> DecimalType | None:
    return DecimalType(*field.metadata[_KEY]) if _KEY in field.metadata else None


def _digits(name: str, column: pa.Array) -> pa.Array:
    words = np.frombuffer(column.buffers()[1], np.int64).reshape(-1, 2)
    words = words[column.offset : column.offset + len(column)]
    digits, signs = words[:, 0].copy(), words[:, 1]
    valid = pc.is_valid(column) if column.null_count else None
    is_wrong = digits >> 63 != signs
    if valid is not None:
        is_wrong &= valid.to_numpy(zero_copy_only=False)
    if is_wrong.any():
        raise InvalidInputError(f"column {name!r}: a value has more digits than {column.type} allows")
    bitmap = None if valid is None else valid.buffers()[1]
    return pa.Array.from_buffers(pa.int64(), len(column), [bitmap, pa.py_buffer(digits)])


def _made(spark: SparkSession, digits: Column, decimal: DecimalType) -> Column:
    from pyspark.sql.classic.column import Column as ClassicColumn

    jvm: Any = spark._sc._jvm
    columns = jvm.org.apache.spark.sql.classic.ExpressionUtils
    make = jvm.org.apache.spark.sql.catalyst.expressions.MakeDecimal
    expression = make(columns.expression(digits._jc), decimal.precision, decimal.scale, False)
    return ClassicColumn(columns.column(expression))
