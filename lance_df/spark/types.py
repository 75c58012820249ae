"""Map the types of Lance columns to the nearest Spark types that hold every value.

Unsigned integers become the next wider signed integers, and uint64 a decimal. Dictionaries, views and
fixed-size lists become their plain types. Times are rounded down to Spark's microseconds.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.expr.literals import is_bytes, is_text, storage_type
from lance_df.spark.catalogs import without_table_options
from lance_df.spark.nested import recast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SAME_VALUES: Final = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
}
_AS_ASSIGNED: Final = _SAME_VALUES | {pa.uint64(): pa.int64()}
# with a greater scale, Arrow may write decimals with an exponent
_MAX_PLAIN_SCALE: Final = 6
# Arrow and Spark write the years of other dates differently
_PLAIN_DATES: Final = (dt.date.min, dt.date.max)


def _is_number(data_type: pa.DataType) -> bool:
    types = pa.types
    return types.is_integer(data_type) or types.is_floating(data_type) or types.is_decimal(data_type)


_KINDS: Final = {
    "null": pa.types.is_null,
    "boolean": pa.types.is_boolean,
    "number": _is_number,
    "text": is_text,
    "bytes": is_bytes,
    "date": pa.types.is_date,
    "timestamp": pa.types.is_timestamp,
    "time": pa.types.is_time,
    "duration": pa.types.is_duration,
}


def spark_schema(schema: pa.Schema, *, is_assigned: bool = False) -> StructType:
    """Return the schema of a DataFrame with these columns.

    Parameters
    ----------
    is_assigned
        Whether rows are assigned to the columns. Then uint64 is an integer type, so that nothing is rounded.

    Raises
    ------
    UnsupportedFeatureError
        Spark has no type for a column.
    """
    same = _AS_ASSIGNED if is_assigned else _SAME_VALUES
    fields = [field.with_type(_named(field, same)).remove_metadata() for field in schema]
    return from_arrow_schema(pa.schema(fields), prefer_timestamp_ntz=True)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema of batches that Spark accepts as rows of a schema.

    Raises
    ------
    UnsupportedFeatureError
        Arrow has no type for a column.
    """
    schema = without_table_options(schema)
    try:
        return to_arrow_schema(schema, timezone="UTC")
    except (PySparkException, ValueError):
        for field in schema.fields:
            _check_type(field)
        raise


def new_schema(schema: StructType) -> StructType:
    """Return the columns of a new table for rows of a schema; as in Spark, all columns allow NULL.

    Raises
    ------
    UnsupportedFeatureError
        A column has a collation, which would be lost.
    """
    check_collations(schema)
    return StructType(
        [StructField(each.name, nullable_type(each.dataType), metadata=each.metadata) for each in schema]
    )


def check_collations(schema: StructType) -> None:
    """Check that columns of a new table have no collation.

    Raises
    ------
    UnsupportedFeatureError
        A column has a collation, which would be lost.
    """
    for field in schema.fields:
        _check_collation(field.name, field.dataType)


def nullable_type(data_type: DataType) -> DataType:
    """Return a type that allows nulls at every level."""
    match data_type:
        case ArrayType():
            return ArrayType(nullable_type(data_type.elementType))
        case MapType():
            return MapType(nullable_type(data_type.keyType), nullable_type(data_type.valueType))
        case StructType():
            return StructType([StructField(each.name, nullable_type(each.dataType)) for each in data_type])
    return data_type


def _check_collation(path: str, data_type: DataType) -> None:
    match data_type:
        case StringType() if not data_type.isUTF8BinaryCollation():
            raise UnsupportedFeatureError(
                f"column {path!r}: {data_type.simpleString()} would lose its collation; cast it to STRING"
            )
        case ArrayType():
            _check_collation(f"{path}.element", data_type.elementType)
        case MapType():
            _check_collation(f"{path}.key", data_type.keyType)
            _check_collation(f"{path}.value", data_type.valueType)
        case StructType():
            for each in data_type:
                _check_collation(f"{path}.{each.name}", each.dataType)


def _check_type(field: StructField) -> None:
    try:
        to_arrow_schema(StructType([field]), timezone="UTC")
    except (PySparkException, ValueError) as err:
        raise UnsupportedFeatureError(
            f"column {field.name!r}: {field.dataType.simpleString()} has no Arrow type; cast it"
        ) from err


def to_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a batch that a schema of `arrow_schema` names, in its types.

    Raises
    ------
    InvalidInputError
        A value does not fit the type.
    """
    columns = []
    for field in schema:
        try:
            columns.append(recast(batch.column(field.name), field.type, _cast))
        except pa.ArrowException as err:
            raise InvalidInputError(f"column {field.name!r}: {err}") from err
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def to_stored(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a batch from Spark that a stored schema names, in its types.

    Raises
    ------
    InvalidInputError
        A value does not fit its type, or is null and must not be; or Spark would not store values of this
        type in the column, or would store other values.
    """
    columns = []
    for field in schema:
        column = batch.column(field.name)
        try:
            columns.append(recast(column, field.type, _stored))
        except pa.ArrowException as err:
            raise InvalidInputError(f"column {field.name!r}: {err}") from err
        if column.null_count and not field.nullable:
            raise InvalidInputError(f"column {field.name!r} is not nullable, but a row has null")
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _stored(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    if {_has_zone(column.type), _has_zone(data_type)} == {True, False}:
        ours, theirs = (
            ("TIMESTAMP", "TIMESTAMP_NTZ") if _has_zone(column.type) else ("TIMESTAMP_NTZ", "TIMESTAMP")
        )
        raise pa.ArrowInvalid(
            f"{ours} is stored as {data_type}; cast it to {theirs} first, to use Spark's time zone"
        )
    if not _is_same_to_spark(column.type, storage_type(data_type)):
        raise pa.ArrowInvalid(
            f"the data has type {column.type}, but the table has {data_type}; cast it first"
        )
    wanted = storage_type(data_type)
    if pa.types.is_date(column.type) and is_text(wanted):
        _check_plain_dates(column)
    if pa.types.is_decimal(wanted) and pa.types.is_integer(column.type):
        column = pc.cast(column, pa.decimal128(38, 0))  # so that values, not types, decide what fits
    elif _crosses_base(column.type, wanted) or _crosses_base(wanted, column.type):
        column = pc.cast(column, pa.string())  # a direct cast may change digits
    if pa.types.is_float16(wanted) and column.type != wanted:
        column = _halves(column)
    # Arrow creates dictionaries only from values of the dictionary's value type
    return pc.cast(pc.cast(column, wanted), data_type)


def _check_plain_dates(column: pa.Array) -> None:
    first, last = (pa.scalar(each, column.type) for each in _PLAIN_DATES)
    if pc.any(pc.or_(pc.less(column, first), pc.greater(column, last))).as_py():
        raise pa.ArrowInvalid(
            "a date is not in the years 1 to 9999, so its text may differ from Spark's; cast it first"
        )


def _crosses_base(decimal: pa.DataType, binary: pa.DataType) -> bool:
    return pa.types.is_decimal(decimal) and pa.types.is_floating(binary)


def _halves(column: pa.Array) -> pa.Array:
    """Return numbers as float16. Floats are rounded as in a cast to FLOAT; finite numbers stay finite."""
    wide = pc.cast(column, pa.float64())
    halves = pc.cast(wide, pa.float16())
    stored = pc.cast(halves, pa.float64())
    # Arrow checks nothing of this
    if pa.types.is_integer(column.type):
        lost = pc.not_equal(stored, wide)
    else:
        lost = pc.and_(pc.is_inf(stored), pc.is_finite(wide))
    if pc.any(lost).as_py():
        raise pa.ArrowInvalid(f"{column.filter(lost)[0]} does not fit float16")
    return halves


def _is_same_to_spark(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Arrow casts values of a type to another type as Spark does, or refuses them."""
    ours, theirs = _kind(given), _kind(wanted)
    if None in (ours, theirs) or ours == theirs or ours == "null":
        return True
    if theirs == "text":
        # Spark converts values of other types to other texts
        is_plain = pa.types.is_integer(given) or (
            pa.types.is_decimal(given) and given.scale <= _MAX_PLAIN_SCALE
        )
        return is_plain or ours in ("boolean", "bytes", "date")
    return ours == "date" and theirs == "timestamp" and wanted.tz is None


def _kind(data_type: pa.DataType) -> str | None:
    """Return the kind of the values of a type; None for nested and other types."""
    return next((kind for kind, is_of in _KINDS.items() if is_of(data_type)), None)


def _has_zone(data_type: pa.DataType) -> bool | None:
    return data_type.tz is not None if pa.types.is_timestamp(data_type) else None


def _named(field: pa.Field, same: Mapping[pa.DataType, pa.DataType]) -> pa.DataType:
    try:
        return _spark_type(field.type, same)
    except UnsupportedFeatureError as err:
        raise UnsupportedFeatureError(
            f"column {field.name!r}: {err}; name the columns to read with option('columns', …)"
        ) from None


def _spark_type(data_type: pa.DataType, same: Mapping[pa.DataType, pa.DataType]) -> pa.DataType:
    types = pa.types
    if isinstance(data_type, pa.ExtensionType):
        return _spark_type(data_type.storage_type, same)
    if data_type in same:
        return same[data_type]
    if types.is_dictionary(data_type):
        return _spark_type(data_type.value_type, same)
    if types.is_fixed_size_binary(data_type):
        return pa.binary()
    if types.is_decimal(data_type):
        if data_type.precision > 38 or not 0 <= data_type.scale <= data_type.precision:
            raise UnsupportedFeatureError(f"{data_type} is not supported by Spark")
        return pa.decimal128(data_type.precision, data_type.scale)
    if types.is_timestamp(data_type):
        return pa.timestamp("us", None if data_type.tz is None else "UTC")
    if types.is_duration(data_type):
        return pa.duration("us")
    if types.is_time(data_type):
        return pa.time64("ns")
    if types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type):
        item = data_type.value_field
        return pa.list_(item.with_type(_spark_type(item.type, same)))
    if types.is_map(data_type):
        key, item = data_type.key_field, data_type.item_field
        return pa.map_(
            key.with_type(_spark_type(key.type, same)), item.with_type(_spark_type(item.type, same))
        )
    if types.is_struct(data_type):
        return pa.struct([field.with_type(_spark_type(field.type, same)) for field in _fields(data_type)])
    if types.is_interval(data_type):
        raise UnsupportedFeatureError(f"{data_type} is not supported by Spark")
    return data_type


def _fields(data_type: pa.DataType) -> Sequence[pa.Field]:
    return [data_type.field(number) for number in range(data_type.num_fields)]


def _cast(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        # a cast rounds towards zero
        column = pc.floor_temporal(column, unit="microsecond")
    return pc.cast(column, data_type, safe=not _is_cut(column.type))


def _is_cut(data_type: pa.DataType) -> bool:
    types = pa.types
    return types.is_date64(data_type) or (types.is_duration(data_type) and data_type.unit == "ns")
