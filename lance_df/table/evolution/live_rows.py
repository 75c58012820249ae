"""Read columns of the live rows of fragments, fields of structs among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from lance_df.encodings.plan import RowRange
from lance_df.encodings.rows import as_rows
from lance_df.table.fragment_reader import FragmentReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt
    import pyarrow as pa
    from pyroaring import BitMap

    from lance_df.format.fragments import Fragment
    from lance_df.format.schema import Field
    from lance_df.table.table import Table

_WINDOW_ROWS = 64 * 1024


def read_live(table: Table, fragment: Fragment, fields: Sequence[Field]) -> Iterator[list[pa.Array]]:
    """Yield the values of live rows in order, one array of storage type for each field.

    Parameters
    ----------
    fields
        Top-level fields, which may be cut down to some of their children.
    """
    reader = FragmentReader(table, fragment)
    vector = table.deletion_vector(fragment)
    for start in range(0, reader.num_rows, _WINDOW_ROWS):
        stop = min(start + _WINDOW_ROWS, reader.num_rows)
        if vector is None:
            yield reader.read(fields, RowRange(start, stop))
            continue
        live = np.ones(stop - start, np.bool_)
        live[_within(vector, start, stop) - start] = False
        if live.any():
            yield reader.read(fields, as_rows(np.flatnonzero(live) + start))


def _within(vector: BitMap, start: int, stop: int) -> npt.NDArray[np.int64]:
    """Return the deleted rows of a window."""
    first, last = (vector.rank(bound - 1) if bound else 0 for bound in (start, stop))
    return np.asarray(vector[first:last].to_array(), np.int64)


def has_nulls(table: Table, way: Sequence[Field]) -> bool:
    """Return whether a field is null somewhere where the fields around it are not.

    Parameters
    ----------
    way
        From a top-level field down to the one that is asked about.
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
        valid = array.drop_null()
        child = next(each for each in field.children if any(node.id == wanted.id for node in each.walk()))
        return _nulls(pc.struct_field(valid, child.name), child, wanted)
    return _nulls(array.flatten(), field.children[0], wanted)
