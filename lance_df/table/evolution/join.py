"""Add columns by a join: look up rows of other data by a key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.errors import ColumnNotFoundError, InvalidInputError
from lance_df.scan.grouping import grouped
from lance_df.sliced_lists import unsliced


class Lookup:
    """Rows by key. If rows share a key, the last one counts; a null key is an ordinary key.

    Attributes
    ----------
    schema
        The columns except the key; nullable, as keys may be missing.
    """

    def __init__(self, table: pa.Table, key: str) -> None:
        """Index a table in memory.

        Raises
        ------
        ColumnNotFoundError
            The table has no such column.
        InvalidInputError
            The keys cannot be compared, or the table has no other columns.
        """
        if table.schema.names.count(key) != 1:
            raise ColumnNotFoundError(
                f"the join column {key!r} does not exist; the columns are "
                f"{', '.join(map(repr, table.schema.names))}"
            )
        others = table.drop_columns([key]).combine_chunks()
        if not others.num_columns:
            raise InvalidInputError(f"the data to join has only the column {key!r}")
        self._keys = table.column(key)
        self._known = _last_of_each(self._keys, key)
        self._values = unsliced(others)
        self.schema = pa.schema([field.with_nullable(True) for field in others.schema])

    def find(self, keys: pa.Array) -> pa.Array:
        """Return the row number of each key, or null if there is none.

        Raises
        ------
        InvalidInputError
            The keys have another type.
        """
        if keys.type != self._keys.type:
            raise InvalidInputError(
                f"the join keys of the table have type {keys.type}, those of the data to join have type "
                f"{self._keys.type}"
            )
        positions = pc.index_in(keys, value_set=self._known[0])
        return self._known[1].take(positions)

    def take(self, rows: pa.Array) -> pa.RecordBatch:
        """Return rows by number; a null number gives nulls."""
        rows_of_values = self._values.take(rows)
        return pa.RecordBatch.from_arrays(
            [_array(column) for column in rows_of_values.columns], schema=self.schema
        )


def _last_of_each(keys: pa.ChunkedArray, name: str) -> tuple[pa.Array, pa.Array]:
    """Return each key once, and the number of the last row that has it."""
    numbers = pa.array(np.arange(len(keys), dtype=np.int64))
    try:
        last = grouped(pa.table({"key": keys, "row": numbers}), ["key"]).aggregate([("row", "max")])
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as err:
        raise InvalidInputError(f"cannot join on column {name!r} of type {keys.type}") from err
    last = last.combine_chunks()
    return _array(last.column("key")), _array(last.column("row_max"))


def _array(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)
