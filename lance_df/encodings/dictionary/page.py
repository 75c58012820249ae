"""Decode `Dictionary`: indices into items that the page stores once.

In a column of dictionary type, the indices are Arrow's own, and a null is the index of a null item. In a
column of any other type, index 0 is null and index k is item k - 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.arrays import empty_array, null_array
from lance_df.encodings.decoder import Decoder
from lance_df.encodings.dictionary.coded_values import CodedValues
from lance_df.encodings.dictionary.loaded import LoadedDictionary
from lance_df.encodings.flat.loaded import LoadedFlat
from lance_df.encodings.flat.page import FlatDecoder
from lance_df.encodings.loaded_array import LoadedArray
from lance_df.encodings.loaded_page import Form, is_plain_type, read_rows
from lance_df.encodings.plan import RowRange, together
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.encodings.loaded_page import LoadedPage
    from lance_df.encodings.plan import IoPlan, Rows


@dataclass(frozen=True, slots=True)
class DictionaryDecoder(Decoder):
    """Decodes a column of dictionary type. ``indices`` decodes the index type."""

    data_type: pa.DataType
    num_values: int
    indices: Decoder
    items: Decoder

    def read(self, rows: Rows) -> IoPlan[pa.Array]:
        """Plan to read rows. See `Decoder`."""
        indices, items = yield from _read_parts(self.indices, self.items, rows)
        _check_indices(indices, 0, len(items) - 1)
        if items.null_count:
            used_valid = items.is_valid().take(indices)
            indices = pc.if_else(used_valid, indices, pa.scalar(None, indices.type))
        return pa.DictionaryArray.from_arrays(indices, items, ordered=self.data_type.ordered, safe=False)


@dataclass(slots=True)
class DictionaryCodedDecoder(Decoder):
    """Decodes plain values that the writer stored as a dictionary. ``indices`` decodes unsigned integers."""

    data_type: pa.DataType
    num_values: int
    indices: Decoder
    items: Decoder
    _coded: CodedValues | None = None

    def read(self, rows: Rows) -> IoPlan[pa.Array]:
        """Plan to read rows. See `Decoder`."""
        page, within = yield from self.load(rows)
        return read_rows(page, within, Form.PLAIN) if len(rows) else empty_array(self.data_type)

    def load(self, rows: Rows) -> IoPlan[tuple[LoadedPage, Rows]]:
        """Plan to load the indices of rows, and the items if they are not loaded yet. See `Decoder`."""
        within = RowRange(0, len(rows))
        if self._coded is not None:
            indices = yield from self.indices.read(rows)
            return LoadedDictionary(LoadedFlat.of(indices), self._coded), within
        indices, items = yield from _read_parts(self.indices, self.items, rows)
        if (coded := self._keep(items)) is not None:
            return LoadedDictionary(LoadedFlat.of(indices), coded), within
        _check_indices(indices, 0, len(items))
        return LoadedArray(self._with_null(items).take(indices)), within

    def whole(self) -> IoPlan[LoadedPage | None]:
        """Plan to load the page. See `Decoder`."""
        if not isinstance(self.indices, FlatDecoder):
            return None
        indices = yield from self.indices.whole()
        items = yield from self.items.read(RowRange(0, self.items.num_values))
        coded = self._keep(items)
        return None if indices is None or coded is None else LoadedDictionary(indices, coded)

    def _keep(self, items: pa.Array) -> CodedValues | None:
        """Return the values of indices, or None if any item other than the first is null."""
        if self._coded is None and not items.null_count and is_plain_type(self.data_type):
            self._coded = CodedValues(self._with_null(items), null_first=True)
        return self._coded

    def _with_null(self, items: pa.Array) -> pa.Array:
        return pa.concat_arrays([null_array(self.data_type, 1), items])


def _read_parts(indices: Decoder, items: Decoder, rows: Rows) -> IoPlan[list[pa.Array]]:
    return (yield from together([indices.read(rows), items.read(RowRange(0, items.num_values))]))


def _check_indices(indices: pa.Array, low: int, high: int) -> None:
    limits = pc.min_max(indices)
    smallest, largest = limits["min"].as_py(), limits["max"].as_py()
    if smallest is not None and (smallest < low or largest > high):
        raise CorruptDataError(
            f"dictionary indices are out of range: found {smallest} to {largest}, expected {low} to {high}"
        )
