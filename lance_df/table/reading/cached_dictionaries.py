"""Columns that a scan keeps as the dictionary they are stored as, until it knows which rows are wanted.

An index takes fewer bytes than its value: rows are compared and left out by index, and what remains is looked
up at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_df.cache import CacheKind
from lance_df.encodings.gather import Lookup

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.cache import Entries, TableCache
    from lance_df.encodings.selected_rows import SelectedRows

# What a table takes beside the values.
_TABLE_BYTES = 1024


class CachedDictionaries:
    """Looks values up; what makes that fast is made once for each dictionary. Safe to share."""

    def __init__(self, cache: TableCache) -> None:
        self._tables: Entries[_Table] = cache.entries(CacheKind.DICTIONARIES)

    def expand(self, array: pa.Array, data_type: pa.DataType, rows: SelectedRows | None = None) -> pa.Array:
        """Return an array that may be kept as a dictionary as one of plain values, which others are already.

        Parameters
        ----------
        data_type
            Wanted of the result: dictionaries of a dictionary type stay what they are, and strings are looked
            up as views where that is asked for.
        rows
            Those of which values are wanted; None for all.
        """
        if not isinstance(array, pa.DictionaryArray) or pa.types.is_dictionary(data_type):
            return array if rows is None else rows.of(array)
        if rows is not None and (rows.is_all or rows.drops_few or array.null_count):
            array, rows = rows.of(array), None
        dictionary = array.dictionary
        views = data_type == pa.string_view()
        # the table holds the dictionary, so no other can come to lie at its address
        key = dictionary.buffers()[1].address, dictionary.offset, len(dictionary), dictionary.type, views
        if (table := self._tables.find(key)) is None:
            table = self._tables.put(
                key, _Table(dictionary, views=views), 2 * dictionary.nbytes + _TABLE_BYTES
            )
        return table.look_up(array, None if rows is None else rows.positions)


class _Table:
    def __init__(self, dictionary: pa.Array, *, views: bool) -> None:
        self.dictionary = dictionary
        # whatever null stands in it is the value of no index
        buffers = [None, *dictionary.buffers()[1:]]
        filled = pa.Array.from_buffers(
            dictionary.type, len(dictionary), buffers, null_count=0, offset=dictionary.offset
        )
        self._lookup = Lookup(filled.cast(pa.string_view()) if views else filled)

    def look_up(self, array: pa.DictionaryArray, positions: npt.NDArray[np.int64] | None) -> pa.Array:
        """Return the values at some positions, or all of them; where there are nulls, all."""
        count, num_nulls = len(array), array.null_count
        if num_nulls == count:
            return pa.nulls(count, self._lookup.values.type)
        valid, data = array.indices.buffers()
        width = array.indices.type.bit_width // 8
        numbers: npt.NDArray[np.unsignedinteger[Any]] = np.frombuffer(
            data, f"<u{width}", count, array.offset * width
        )
        if num_nulls:  # below them stands any index
            last = min(len(self.dictionary) - 1, np.iinfo(numbers.dtype).max)
            numbers = np.minimum(numbers, numbers.dtype.type(last))
        numbers.flags.writeable = False  # as kernels are compiled for
        if positions is not None:
            return self._lookup.take_at(numbers, positions)
        values = self._lookup.take(numbers)
        if not num_nulls:
            return values
        if array.offset:
            valid = pa.array(array.is_valid().to_numpy(zero_copy_only=False)).buffers()[1]
        return pa.Array.from_buffers(values.type, count, [valid, *values.buffers()[1:]], num_nulls)
