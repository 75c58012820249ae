"""Decimals that cross between Python and the JVM as integers.

Spark makes a `BigDecimal` of each decimal that it takes from an Arrow batch or puts into one, which takes
longer than all else it does with the row. Those of up to 18 digits it keeps as a long anyway: so the digits
cross as one, in a column whose metadata tells what they stand for, and an expression of the JVM makes
decimals of them, or the digits of decimals.
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

DIGITS: Final = {"decimalsAsIntegers": "true"}
"""The option of a read or a write whose decimals cross as integers."""
_KEY: Final = "lance_df.decimal"
_MAX_DIGITS: Final = 18


def can_cross_as_integers(spark: SparkSession) -> bool:
    """Whether a session has a JVM at hand, with the expressions that this takes: Spark Connect has none."""
    if getattr(spark, "_sc", None) is None:
        return False
    from py4j.protocol import Py4JError
    from pyspark.sql import functions as F  # noqa: N812

    try:
        _digits_of(spark, _made(spark, F.lit(0), DecimalType(1, 0)))
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
            StructField(field.name, _decimal(field) or field.dataType, field.nullable, _others(field))
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


def from_integers(batch: pa.RecordBatch, schema: StructType) -> pa.RecordBatch:
    """Return a batch of Spark with decimals for the integers of a schema of `with_integers`."""
    decimals = {field.name: decimal for field in schema.fields if (decimal := _decimal(field)) is not None}
    if not decimals:
        return batch
    names = batch.schema.names
    columns = [
        column if name not in decimals else _from_digits(column, decimals[name])
        for name, column in zip(names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names)


def with_digits(df: DataFrame) -> DataFrame:
    """Return a DataFrame with the integers that `with_integers` has for its decimals."""
    from pyspark.sql import functions as F  # noqa: N812

    from lance_df.spark.routes import quoted

    schema = df.schema
    wanted = with_integers(schema)
    if wanted == schema:
        return df
    columns = []
    for field in wanted.fields:
        column = F.col(quoted([field.name]))
        if field.dataType != schema[field.name].dataType:
            column = _digits_of(df.sparkSession, column).alias(field.name, metadata=field.metadata)
        columns.append(column)
    return df.select(*columns)


def with_decimals(df: DataFrame) -> DataFrame:
    """Return a DataFrame with the decimals that its integers stand for."""
    # tasks do without what only drivers need
    from pyspark.sql import functions as F  # noqa: N812

    from lance_df.spark.routes import quoted

    if not any(_decimal(field) for field in df.schema.fields):
        return df
    columns = []
    for field in df.schema.fields:
        column = F.col(quoted([field.name]))
        if (decimal := _decimal(field)) is not None:
            column = _made(df.sparkSession, column, decimal).alias(field.name, metadata=_others(field))
        columns.append(column)
    return df.select(*columns)


def _as_integer(field: StructField) -> StructField:
    held = field.dataType
    if not isinstance(held, DecimalType) or held.precision > _MAX_DIGITS:
        return field
    metadata = _others(field) | {_KEY: [held.precision, held.scale]}
    return StructField(field.name, LongType(), field.nullable, metadata)


def _others(field: StructField) -> dict[str, Any]:
    """Return the metadata of a column, but for what it stands for."""
    return {key: value for key, value in field.metadata.items() if key != _KEY}


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


def _from_digits(column: pa.Array, decimal: DecimalType) -> pa.Array:
    digits = np.frombuffer(column.buffers()[1] or b"", np.int64)[column.offset : column.offset + len(column)]
    words = np.stack((digits, digits >> 63), axis=1)
    bitmap = pc.is_valid(column).buffers()[1] if column.null_count else None
    data_type = pa.decimal128(decimal.precision, decimal.scale)
    return pa.Array.from_buffers(data_type, len(column), [bitmap, pa.py_buffer(words)])


def _made(spark: SparkSession, digits: Column, decimal: DecimalType) -> Column:
    return _expression(spark, "MakeDecimal", digits, decimal.precision, decimal.scale, False)


def _digits_of(spark: SparkSession, decimals: Column) -> Column:
    return _expression(spark, "UnscaledValue", decimals)


def _expression(spark: SparkSession, name: str, column: Column, *arguments: object) -> Column:
    from pyspark.sql.classic.column import Column as ClassicColumn

    jvm: Any = spark._sc._jvm
    columns = jvm.org.apache.spark.sql.classic.ExpressionUtils
    make = getattr(jvm.org.apache.spark.sql.catalyst.expressions, name)
    return ClassicColumn(columns.column(make(columns.expression(column._jc), *arguments)))
