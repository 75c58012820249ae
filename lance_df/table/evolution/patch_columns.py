"""Set new values in some columns of rows of a fragment, in place. Spec: table format, chapter 11."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.file.blobs.columns import as_moved
from lance_df.format.schema import Schema
from lance_df.records import dataclass
from lance_df.table.evolution.column_files import with_columns_of, write_columns
from lance_df.table.evolution.live_rows import live_offsets, read_keys, read_live
from lance_df.table.reading.system_columns import ROW_ADDRESS, ROW_ID
from lance_df.table.writing.conform import conform, schema_to_write
from lance_df.table.writing.uncommitted import uncommitted_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from lance_df.format.fragments import Fragment
    from lance_df.table.evolution.join import Lookup
    from lance_df.table.table import Table


@dataclass(frozen=True, slots=True)
class PatchedFragment:
    """A fragment with new values.

    Attributes
    ----------
    fragment
        The fragment with a new data file for the columns.
    field_ids
        The ids of the columns, and of all fields below them.
    offsets
        The physical offsets of the rows whose keys were found.
    """

    fragment: Fragment
    field_ids: tuple[int, ...]
    offsets: BitMap


def patched(table: Table, fragment: Fragment, key: str, lookup: Lookup) -> PatchedFragment:
    """Rewrite columns of a fragment, with the values of the rows that a look-up finds.

    Parameters
    ----------
    key
        The column of the table to look up, or ``_rowid`` or ``_rowaddr``.
    lookup
        The new values; rows that are not found keep their values.

    Raises
    ------
    ColumnNotFoundError
        The table has no such key column.
    InvalidInputError
        The table lacks a column or has it with another type, or a column that is not nullable gets a null.
    UnsupportedFeatureError
        The table has 0.1 files, which must not contain a column that another file replaces.
    """
    if table.manifest.file_version == "0.1":
        raise UnsupportedFeatureError(
            f"{table.uri}: columns of tables of file version 0.1 cannot be updated in place"
        )
    part = _part(table, lookup)
    matches = lookup.find(read_keys(table, fragment, key))
    known = matches.is_valid().to_numpy(zero_copy_only=False)

    def rows() -> Iterator[list[pa.Array]]:
        done = 0
        for old in read_live(table, fragment, part.fields):
            size = len(old[0])
            new = map(
                as_moved, conform(lookup.take(matches.slice(done, size).drop_null()), part), part.fields
            )
            mask = known[done : done + size]
            yield [_replaced(each, values, mask) for each, values in zip(old, new, strict=True)]
            done += size

    with uncommitted_files(table.location) as files:
        file = write_columns(table, fragment, part, rows(), files)
        return PatchedFragment(
            with_columns_of(fragment, file, table.schema),
            tuple(node.id for field in part.fields for node in field.walk()),
            BitMap(live_offsets(table, fragment)[known].astype(np.uint32)),
        )


def _part(table: Table, lookup: Lookup) -> Schema:
    names = set(lookup.schema.names)
    fields = tuple(field for field in table.schema.fields if field.name in names)
    if unknown := sorted(names - {field.name for field in fields}):
        if unknown[0] in (ROW_ID, ROW_ADDRESS):
            raise InvalidInputError(f"{unknown[0]} is a metadata column and cannot be updated")
        raise InvalidInputError(f"column {unknown[0]!r} does not exist in the table")
    part = Schema(fields=fields, metadata=table.schema.metadata)
    if schema_to_write(lookup.schema, part) != part:
        raise InvalidInputError("structs can only be updated as a whole, but the data lacks fields of one")
    return part


def _replaced(old: pa.Array, new: pa.Array, known: npt.NDArray[np.bool_]) -> pa.Array:
    sources = np.arange(len(old))
    sources[known] = len(old) + np.arange(len(new))
    return pa.concat_arrays([old, new]).take(pa.array(sources))
