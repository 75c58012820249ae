"""Look up values of dictionary columns at the end of a scan, when it is known which rows are wanted.

An index takes fewer bytes than its value: rows are compared and dropped by index, and only the values of the
remaining rows are looked up.
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

# Memory of a look-up table, besides its values.
_TABLE_BYTES = 1024


class CachedDictionaries:
    """Looks up values of dictionaries; the tables for fast look-ups are cached. Threads may share it."""

    def __init__(self, cache: TableCache) -> None:
        self._tables: Entries[_Table] = cache.entries(CacheKind.DICTIONARIES)

    def expand(self, array: pa.Array, data_type: pa.DataType, rows: SelectedRows | None = None) -> pa.Array:
        """Return the plain values of an array that may be dictionary-encoded.

        Parameters
        ----------
        data_type
            The wanted type: for a dictionary type the array stays a dictionary, for string views the values
            are looked up as views.
        rows
            The wanted rows; None for all.
        """
        if not isinstance(array, pa.DictionaryArray) or pa.types.is_dictionary(data_type):
            return array if rows is None else rows.of(array)
        if rows is not None and (rows.is_all or rows.drops_few or array.null_count):
            array, rows = rows.of(array), None
        dictionary = array.dictionary
        views = data_type == pa.string_view()
        # the table holds the dictionary, so no other one can get its address
        key = dictionary.buffers()[1].address, dictionary.offset, len(dictionary), dictionary.type, views
        if (table := self._tables.find(key)) is None:
            table = self._tables.put(
                key, _Table(dictionary, views=views), 2 * dictionary.nbytes + _TABLE_BYTES
            )
        return table.look_up(array, None if rows is None else rows.positions)


class _Table:
    def __init__(self, dictionary: pa.Array, *, views: bool) -> None:
        self.dictionary = dictionary
        # no index refers to a null in the dictionary
        buffers = [None, *dictionary.buffers()[1:]]
        filled = pa.Array.from_buffers(
            dictionary.type, len(dictionary), buffers, null_count=0, offset=dictionary.offset
        )
        self._lookup = Lookup(filled.cast(pa.string_view()) if views else filled)

    def look_up(self, array: pa.DictionaryArray, positions: npt.NDArray[np.int64] | None) -> pa.Array:
        """Return the values at the given positions, or all of them; always all if there are nulls."""
        count, num_nulls = len(array), array.null_count
        if num_nulls == count:
            return pa.nulls(count, self._lookup.values.type)
        valid, data = array.indices.buffers()
        width = array.indices.type.bit_width // 8
        numbers: npt.NDArray[np.unsignedinteger[Any]] = np.frombuffer(
            data, f"<u{width}", count, array.offset * width
        )
        if num_nulls:  # the indices of nulls are undefined
            last = min(len(self.dictionary) - 1, np.iinfo(numbers.dtype).max)
            numbers = np.minimum(numbers, numbers.dtype.type(last))
        numbers.flags.writeable = False  # the kernels are compiled for read-only arrays
        if positions is not None:
            return self._lookup.take_at(numbers, positions)
        values = self._lookup.take(numbers)
        if not num_nulls:
            return values
        if array.offset:
            valid = pa.array(array.is_valid().to_numpy(zero_copy_only=False)).buffers()[1]
        return pa.Array.from_buffers(values.type, count, [valid, *values.buffers()[1:]], num_nulls)
