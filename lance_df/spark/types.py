"""Columns of Lance as Spark has them: the nearest type that holds every value.

Unsigned integers become the next wider signed ones, uint64 a decimal; dictionaries, views and fixed-size
lists what they stand for. Times are cut to Spark's microseconds, downwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.spark.catalogs import without_table_options
from lance_df.spark.nested import recast

if TYPE_CHECKING:
    from collections.abc import Sequence

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


def spark_schema(schema: pa.Schema) -> StructType:
    """Return the schema of a DataFrame with these columns.

    Raises
    ------
    UnsupportedFeatureError
        A column has a type that Spark has no place for.
    """
    fields = [
        pa.field(field.name, _named(field.name, field.type), nullable=field.nullable) for field in schema
    ]
    return from_arrow_schema(pa.schema(fields), prefer_timestamp_ntz=True)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return what batches must look like that Spark takes for rows of a schema.

    Raises
    ------
    UnsupportedFeatureError
        A column has a type that Arrow has no place for.
    """
    schema = without_table_options(schema)
    try:
        return to_arrow_schema(schema, timezone="UTC")
    except (PySparkException, ValueError):
        for field in schema.fields:
            _check_type(field)
        raise


def new_schema(schema: StructType) -> StructType:
    """Return the columns of a table that rows of a schema make: NULL is allowed everywhere, as Spark has it.

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
        One has, and would lose it.
    """
    for field in schema.fields:
        _check_collation(field.name, field.dataType)


def nullable_type(data_type: DataType) -> DataType:
    """Return a type with nulls allowed everywhere."""
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
                f"column {path!r}: {data_type.simpleString()} would lose its collation: cast it to STRING"
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
            f"column {field.name!r}: {field.dataType.simpleString()} has no place in Arrow: cast it"
        ) from err


def to_spark(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a batch that a schema of `arrow_schema` names, in its types.

    Raises
    ------
    InvalidInputError
        A value does not fit the type that was asked for.
    """
    columns = []
    for field in schema:
        try:
            columns.append(recast(batch.column(field.name), field.type, _cast))
        except pa.ArrowException as err:
            raise InvalidInputError(f"column {field.name!r}: {err}") from err
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def to_stored(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns of a batch of Spark that a stored schema names, in its types.

    Raises
    ------
    InvalidInputError
        A value does not fit its type, or is null where it must not be; a moment is to be stored as a time of
        day and date without a zone, or the other way round.
    """
    columns = []
    for field in schema:
        column = batch.column(field.name)
        try:
            columns.append(recast(column, field.type, _stored))
        except pa.ArrowException as err:
            raise InvalidInputError(f"column {field.name!r}: {err}") from err
        if column.null_count and not field.nullable:
            raise InvalidInputError(f"column {field.name!r} must not be null, a row has null")
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _stored(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    if {_has_zone(column.type), _has_zone(data_type)} == {True, False}:
        ours, theirs = (
            ("TIMESTAMP", "TIMESTAMP_NTZ") if _has_zone(column.type) else ("TIMESTAMP_NTZ", "TIMESTAMP")
        )
        raise pa.ArrowInvalid(
            f"{ours} is stored as {data_type}: cast it to {theirs} first, so that Spark's time zone is used"
        )
    return pc.cast(column, data_type)


def _has_zone(data_type: pa.DataType) -> bool | None:
    return data_type.tz is not None if pa.types.is_timestamp(data_type) else None


def _named(name: str, data_type: pa.DataType) -> pa.DataType:
    try:
        return _spark_type(data_type)
    except UnsupportedFeatureError as err:
        raise UnsupportedFeatureError(
            f"column {name!r}: {err}; name the columns to read with option('columns', …)"
        ) from None


def _spark_type(data_type: pa.DataType) -> pa.DataType:
    types = pa.types
    if isinstance(data_type, pa.ExtensionType):
        return _spark_type(data_type.storage_type)
    if data_type in _SAME_VALUES:
        return _SAME_VALUES[data_type]
    if types.is_dictionary(data_type):
        return _spark_type(data_type.value_type)
    if types.is_fixed_size_binary(data_type):
        return pa.binary()
    if types.is_decimal(data_type):
        if data_type.precision > 38 or not 0 <= data_type.scale <= data_type.precision:
            raise UnsupportedFeatureError(f"Spark has no {data_type}")
        return pa.decimal128(data_type.precision, data_type.scale)
    if types.is_timestamp(data_type):
        return pa.timestamp("us", None if data_type.tz is None else "UTC")
    if types.is_duration(data_type):
        return pa.duration("us")
    if types.is_time(data_type):
        return pa.time64("ns")
    if types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type):
        item = data_type.value_field
        return pa.list_(item.with_type(_spark_type(item.type)))
    if types.is_map(data_type):
        key, item = data_type.key_field, data_type.item_field
        return pa.map_(key.with_type(_spark_type(key.type)), item.with_type(_spark_type(item.type)))
    if types.is_struct(data_type):
        return pa.struct([field.with_type(_spark_type(field.type)) for field in _fields(data_type)])
    if types.is_interval(data_type):
        raise UnsupportedFeatureError(f"Spark has no {data_type}")
    return data_type


def _fields(data_type: pa.DataType) -> Sequence[pa.Field]:
    return [data_type.field(number) for number in range(data_type.num_fields)]


def _cast(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        # a cast cuts towards zero
        column = pc.floor_temporal(column, unit="microsecond")
    return pc.cast(column, data_type, safe=not _is_cut(column.type))


def _is_cut(data_type: pa.DataType) -> bool:
    types = pa.types
    return types.is_date64(data_type) or (types.is_duration(data_type) and data_type.unit == "ns")
