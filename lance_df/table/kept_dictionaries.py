"""Columns that a scan keeps as the dictionary they are stored as, until it knows which rows are wanted.

An index takes fewer bytes than its value: rows are compared and left out by index, and what remains is looked
up at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from lance_df.encodings.gather import Lookup
from lance_df.encodings.string_views import ViewLookup
from lance_df.table.caches import LruCache

if TYPE_CHECKING:
    import numpy.typing as npt

_MAX_BYTES = 32 * 1024 * 1024


class KeptDictionaries:
    """Looks values up; what makes that fast is made once for each dictionary. Safe to share."""

    def __init__(self) -> None:
        self._tables: LruCache[_Table] = LruCache(_MAX_BYTES)

    def expand(self, array: pa.Array, data_type: pa.DataType) -> pa.Array:
        """Return an array that may be kept as a dictionary as one of plain values, which others are already.

        Parameters
        ----------
        data_type
            Wanted of the result: dictionaries of a dictionary type stay what they are, and strings are looked
            up as views where that is asked for.
        """
        if not isinstance(array, pa.DictionaryArray) or pa.types.is_dictionary(data_type):
            return array
        dictionary = array.dictionary
        views = data_type == pa.string_view()
        # the table holds the dictionary, so no other can come to lie at its address
        place = dictionary.buffers()[1].address, dictionary.offset, len(dictionary)
        table = self._tables.get(
            (*place, dictionary.type, views),
            lambda: _Table(dictionary, views=views),
            weight=2 * dictionary.nbytes + 1024,
        )
        return table.look_up(array)


class _Table:
    def __init__(self, dictionary: pa.Array, *, views: bool) -> None:
        self.dictionary = dictionary
        # whatever null stands in it is the value of no index
        buffers = [None, *dictionary.buffers()[1:]]
        filled = pa.Array.from_buffers(
            dictionary.type, len(dictionary), buffers, null_count=0, offset=dictionary.offset
        )
        self._lookup = ViewLookup(filled.cast(pa.string_view())) if views else Lookup(filled)

    def look_up(self, array: pa.DictionaryArray) -> pa.Array:
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
        found = self._lookup.pick(numbers)
        if not num_nulls:
            return found
        if array.offset:
            valid = pa.array(array.is_valid().to_numpy(zero_copy_only=False)).buffers()[1]
        return pa.Array.from_buffers(found.type, count, [valid, *found.buffers()[1:]], num_nulls)
