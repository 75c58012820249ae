"""Rows for a namespace, from any source. Values that fit are converted to the types of its columns.

Different sources use different widths of the same kind of type: pandas and Polars have large strings, Python
has integers of any size, and SQL returns int64 and nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lance_df.errors import InvalidInputError
from lance_df.file.arrow_types import shown_schema
from lance_df.namespace.spec.transforms import value_type
from lance_df.sources import are_files, to_batches
from lance_df.table.reading.batches import source_closed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lance_df.format.schema import Field, Schema

_types = pa.types
_KINDS: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    _types.is_integer,
    _types.is_decimal,
    _types.is_date,
    _types.is_time,
    _types.is_duration,
    lambda each: each in (pa.string(), pa.large_string(), pa.string_view()),
    lambda each: (
        each in (pa.binary(), pa.large_binary(), pa.binary_view()) or _types.is_fixed_size_binary(each)
    ),
    # a moment without a zone is none of a column with one
    lambda each: _types.is_timestamp(each) and each.tz is None,
    lambda each: _types.is_timestamp(each) and each.tz is not None,
)
# columns of these are made of values of Python
_FRAMES: Final = ("pandas", "polars")
# who stores rows takes these as they are
_VIEWS: Final = ((pa.string_view(), pa.string()), (pa.binary_view(), pa.binary()))
# what Python has for values of these: a number of any width, with or without a fraction
_INFERRED: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]], ...]] = (
    (_types.is_floating, _types.is_floating),
    (_types.is_floating, _types.is_integer),
    (_types.is_integer, _types.is_floating),
    (_types.is_integer, _types.is_decimal),
)


def rows_to_store(data: Any, columns: Schema) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Return the schema and the batches of rows for columns of a namespace.

    Columns and fields of structs are matched by name. They get the type of the namespace if it is of the same
    kind: widths of integers and decimals, units of times, text and binary in any layout, dictionaries, and
    columns of only nulls. Data that was built from Python values is accepted for any number, date or list.
    Other types are not changed here; the writer refuses them.

    Parameters
    ----------
    data
        As for `lance_df.sources.to_batches`. An iterable of batches has the schema of its first batch.

    Raises
    ------
    InvalidInputError
        The data is not a source of rows. Later, from the batches: a value does not fit the type of its
        column.
    """
    from_files = are_files(data)
    is_inferred = (
        from_files or isinstance(data, list | dict) or type(data).__module__.partition(".")[0] in _FRAMES
    )
    is_iterable = isinstance(data, list | tuple | Iterator) and not hasattr(data, "__arrow_c_stream__")
    if is_iterable and not from_files:
        data, schema = _with_schema_of_first(data, columns)
        given, batches = to_batches(data, schema)
    else:
        given, batches = to_batches(data, column_types=shown_schema(columns.to_arrow()))
    by_name = {field.name: field for field in columns.fields}
    fields = [
        field.with_type(_column_type(field.type, by_name[field.name], is_inferred=is_inferred))
        if field.name in by_name
        else field
        for field in given
    ]
    schema = pa.schema(fields, given.metadata)
    return (given, batches) if schema.equals(given) else (schema, _cast(batches, schema))


def _with_schema_of_first(rows: Iterable[Any], columns: Schema) -> tuple[Any, pa.Schema | None]:
    """Return batches with the schema of the first one, or of the namespace if there is none."""
    first = next(iter(rows), None)
    if first is None:
        return [], columns.to_arrow()
    if isinstance(rows, Iterator):
        rows = _chained(first, rows)
    return rows, first.schema if isinstance(first, pa.RecordBatch | pa.Table) else None


def _chained(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    with source_closed(rest):
        yield first
        yield from rest


def _column_type(given: pa.DataType, column: Field, *, is_inferred: bool) -> pa.DataType:
    if is_inferred and _is_local_time(given) and _types.is_date(wanted := column.arrow_type()):
        return wanted  # pandas has no dates
    return _stored_type(given, column, is_inferred=is_inferred)


def _stored_type(given: pa.DataType, column: Field, *, is_inferred: bool) -> pa.DataType:
    """Return the type to bring values to: the column's, or the given one if it is of another kind."""
    if column.is_blob or isinstance(given, pa.BaseExtensionType):
        return given
    wanted = column.arrow_type()
    if given == wanted or _types.is_null(given):
        return wanted
    if (given, wanted) in _VIEWS:
        return given
    if _types.is_struct(given) and _types.is_struct(wanted):
        return pa.struct(_stored_fields(given, column.children, is_inferred=is_inferred))
    if _is_list(given) and _is_list(wanted) and column.children:
        (item,) = column.children
        value = given.value_field.with_type(_stored_type(given.value_type, item, is_inferred=is_inferred))
        return pa.large_list(value) if _types.is_large_list(wanted) else pa.list_(value)
    if is_inferred and _is_list(given) and _types.is_fixed_size_list(wanted):
        return wanted
    plain, target = value_type(given), value_type(wanted)
    is_same_kind = plain == target or any(is_kind(plain) and is_kind(target) for is_kind in _KINDS)
    widens = _types.is_floating(plain) and _types.is_floating(target) and plain.bit_width <= target.bit_width
    if is_same_kind or widens or (is_inferred and any(one(plain) and two(target) for one, two in _INFERRED)):
        return wanted
    return given


def _stored_fields(
    given: pa.StructType, children: Sequence[Field], *, is_inferred: bool
) -> Iterator[pa.Field]:
    by_name = {child.name: child for child in children}
    for field in given:
        child = by_name.get(field.name)
        yield (
            field
            if child is None
            else field.with_type(_stored_type(field.type, child, is_inferred=is_inferred))
        )


def _is_local_time(data_type: pa.DataType) -> bool:
    return bool(_types.is_timestamp(data_type) and data_type.tz is None)


def _is_list(data_type: pa.DataType) -> bool:
    return bool(_types.is_list(data_type) or _types.is_large_list(data_type))


def _cast(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with source_closed(batches):
        for batch in batches:
            yield pa.record_batch(
                [_cast_column(column, field) for column, field in zip(batch.columns, schema, strict=True)],
                schema=schema,
            )


def _cast_column(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    problem: object = "the time of day would be lost"
    try:
        converted = _converted(column, field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as err:
        converted, problem = None, err
    if converted is None:
        raise InvalidInputError(
            f"column {field.name!r} is of type {field.type}, the data has {column.type}: {problem}"
        )
    return converted


def _converted(column: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    """Return values in another type, which Arrow refuses where they do not fit; None for a time as a date."""
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if _types.is_dictionary(wanted):
        return column.cast(wanted.value_type).dictionary_encode().cast(wanted)
    converted = column.cast(wanted)
    loses_time = _types.is_timestamp(column.type) and _types.is_date(wanted)
    return None if loses_time and not converted.cast(column.type).equals(column) else converted
