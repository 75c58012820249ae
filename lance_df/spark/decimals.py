"""Pass decimals between Python and the JVM as integers.

Spark creates a `BigDecimal` for each decimal that it reads from or writes to an Arrow batch, which takes
longer than all other work on the row. Decimals of up to 18 digits are a long in Spark anyway, so their digits
are passed as integers, in a column whose metadata have the precision and scale. A JVM expression converts the
digits to decimals, or decimals to digits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DecimalType, LongType, StructField, StructType

from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.format.column_path import quoted_name

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import Column, DataFrame, SparkSession

DIGITS: Final = {"decimalsAsIntegers": "true"}
"""The option of a read or a write that passes decimals as integers."""
_KEY: Final = "lance_df.decimal"
_MAX_DIGITS: Final = 18


def can_cross_as_integers(spark: SparkSession) -> bool:
    """Whether a session has a JVM in reach with the needed expressions; Spark Connect has none."""
    return _expressions_of(spark) is not None


def with_integers(schema: StructType) -> StructType:
    """Return a schema with integers for decimals, unless names of columns differ only in case."""
    if len({name.lower() for name in schema.names}) < len(schema.names):
        return schema  # an expression cannot name such columns
    return StructType([_as_integer(field) for field in schema.fields])


def without_integers(schema: StructType) -> StructType:
    """Return a schema of `with_integers` with decimals again."""
    return StructType(
        [
            StructField(field.name, _decimal(field) or field.dataType, field.nullable, _others(field))
            for field in schema.fields
        ]
    )


def to_integers(batch: pa.RecordBatch, schema: StructType, target: pa.Schema) -> pa.RecordBatch:
    """Return a batch with digits for the decimals that are integers in a schema of `with_integers`.

    Parameters
    ----------
    batch
        Some columns of the schema, with decimals.
    target
        The columns of the batch with their Arrow types in the schema.

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
    """Return a batch from Spark with decimals for the integers of a schema of `with_integers`."""
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
    """Return a DataFrame with integers for decimals, in the schema of `with_integers`."""
    schema = df.schema
    wanted = with_integers(schema)
    changed = [field for field in wanted.fields if field.dataType != schema[field.name].dataType]
    if not changed:
        return df
    expressions = _required(df.sparkSession)
    return df.withColumns(
        {
            field.name: expressions.digits(field.name).alias(field.name, metadata=field.metadata)
            for field in changed
        }
    )


def with_decimals(df: DataFrame) -> DataFrame:
    """Return a DataFrame with decimals for integers whose metadata have a precision and scale."""
    decimals = [(field, decimal) for field in df.schema.fields if (decimal := _decimal(field)) is not None]
    if not decimals:
        return df
    expressions = _required(df.sparkSession)
    columns = {}
    for field, decimal in decimals:
        column, others = expressions.decimals(field.name, decimal), _others(field)
        columns[field.name] = column.alias(field.name, metadata=others) if others else column
    return df.withColumns(columns)


def _as_integer(field: StructField) -> StructField:
    held = field.dataType
    if not isinstance(held, DecimalType) or held.precision > _MAX_DIGITS:
        return field
    metadata = _others(field) | {_KEY: [held.precision, held.scale]}
    return StructField(field.name, LongType(), field.nullable, metadata)


def _others(field: StructField) -> dict[str, Any]:
    """Return the metadata of a column without its precision and scale."""
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


class _Expressions:
    """JVM expressions that no function of PySpark creates.

    The lookup of a JVM name takes several requests, so it is done only once.
    """

    def __init__(self, context: SparkContext) -> None:
        sql: Any = context._jvm.org.apache.spark.sql  # type: ignore[union-attr]
        self._functions = sql.functions
        self._columns = sql.classic.ExpressionUtils
        self._make = sql.catalyst.expressions.MakeDecimal
        self._take = sql.catalyst.expressions.UnscaledValue
        self.digits("a")
        self.decimals("a", DecimalType(1, 0))

    def digits(self, name: str) -> Column:
        """Return the digits of a column of decimals."""
        return self._column(self._take(self._named(name)))

    def decimals(self, name: str, decimal: DecimalType) -> Column:
        """Return the decimals of a column of digits."""
        return self._column(self._make(self._named(name), decimal.precision, decimal.scale, False))

    def _named(self, name: str) -> Any:
        return self._columns.expression(self._functions.col(quoted_name(name)))

    def _column(self, expression: Any) -> Column:
        from pyspark.sql.classic.column import Column as ClassicColumn

        return ClassicColumn(self._columns.column(expression))


_known: WeakKeyDictionary[SparkContext, _Expressions | None] = WeakKeyDictionary()


def _expressions_of(spark: SparkSession) -> _Expressions | None:
    context: SparkContext | None = getattr(spark, "_sc", None)
    if context is None:
        return None
    if context not in _known:
        from py4j.protocol import Py4JError

        try:
            _known[context] = _Expressions(context)
        except (ImportError, Py4JError, TypeError):  # these names are internal to Spark, and may have moved
            _known[context] = None
    return _known[context]


def _required(spark: SparkSession) -> _Expressions:
    expressions = _expressions_of(spark)
    if expressions is None:
        raise UnsupportedFeatureError(
            "this release of Spark has no expressions for decimals that are transferred as integers"
        )
    return expressions
