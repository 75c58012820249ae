"""Add columns: computed for each fragment, from a stream, by a join, or with nulls only.

Spec: table format, chapter 11.
"""

from __future__ import annotations

import dataclasses
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.format.operations import Merge
from lance_df.table.evolution.column_files import columns_written
from lance_df.table.evolution.fields import highest_field_id, with_new_fields
from lance_df.table.reading.batches import source_closed
from lance_df.table.writing.conform import conform, schema_to_write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lance_df.format.fragments import DataFile, Fragment
    from lance_df.format.schema import Schema
    from lance_df.table.table import Table


def null_columns(table: Table, given: pa.Schema, *, first_id: int | None = None) -> Merge:
    """Return the operation that adds columns with nulls only; no data is written.

    Parameters
    ----------
    first_id
        The first id of the new fields; by default the next free one of the table.

    Raises
    ------
    InvalidInputError
        A column exists already, is not nullable, or has a reserved name.
    UnsupportedFeatureError
        The format does not support a type, or the table has 0.1 files, which must contain every column.
    """
    for field in given:
        if not field.nullable:
            raise InvalidInputError(f"new column {field.name!r} is filled with nulls, so it must be nullable")
    version = table.manifest.file_version
    first_id = highest_field_id(table.manifest) + 1 if first_id is None else first_id
    new = with_new_fields(
        table.schema, given, first_id=first_id, data_format=version, in_lists=True, source=table.uri
    )
    if version == "0.1":
        raise UnsupportedFeatureError(
            f"{table.uri}: tables of file version 0.1 cannot have columns without data"
        )
    return Merge(tuple(table.fragments), new.schema, preserves_nullability=True)


@contextmanager
def columns_added(
    table: Table,
    given: pa.Schema,
    batches_of: Callable[[Fragment], Iterable[pa.RecordBatch]],
    *,
    fragments: Sequence[Fragment] | None = None,
    first_id: int | None = None,
) -> Iterator[Merge]:
    """Write new columns; delete their files if the block fails.

    Parameters
    ----------
    given
        The new columns. A struct that exists already adds its new fields to the existing one.
    batches_of
        Computes the columns of a fragment, with one row for each of its live rows, in order.
    fragments
        The fragments to write; all by default. The others stay unchanged.
    first_id
        The first id of the new fields; by default the next free one of the table.

    Yields
    ------
    The operation, with all fragments.

    Raises
    ------
    InvalidInputError
        A column exists already or has a reserved name, or the computed batches have another schema.
    UnsupportedFeatureError
        The format does not support a type.
    """
    first_id = highest_field_id(table.manifest) + 1 if first_id is None else first_id
    new = with_new_fields(
        table.schema, given, first_id=first_id, data_format=table.manifest.file_version, source=table.uri
    )
    chosen = table.fragments if fragments is None else fragments
    with columns_written(
        table, chosen, new.part, lambda fragment: conformed(batches_of(fragment), new.part)
    ) as files:
        merged = tuple(_with_file(fragment, files) for fragment in table.fragments)
        yield Merge(merged, new.schema, preserves_nullability=new.are_nullable)


def conformed(batches: Iterable[pa.RecordBatch], part: Schema) -> Iterator[list[pa.Array]]:
    """Convert batches to the schema that is written.

    Raises
    ------
    InvalidInputError
        Batches have another schema.
    """
    with source_closed(batches):
        for batch in batches:
            if schema_to_write(batch.schema, part) != part:
                wanted, given = (", ".join(names) for names in (part.names, batch.schema.names))
                raise InvalidInputError(f"expected a batch with the columns {wanted}, got {given}")
            yield conform(batch, part)


def _with_file(fragment: Fragment, files: dict[int, DataFile]) -> Fragment:
    file = files.get(fragment.id)
    return fragment if file is None else dataclasses.replace(fragment, files=(*fragment.files, file))


class SplitStream:
    """Splits a stream of rows over fragments: each one gets as many rows as it has live ones."""

    def __init__(self, table: Table, batches: Iterable[pa.RecordBatch]) -> None:
        self._table = table
        self._batches = iter(batches)
        self._rest: pa.RecordBatch | None = None

    def rows_of(self, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the next fragment; fewer if the stream ends."""
        missing = self._table.live_rows(fragment)
        while missing:
            batch = self._next()
            if batch is None:
                return
            yield batch.slice(0, missing)
            if batch.num_rows > missing:
                self._rest = batch.slice(missing)
            missing -= min(missing, batch.num_rows)

    def check_end(self) -> None:
        """Check that no rows are left.

        Raises
        ------
        InvalidInputError
            The stream has more rows than the table.
        """
        batch = self._next()
        while batch is not None:
            if batch.num_rows:
                raise InvalidInputError(
                    f"{self._table.uri}: Stream produced more values than expected for dataset"
                )
            batch = self._next()

    def _next(self) -> pa.RecordBatch | None:
        rest, self._rest = self._rest, None
        return next(self._batches, None) if rest is None else rest
