"""Scans for smallest and largest values only: known extremes of a data file are not read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.records import dataclass
from lance_df.scan.aggregate import extremes_of, has_extremes
from lance_df.table.reading.observed_bounds import file_of
from lance_df.table.scan.columns import StoredColumn

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from lance_df.table.reading.fragment_reader import FragmentReader
    from lance_df.table.reading.observed import ObservedStatistics
    from lance_df.table.scan.columns import Column
    from lance_df.table.scan.row_slice import RowSlice


@dataclass(frozen=True, slots=True)
class ExtremesScan:
    """Scans a range of rows without deleted ones of a fragment, for the extremes of some columns.

    Parameters
    ----------
    observed
        The observed statistics of the table.
    columns
        The columns that the scan returns.
    """

    observed: ObservedStatistics
    columns: tuple[Column, ...]

    def read(self, reader: FragmentReader, rows: RowSlice, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield batches with the same extremes as the rows ``start`` to ``stop``."""
        keys = self._keys(reader, start, stop)
        if keys is None:
            yield from rows.read(start, stop)
            return
        known = self.observed.extremes(keys)
        if known is None:
            batches: list[list[pa.Array]] = []
            is_complete = True
            for values in rows.values(start, stop):
                extremes = [extremes_of(each) for each in values]
                if any(each is None for each in extremes):
                    is_complete = False
                    yield rows.batch(values)
                else:
                    batches.append(rows.batch(extremes).columns)
            if not batches:
                return
            known = [extremes_of(pa.concat_arrays(parts)) for parts in zip(*batches, strict=True)]
            if is_complete:
                self.observed.add_extremes(keys, known)
        yield rows.batch(known)

    def _keys(self, reader: FragmentReader, start: int, stop: int) -> list[Hashable] | None:
        keys: list[Hashable] = []
        for column in self.columns:
            if not isinstance(column, StoredColumn) or column.is_located:
                return None
            if (file := file_of(reader, column)) is None:
                return None
            keys.append((file, start, stop, column.path, column.field.id, column.output.type))
        return keys


def extremes_scan(observed: ObservedStatistics, columns: tuple[Column, ...]) -> ExtremesScan | None:
    """Return a scan for the extremes of columns; None if Arrow and DataFusion may find different ones."""
    if columns and all(has_extremes(column.output.type) for column in columns):
        return ExtremesScan(observed, columns)
    return None
