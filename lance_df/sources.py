"""Convert data of any source that can be written to a schema and a stream of record batches."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads

from lance_df.errors import ColumnNotFoundError, InvalidInputError
from lance_df.expr.literals import are_exact, plain_array, storage_type
from lance_df.expr.text import scalar_text
from lance_df.table.reading.batches import source_closed
from lance_df.table.reading.prefetch import iterate_ahead

if TYPE_CHECKING:
    from collections.abc import Mapping

# for lazy frames of Polars: the number of rows in memory at a time
_LAZY_ROWS = 256 * 1024


def to_batches(
    data: Any,
    schema: pa.Schema | None = None,
    *,
    column_types: pa.Schema | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    """Return the schema and the batches of a source, cast to ``schema`` if there is one.

    Parameters
    ----------
    data
        A Table, RecordBatch, RecordBatchReader, pyarrow Dataset or Scanner, pandas or Polars frame, lazy or
        not, a relation of DuckDB, a frame of DataFusion, a dict of columns, a list of dicts, anything with
        ``__arrow_c_stream__`` or ``__arrow_c_array__``, a path, URL or glob of Parquet or CSV files, a list
        of these, or, with ``schema``, an iterable of batches and tables.
    column_types, storage_options
        Only for files; see `lance_df.file_sources.open_files`.

    Returns
    -------
    The schema and the batches. Batches are taken from the source on demand; the next one of a
    stream is made meanwhile. They are a sequence if the source has them in memory unchanged; otherwise a
    generator, which the caller must close; this also closes a generator or stream that it was made from.

    Raises
    ------
    InvalidInputError
        No such source, no schema, Arrow data with columns that the schema does not have, or values that do
        not fit it.
    ColumnNotFoundError
        A frame or a dict lacks a column of the schema.
    """
    if schema is not None and not isinstance(schema, pa.Schema):
        raise InvalidInputError(f"expected a pyarrow schema, got {schema!r:.100}")
    given = data
    try:
        if are_files(data):
            from lance_df.file_sources import open_files

            data = open_files(data, schema, column_types=column_types, storage_options=storage_options)
        source = _opened(data, schema)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as err:
        if isinstance(err, InvalidInputError):
            raise
        raise InvalidInputError(
            f"this {type(data).__name__} cannot be converted to Arrow data: {err}"
        ) from err
    except KeyError as err:  # the error of a frame or a dict that lacks a column of the schema
        raise ColumnNotFoundError(
            f"this {type(data).__name__} does not have all columns of the given schema: {err.args[0]}"
        ) from err
    if isinstance(source, pa.Table):
        return _cast(source.schema, source.to_batches(), schema)
    if isinstance(source, pa.RecordBatchReader):
        is_the_callers = source is given
        batches = iterate_ahead(source) if is_the_callers else _read(source)
        # batches made by Python code may have another schema than their reader
        return _cast(source.schema, _cast_all(batches, source.schema), schema)
    if schema is None:
        raise InvalidInputError(
            f"this {type(data).__name__} has no schema; pass a table, a list of dictionaries or a "
            "RecordBatchReader, or pass batches together with a schema where there is an argument for it"
        )
    return schema, _checked(source, schema)


def are_files(data: Any) -> bool:
    """Whether a source is given by a path or URL, or by a list of these."""
    if isinstance(data, list | tuple):
        return bool(data) and all(isinstance(each, str | os.PathLike) for each in data)
    return isinstance(data, str | os.PathLike)


def _opened(data: Any, schema: pa.Schema | None) -> pa.Table | pa.RecordBatchReader | Iterable[Any]:
    if isinstance(data, pa.Table | pa.RecordBatchReader):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, dict):
        return pa.table(data, schema=schema)
    if isinstance(data, list) and data and isinstance(data[0], dict):
        if schema is not None:
            return pa.Table.from_pylist(data, schema=schema)
        names = dict.fromkeys(name for row in data for name in row)  # the first row need not have all columns
        return pa.table({name: [row.get(name) for row in data] for name in names})
    if isinstance(data, pads.Dataset):
        data = data.scanner()
    if isinstance(data, pads.Scanner):
        return data.to_reader()
    library = type(data).__module__.partition(".")[0]
    if library == "pandas" and type(data).__name__ == "DataFrame":
        return pa.Table.from_pandas(data, schema=schema)
    if library == "polars" and type(data).__name__ == "DataFrame":
        return data.to_arrow()  # unlike its stream, this has no views
    if library == "polars" and type(data).__name__ == "LazyFrame":
        return _collected(data)
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        return pa.Table.from_batches([pa.record_batch(data)])
    if isinstance(data, Iterable) and not isinstance(data, str | bytes):
        return data
    raise InvalidInputError(f"{type(data).__name__} is not Arrow data")


def _collected(frame: Any) -> pa.Table | pa.RecordBatchReader:
    """Run a lazy frame of Polars, some rows at a time if its release can."""
    if not hasattr(frame, "collect_batches"):
        return frame.collect().to_arrow()
    empty = frame.clear().collect().to_arrow()

    def batches() -> Iterator[pa.RecordBatch]:
        for part in frame.collect_batches(chunk_size=_LAZY_ROWS, maintain_order=True):
            yield from part.to_arrow().cast(empty.schema).to_batches()

    return pa.RecordBatchReader.from_batches(empty.schema, batches())


def _read(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a reader and close it, which ends the threads that make them."""
    try:
        yield from iterate_ahead(reader)
    finally:
        reader.close()


def _cast(
    data_schema: pa.Schema, batches: Iterable[pa.RecordBatch], schema: pa.Schema | None
) -> tuple[pa.Schema, Iterable[pa.RecordBatch]]:
    if schema is None or schema.equals(data_schema, check_metadata=True):
        return data_schema, batches
    _check_columns(data_schema, schema)
    return schema, _cast_all(batches, schema)


def _check_columns(given: pa.Schema, schema: pa.Schema) -> None:
    """Refuse to drop columns, which could go unnoticed; the order is that of the schema."""
    if left_out := list(_left_out(given, schema)):
        raise InvalidInputError(
            f"the given schema does not have all columns of the data: {', '.join(left_out)}; select the "
            "columns to write, or add these to the schema"
        )


def _left_out(
    given: pa.Schema | pa.StructType, wanted: pa.Schema | pa.StructType, prefix: str = ""
) -> Iterator[str]:
    """Yield the paths of columns and struct fields that only ``given`` has."""
    types = {field.name: field.type for field in wanted}
    for field in given:
        if field.name not in types:
            yield prefix + field.name
        elif pa.types.is_struct(field.type) and pa.types.is_struct(types[field.name]):
            yield from _left_out(field.type, types[field.name], f"{prefix}{field.name}.")


def _cast_all(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with source_closed(batches):
        for batch in batches:
            yield _cast_batch(batch, schema)


def _checked(batches: Iterable[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    with source_closed(batches):
        for item in batches:
            if isinstance(item, pa.RecordBatch):
                yield _cast_batch(item, schema)
            elif isinstance(item, pa.Table):
                yield from (_cast_batch(batch, schema) for batch in item.to_batches())
            else:
                raise InvalidInputError(
                    "an iterable of batches must yield only batches and tables, it has a "
                    f"{type(item).__name__}"
                )


def _cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    _check_columns(batch.schema, schema)
    try:
        chosen = batch.select(schema.names)
        return pa.RecordBatch.from_arrays(
            [_cast_column(column, field) for column, field in zip(chosen.columns, schema, strict=True)],
            schema=schema,
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError, ValueError) as err:
        raise InvalidInputError(f"the data cannot be cast to the given schema: {err}") from err


def _cast_column(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.null_count and not field.nullable:
        raise InvalidInputError(
            f"column {field.name!r} contains nulls, but is not nullable in the given schema"
        )
    if column.type == field.type:
        return column  # a cast refuses NULL structs with fields that are not nullable
    _check_exact(field.name, column, field.type)
    return column.cast(field.type)


def _check_exact(name: str, values: pa.Array, wanted: pa.DataType) -> None:
    """Refuse values that an Arrow cast would change, for example times in dates. Floats may lose digits."""
    kinds = pa.types
    values, wanted = plain_array(values), storage_type(wanted)
    if values.type == wanted or not len(values):
        return
    if kinds.is_struct(wanted) and kinds.is_struct(values.type):
        given = dict(zip(values.type.names, values.flatten(), strict=True))
        for field in wanted:
            if field.name in given:
                _check_exact(f"{name}.{field.name}", given[field.name], field.type)
    elif kinds.is_map(wanted) and kinds.is_map(values.type):
        _check_exact(f"{name}.key", values.keys, wanted.key_type)
        _check_exact(f"{name}.value", values.items, wanted.item_type)
    elif all(hasattr(each, "value_type") for each in (wanted, values.type)) and hasattr(values, "flatten"):
        _check_exact(f"{name}.item", values.flatten(), wanted.value_type)
    elif (
        _is_number(values.type)
        and _is_number(wanted)
        and (
            kinds.is_boolean(wanted)
            or not kinds.is_integer(values.type)  # Arrow itself refuses casts that change these
        )
    ):
        fits = _are_in_range if kinds.is_floating(wanted) else are_exact
        lost = values.filter(pc.invert(fits(values, wanted)))
        if len(lost):
            raise InvalidInputError(f"column {name!r}: {scalar_text(lost[0])} does not fit in {wanted}")


def _are_in_range(values: pa.Array, wanted: pa.DataType) -> pa.BooleanArray:
    """Return whether numbers, possibly NULL, do not become infinite by a cast."""
    was, became = (
        pc.is_inf(numbers.cast(pa.float64())) for numbers in (values, values.cast(wanted, safe=False))
    )
    return pc.fill_null(pc.equal(was, became), True)


def _is_number(data_type: pa.DataType) -> bool:
    """Whether values are numbers, or dates and times, which are numbers of units."""
    return bool(pa.types.is_primitive(data_type) or pa.types.is_decimal(data_type))
