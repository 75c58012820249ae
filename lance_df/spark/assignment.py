"""Cast the rows of a DataFrame to the types of a table by the rules of ANSI store assignment.

Spark casts dates, times and texts here, by its time zone and formats, which Arrow lacks. Numbers are not
cast: writers refuse numbers that do not fit their column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.format.column_path import quoted_name
from lance_df.spark.column_names import with_target_names
from lance_df.spark.types import arrow_schema, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ANSI: Final = "spark.sql.ansi.enabled"
_TIMES: Final = (T.TimestampType, T.TimestampNTZType)
_NESTED: Final = (T.ArrayType, T.MapType, T.StructType)
_PLAIN: Final = (
    T.BinaryType,
    T.BooleanType,
    T.DateType,
    T.DayTimeIntervalType,
    T.NumericType,
    T.StringType,
    *_TIMES,
)
# types whose values Arrow converts to the same texts as Spark
_SAME_TEXT: Final = (T.BinaryType, T.BooleanType, T.IntegralType)


def is_ansi(spark: SparkSession) -> bool:
    """Whether a cast of a value that does not fit is an error in a session, not NULL or another value."""
    return str(spark.conf.get(_ANSI, "true")).lower() == "true"


def with_target_columns(rows: DataFrame, stored: pa.Schema) -> DataFrame:
    """Return rows with the column names of a table, in types that Arrow converts to the table's types.

    Raises
    ------
    UnsupportedFeatureError
        Arrow has no type for a column.
    InvalidInputError
        Spark does not store a type in the type of its column; or see `with_target_names`.
    """
    rows = with_target_names(rows, stored)
    ansi = is_ansi(rows.sparkSession)
    casts = {}
    for field in rows.schema.fields:
        wanted = wanted_type(stored, field.name)
        if wanted is None:
            continue
        assigned = assigned_type(field.name, field.dataType, wanted, is_ansi=ansi)
        if assigned != field.dataType:
            casts[field.name] = F.col(quoted_name(field.name)).cast(assigned)
    rows = rows.withColumns(casts) if casts else rows
    arrow_schema(rows.schema)
    return rows


def wanted_type(stored: pa.Schema, name: str) -> T.DataType | None:
    """Return Spark's type of a column of a table, or None if there is no such column or type."""
    if stored.get_field_index(name) < 0:
        return None
    try:
        return spark_schema(pa.schema([stored.field(name)]), is_assigned=True)[name].dataType
    except UnsupportedFeatureError:
        return None


def assigned_type(
    path: str, given: T.DataType, wanted: T.DataType, *, is_ansi: bool, casts_others: bool = False
) -> T.DataType:
    """Return the type that Spark casts values to before Arrow converts them to the type of a column.

    Parameters
    ----------
    path
        The path of the column or field, for messages.
    given, wanted
        The types of the values and of the column.
    is_ansi
        Whether Spark refuses numbers that do not fit.
    casts_others
        Whether Spark also casts values that store assignment refuses, such as a text to a number.

    Raises
    ------
    InvalidInputError
        Spark does not store the given type in the wanted one.
    """

    def inner(name: str, given: T.DataType, wanted: T.DataType) -> T.DataType:
        return assigned_type(f"{path}.{name}", given, wanted, is_ansi=is_ansi, casts_others=casts_others)

    match given, wanted:
        case T.ArrayType(), T.ArrayType():
            item = inner("element", given.elementType, wanted.elementType)
            return given if item == given.elementType else T.ArrayType(item)
        case T.MapType(), T.MapType():
            key = inner("key", given.keyType, wanted.keyType)
            value = inner("value", given.valueType, wanted.valueType)
            return given if (key, value) == (given.keyType, given.valueType) else T.MapType(key, value)
        case T.StructType(), T.StructType():
            types = {
                each.name: inner(each.name, each.dataType, wanted[each.name].dataType)
                for each in given
                if each.name in wanted.names
            }
            if all(given[name].dataType == data_type for name, data_type in types.items()):
                return given
            return T.StructType(
                [T.StructField(each.name, types.get(each.name, each.dataType)) for each in given]
            )
    return _assigned_plain(path, given, wanted, is_ansi=is_ansi, casts_others=casts_others)


def _assigned_plain(
    path: str, given: T.DataType, wanted: T.DataType, *, is_ansi: bool, casts_others: bool
) -> T.DataType:
    match given, wanted:
        case T.NumericType(), T.NumericType():
            # writers round nothing
            rounds = isinstance(given, T.FloatType | T.DoubleType) and isinstance(wanted, T.DecimalType)
            return wanted if rounds and is_ansi else given
        case T.NullType(), _:
            return wanted
        case T.AtomicType(), T.StringType():
            return given if isinstance(given, _SAME_TEXT) or given == wanted else wanted
        case (T.DateType(), T.TimestampType() | T.TimestampNTZType()) | (
            T.TimestampType() | T.TimestampNTZType(),
            T.DateType(),
        ):
            return wanted
    is_same = type(given) is type(wanted)
    if is_same or not isinstance(given, (*_PLAIN, *_NESTED)) or not isinstance(wanted, (*_PLAIN, *_NESTED)):
        return given
    if casts_others:
        return wanted
    zone = ", to use Spark's time zone" if isinstance(given, _TIMES) and isinstance(wanted, _TIMES) else ""
    raise InvalidInputError(
        f"column {path!r} has type {wanted.simpleString()}, but type {given.simpleString()} in the data; "
        f"cast it to {wanted.simpleString().upper()}{zone}"
    )
