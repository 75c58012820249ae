"""Read the same columns of one fragment, window by window.

Work that does not depend on the rows is done once, so that a window costs little more than decoding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lance_df.encodings.loaded_page import Form
from lance_df.encodings.plan import RowRange
from lance_df.file.read_options import ReadOptions
from lance_df.table.blobs.columns import values_of
from lance_df.table.reading.small_columns import is_cached
from lance_df.table.scan.columns import StoredColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from lance_df.encodings.plan import Rows
    from lance_df.file.v2.resident_column import ResidentColumn
    from lance_df.scan.options import ScanOptions
    from lance_df.table.reading.fragment_reader import FragmentReader
    from lance_df.table.scan.columns import Column
    from lance_df.table.table import Table


class WindowReader:
    """Reads rows of some columns of one fragment.

    Parameters
    ----------
    forms
        The forms that the array of each column may have, in addition to its stored type.
    system_values
        Returns a system column by name.
    options
        Whether columns in memory are decoded in place, small pages are decoded together, and columns of
        small fragments are cached.
    """

    def __init__(
        self,
        table: Table,
        reader: FragmentReader,
        columns: Sequence[Column],
        forms: Sequence[Form],
        system_values: Callable[[str, Rows], pa.Array],
        options: ScanOptions,
    ) -> None:
        self._table = table
        self._reader = reader
        self._columns = columns
        self._forms = forms
        self._system_values = system_values
        self._caches_columns = options.small_columns and is_cached(reader)
        self._options = ReadOptions(options.resident_columns, options.page_runs)
        self._resident = [
            _resident_column(reader, column)
            if options.resident_columns and not self._caches_columns
            else None
            for column in columns
        ]
        self._readers = [
            None if resident is None else resident.reader(form)
            for resident, form in zip(self._resident, forms, strict=True)
        ]
        self._without_data = [
            index
            for index, column in enumerate(columns)
            if isinstance(column, StoredColumn) and not column.is_read_from(reader)
        ]
        self._never_null = [
            (index, column.field)
            for index, column in enumerate(columns)
            # the values of a field in a struct may be null although the struct is not
            if isinstance(column, StoredColumn) and len(column.path) == 1 and not column.field.nullable
        ]

    def read(self, rows: Rows) -> list[pa.Array]:
        """Return the values of each column, as `FragmentReader.read` does."""
        arrays = self._read_resident(rows)
        left = [index for index, array in enumerate(arrays) if array is None]
        if left:
            for index, array in zip(left, self._read_generally(left, rows), strict=True):
                arrays[index] = array
        for index, field in self._never_null:
            if arrays[index].null_count:
                self._reader.check_nulls(field, arrays[index], rows)
        return arrays

    def _read_resident(self, rows: Rows) -> list[Any]:
        """Return columns in memory, and None for columns that must be read by a plan."""
        if isinstance(rows, RowRange):
            start, stop = rows.start, rows.stop
            return [None if read is None else read(start, stop) for read in self._readers]
        return [
            None if resident is None else resident.take(rows, form & ~Form.VIEWS)
            for resident, form in zip(self._resident, self._forms, strict=True)
        ]

    def _read_generally(self, indices: Sequence[int], rows: Rows) -> list[pa.Array]:
        viewed = [
            column.field
            for column, form in zip(self._columns, self._forms, strict=True)
            if Form.VIEWS in form and isinstance(column, StoredColumn) and isinstance(rows, RowRange)
        ]
        columns = [(self._columns[index], index not in self._without_data) for index in indices]
        fields = [column.field for column, is_read in columns if isinstance(column, StoredColumn) and is_read]
        if self._caches_columns:
            small_columns = self._table.shared.small_columns
            arrays = small_columns.read(self._reader, fields, rows, self._options, views=viewed)
        else:
            arrays = self._reader.read(
                fields, rows, keep_dictionaries=True, views=viewed, options=self._options
            )
        values = iter(arrays)
        return [
            values_of(
                self._table,
                self._reader.fragment,
                column,
                next(values) if is_read else column.nulls(len(rows)),
            )
            if isinstance(column, StoredColumn)
            else self._system_values(column.name, rows)
            for column, is_read in columns
        ]


def _resident_column(reader: FragmentReader, column: Column) -> ResidentColumn | None:
    if not isinstance(column, StoredColumn) or len(column.path) > 1 or column.is_located:
        return None
    return reader.resident_column(column.field)
