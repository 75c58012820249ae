"""Build the rows that a merge writes: rows of the source, completed with the columns that it lacks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import concat_arrays, in_halves, null_array, one_array, with_fields
from lance_df.errors import InvalidInputError
from lance_df.format.schema import Schema
from lance_df.records import dataclass
from lance_df.sliced_lists import unsliced
from lance_df.table.blobs.moved import take_whole
from lance_df.table.changes.moved_rows import fragment_runs
from lance_df.table.reading.prefetch import map_ahead
from lance_df.table.writing.conform import conform, schema_to_write

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.format.schema import Field
    from lance_df.table.changes.matching import Matches
    from lance_df.table.changes.row_set import Addresses
    from lance_df.table.table import Table

_BATCH_ROWS = 64 * 1024
_BATCHES_AHEAD = 2


@dataclass(frozen=True, slots=True)
class Source:
    """Rows to merge into a table.

    Attributes
    ----------
    rows
        The rows, in memory.
    schema
        The part of the table's schema that the rows have, in table order.
    """

    rows: pa.Table
    schema: Schema

    @classmethod
    def of(cls, rows: pa.Table, table: Schema) -> Source:
        """Match rows with the columns of a table; some columns may be missing.

        Raises
        ------
        InvalidInputError
            The table lacks a column, or has it with another type.
        """
        given = Schema(
            fields=tuple(field for field in table.fields if field.name in rows.schema.names),
            metadata=table.metadata,
        )
        schema = schema_to_write(rows.schema, given)
        for field in schema.fields:
            position = rows.schema.get_field_index(field.name)
            column = rows.column(position)
            if _has_views(column.type):  # pyarrow cannot take rows of these
                rows = rows.set_column(position, field.name, column.cast(field.arrow_type()))
            elif pa.types.is_dictionary(column.type):  # pyarrow cannot join these if a dictionary holds NULL
                rows = rows.set_column(position, field.name, concat_arrays(column.chunks, column.type))
        return cls(unsliced(rows), schema)

    def is_whole(self, table: Schema) -> bool:
        """Whether the rows have all columns of the table."""
        return self.schema.fields == table.fields

    def take(self, numbers: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """Return rows by number, with storage types."""
        if len(numbers) and bool((np.diff(numbers) == 1).all()):
            chosen = self.rows.slice(int(numbers[0]), len(numbers))
        else:
            chosen = self.rows.take(pa.array(numbers))
        (batch,) = chosen.combine_chunks().to_batches() or [_empty(self.rows.schema)]
        return pa.RecordBatch.from_arrays(conform(batch, self.schema), self.schema.names)


def _has_views(data_type: pa.DataType) -> bool:
    if pa.types.is_string_view(data_type) or pa.types.is_binary_view(data_type):
        return True
    return any(_has_views(data_type.field(index).type) for index in range(data_type.num_fields))


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def updated_rows(table: Table, source: Source, matches: Matches) -> Iterator[pa.RecordBatch]:
    """Yield updated rows of the table; columns that the source lacks keep their values."""

    def update(start: int, stop: int) -> pa.RecordBatch:
        part = matches.slice(start, stop)
        return updated_at(table, part.addresses, source.take(part.rows), source.schema)

    def update_run(run: slice) -> list[pa.RecordBatch]:
        return list(in_halves(update, run.start, run.stop))

    runs = fragment_runs(matches.addresses, max_rows=_BATCH_ROWS)
    with closing(map_ahead(update_run, runs, ahead=_BATCHES_AHEAD)) as batches:
        yield from chain.from_iterable(batches)


def updated_at(table: Table, addresses: Addresses, batch: pa.RecordBatch, given: Schema) -> pa.RecordBatch:
    """Return updated rows of one fragment; columns that are not given keep their values.

    Parameters
    ----------
    batch, given
        The new values for each address, of storage types, and their schema.
    """
    others = [field.name for field in table.schema.fields if _is_incomplete(field, given)]
    old = take_whole(table, addresses, columns=others) if others else None
    return completed(batch, given, table.schema, old)


def inserted_rows(schema: Schema, source: Source, numbers: npt.NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
    """Yield rows of the source with all columns of a schema; missing columns are null."""
    for start in range(0, len(numbers), _BATCH_ROWS):
        batch = source.take(numbers[start : start + _BATCH_ROWS])
        yield completed(batch, source.schema, schema, None)


def check_insertable(source: Source, table: Schema) -> None:
    """Check that columns that the source lacks are nullable.

    Raises
    ------
    InvalidInputError
        A missing column is not nullable.
    """
    schema_to_write(source.rows.schema, table)


def _is_incomplete(field: Field, given: Schema) -> bool:
    return not any(each == field for each in given.fields)


def completed(
    batch: pa.RecordBatch, given: Schema, wanted: Schema, old: pa.RecordBatch | pa.Table | None
) -> pa.RecordBatch:
    """Return rows with all wanted fields.

    Parameters
    ----------
    batch, given
        The given values, of storage types, and their schema.
    old
        The old values of the fields that are not given completely; if None, these are null.

    Raises
    ------
    InvalidInputError
        List items lack fields.
    """
    brought = {field.id: (field, batch.column(field.name)) for field in given.fields}
    arrays = []
    for field in wanted.fields:
        before = None
        if old is not None and field.name in old.schema.names:
            before = one_array(old.column(field.name))
        arrays.append(_complete(field, brought.get(field.id), before, batch.num_rows))
    return pa.RecordBatch.from_arrays(arrays, wanted.names)


def _complete(
    field: Field, brought: tuple[Field, pa.Array] | None, old: pa.Array | None, num_rows: int
) -> pa.Array:
    """Return the values of a field: the given ones, else the old ones, else nulls."""
    if brought is None:
        return null_array(field.arrow_type(), num_rows) if old is None else old
    part, array = brought
    if part == field:
        return array
    if not field.is_struct:
        raise InvalidInputError(
            f"the list items of column {field.name!r} lack some fields of their struct; provide all fields"
        )
    given = {child.id: (child, values) for child, values in zip(part.children, _children(array), strict=True)}
    before = [None] * len(field.children) if old is None else old.flatten()
    children = [
        _complete(child, given.get(child.id), values, num_rows)
        for child, values in zip(field.children, before, strict=True)
    ]
    fields = [
        child.to_arrow().with_type(values.type)
        for child, values in zip(field.children, children, strict=True)
    ]
    return with_fields(array, pa.struct(fields), children)


def _children(array: pa.StructArray) -> list[pa.Array]:
    return [array.field(number) for number in range(array.type.num_fields)]
