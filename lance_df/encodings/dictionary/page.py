"""`Dictionary`: indices into items that the page holds once.

Of a column of dictionary type the indices are Arrow's own, and a null is an index of a null item. Of a column
of any other type index 0 is null and index k is item k - 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.arrays import null_array
from lance_df.encodings.gather import Lookup
from lance_df.encodings.plan import RowRange, together
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.encodings.decoder import Decoder
    from lance_df.encodings.plan import IoPlan, Rows


@dataclass(frozen=True, slots=True)
class DictionaryDecoder:
    """Dictionary arrays. ``indices`` decodes the index type."""

    data_type: pa.DataType
    num_values: int
    indices: Decoder
    items: Decoder

    def read(self, rows: Rows) -> IoPlan[pa.Array]:
        indices, items = yield from _read_parts(self.indices, self.items, rows)
        _check_indices(indices, 0, len(items) - 1)
        if items.null_count:
            used_valid = items.is_valid().take(indices)
            indices = pc.if_else(used_valid, indices, pa.scalar(None, indices.type))
        return pa.DictionaryArray.from_arrays(indices, items, ordered=self.data_type.ordered, safe=False)


@dataclass(slots=True)
class DictionaryCodedDecoder:
    """Plain values that the writer chose to store as a dictionary. ``indices`` decodes unsigned integers."""

    data_type: pa.DataType
    num_values: int
    indices: Decoder
    items: Decoder
    _lookup: Lookup | None = None

    def read(self, rows: Rows) -> IoPlan[pa.Array]:
        if self._lookup is None:
            indices, items = yield from _read_parts(self.indices, self.items, rows)
            self._lookup = Lookup(items)
        else:
            indices = yield from self.indices.read(rows)
        numbers, items = indices.to_numpy(), self._lookup.values
        if items.null_count or not len(items) or (len(numbers) and not numbers.min()):
            _check_indices(indices, 0, len(items))
            return pa.concat_arrays([null_array(self.data_type, 1), items]).take(indices)
        return self._lookup.look_up(numbers - numbers.dtype.type(1))


def _read_parts(indices: Decoder, items: Decoder, rows: Rows) -> IoPlan[list[pa.Array]]:
    return (yield from together([indices.read(rows), items.read(RowRange(0, items.num_values))]))


def _check_indices(indices: pa.Array, low: int, high: int) -> None:
    limits = pc.min_max(indices)
    smallest, largest = limits["min"].as_py(), limits["max"].as_py()
    if smallest is not None and (smallest < low or largest > high):
        raise CorruptDataError(
            f"dictionary indices go from {smallest} to {largest}, expected them in {low} to {high}"
        )
