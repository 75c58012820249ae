"""Scans that need only smallest and largest values: what was found in a data file is not read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.records import dataclass
from lance_df.table.observed_bounds import file_of
from lance_df.table.scan.columns import StoredColumn

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from lance_df.table.fragment_reader import FragmentReader
    from lance_df.table.observed import ObservedStatistics
    from lance_df.table.scan.columns import Column
    from lance_df.table.scan.row_slice import Stretch


@dataclass(frozen=True, slots=True)
class ExtremesScan:
    """The scan of a stretch of a fragment in which no row is deleted, for the extremes of some columns.

    Parameters
    ----------
    observed
        Of the table.
    columns
        What the scan returns.
    """

    observed: ObservedStatistics
    columns: tuple[Column, ...]

    def read(
        self, reader: FragmentReader, stretch: Stretch, start: int, stop: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches with the same extremes as the rows ``start`` to ``stop``."""
        keys = self._keys(reader, start, stop)
        if keys is None:
            yield from stretch.read(start, stop)
            return
        known = self.observed.extremes(keys)
        if known is None:
            found: list[list[pa.Array]] = []
            is_complete = True
            for values in stretch.values(start, stop):
                extremes = [_extremes_of(each) for each in values]
                if any(each is None for each in extremes):
                    is_complete = False
                    yield stretch.batch(values)
                else:
                    found.append(stretch.batch(extremes).columns)
            if not found:
                return
            known = [_extremes_of(pa.concat_arrays(parts)) for parts in zip(*found, strict=True)]
            if is_complete:
                self.observed.add_extremes(keys, known)
        yield stretch.batch(known)

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
    """Return what finds the extremes of columns; None if Arrow and DataFusion may find different ones."""
    if columns and all(_is_ordered(column.output.type) for column in columns):
        return ExtremesScan(observed, columns)
    return None


def _extremes_of(values: pa.Array) -> pa.Array | None:
    """Return the smallest and the largest value, NULLs if there is none; None where they are not definite.

    DataFusion counts NaN as a value, of which the order of rows may decide; and so it may between zeros.
    """
    if isinstance(values, pa.DictionaryArray):
        values = values.dictionary.take(pc.unique(values.indices))
    found = pc.min_max(values)
    if pa.types.is_floating(values.type):
        ends = (found["min"].as_py(), found["max"].as_py())
        if 0.0 in ends or pc.any(pc.is_nan(values)).as_py():
            return None
    return pa.array([found["min"], found["max"]], values.type)


def _is_ordered(data_type: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_integer(data_type)
        or types.is_decimal128(data_type)
        or types.is_date(data_type)
        or types.is_timestamp(data_type)
        or types.is_time(data_type)
        or types.is_boolean(data_type)
        or types.is_float32(data_type)
        or types.is_float64(data_type)
        or data_type in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    )
