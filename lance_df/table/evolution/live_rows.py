"""Read columns, or fields of structs, of the live rows of fragments."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.plan import RowRange
from lance_df.encodings.rows import as_rows
from lance_df.sliced_lists import unsliced
from lance_df.table.blobs.moved import described, moved_blobs
from lance_df.table.reading.fragment_reader import FragmentReader
from lance_df.table.reading.system_columns import ROW_ADDRESS, ROW_ID

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from lance_df.encodings.plan import Rows
    from lance_df.format.fragments import Fragment
    from lance_df.format.schema import Field
    from lance_df.table.table import Table

_WINDOW_ROWS = 64 * 1024


def read_live(table: Table, fragment: Fragment, fields: Sequence[Field]) -> Iterator[list[pa.Array]]:
    """Yield the values of live rows in order, one array of storage type for each field.

    Parameters
    ----------
    fields
        Top-level fields, possibly with only some of their children. Blobs are returned as `MOVED_BLOB`.
    """
    reader = FragmentReader(table, fragment)
    for rows in _windows(table, reader):
        arrays = reader.read([described(field) for field in fields], rows)
        yield [
            moved_blobs(table, fragment, field, array) for field, array in zip(fields, arrays, strict=True)
        ]


def _windows(table: Table, reader: FragmentReader) -> Iterator[Rows]:
    if reader.fragment.deletion_file is None:
        for start in range(0, reader.num_rows, _WINDOW_ROWS):
            yield RowRange(start, min(start + _WINDOW_ROWS, reader.num_rows))
        return
    live = live_offsets(table, reader.fragment)
    for start in range(0, len(live), _WINDOW_ROWS):
        yield as_rows(live[start : start + _WINDOW_ROWS])


def live_offsets(table: Table, fragment: Fragment) -> npt.NDArray[np.int64]:
    """Return the physical offsets of the live rows of a fragment, ascending."""
    live = np.ones(table.fragment_rows(fragment), np.bool_)
    deleted = table.deletion_vector(fragment)
    if deleted is not None:
        live[np.asarray(deleted.to_array(), np.int64)] = False
    return np.flatnonzero(live)


def read_keys(table: Table, fragment: Fragment, name: str) -> pa.Array:
    """Return a column of all live rows of a fragment, or ``_rowid`` or ``_rowaddr``.

    Raises
    ------
    ColumnNotFoundError
        There is no such column.
    """
    live = live_offsets(table, fragment)
    if name == ROW_ADDRESS:
        return pa.array(live.astype(np.uint64) + np.uint64(fragment.id << 32))
    if name == ROW_ID:
        return pa.array(table.row_ids(fragment).take(live))
    field = table.schema.field(name)
    arrays = [array for (array,) in read_live(table, fragment, [field])]
    return pa.concat_arrays(arrays) if arrays else pa.array([], field.arrow_type())


def has_nulls(table: Table, way: Sequence[Field]) -> bool:
    """Return whether a field is null in any row in which the fields around it are not.

    Parameters
    ----------
    way
        The fields on the path from the top level to the field in question.
    """
    column = way[-1]
    for parent in reversed(way[:-1]):
        column = parent.with_children([column]) if parent.is_struct else parent
    return any(
        _nulls(array, column, way[-1]) > 0
        for fragment in table.fragments
        for (array,) in read_live(table, fragment, [column])
    )


def _nulls(array: pa.Array, field: Field, wanted: Field) -> int:
    if field.id == wanted.id:
        return int(array.null_count)
    if field.is_struct:
        valid = unsliced(array).drop_null()
        child = next(each for each in field.children if any(node.id == wanted.id for node in each.walk()))
        return _nulls(pc.struct_field(valid, child.name), child, wanted)
    return _nulls(array.flatten(), field.children[0], wanted)
