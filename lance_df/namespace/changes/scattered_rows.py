"""Rows that are scattered over several batches, brought together by compiled loops over all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_df.encodings import kernels
from lance_df.expr.text_views import is_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

_WIDTHS: Final = (8, 16, 32, 64, 128)
_PAIR_BITS: Final = 128


class ColumnAddresses:
    """Where the values of the columns of a batch are.

    Attributes
    ----------
    values
        The address of the first value of each column; 0 for one that has nulls, or no values of fixed width.
    """

    __slots__ = ("_rows", "_texts", "values")

    def __init__(self, rows: pa.RecordBatch) -> None:
        self._rows = rows
        self._texts: dict[int, list[pa.Buffer]] = {}
        self.values: npt.NDArray[np.int64] = np.array(list(map(_address, rows.columns)), np.int64)

    def texts(self, number: int) -> list[pa.Buffer]:
        """Return the buffers that the values of a column refer to, if they are views."""
        if number not in self._texts:
            self._texts[number] = self._rows.column(number).buffers()[2:]
        return self._texts[number]


class ScatteredRows:
    """Some rows of several batches of one schema.

    Parameters
    ----------
    batches
        Where the columns of each are.
    orders
        The positions of the rows in each.
    """

    def __init__(
        self,
        schema: pa.Schema,
        batches: Sequence[ColumnAddresses],
        orders: Sequence[npt.NDArray[np.integer]],
    ) -> None:
        self._schema = schema
        self._batches = batches
        self._arrays = [np.ascontiguousarray(order, np.int64) for order in orders]
        self._counts = np.array(list(map(len, orders)), np.int64)
        self._orders = np.array([order.ctypes.data for order in self._arrays], np.int64)
        self._sources = np.array([each.values for each in batches], np.int64).T.copy()
        self.num_rows = int(self._counts.sum())

    def columns(self) -> dict[int, pa.Array]:
        """Return the columns of which all batches have an address, by their numbers."""
        whole = np.flatnonzero((self._sources != 0).all(axis=1))
        return {number: self._column(number) for number in whole.tolist()}

    def _column(self, number: int) -> pa.Array:
        data_type = self._schema.field(number).type
        bits = _bits(data_type)
        out = pa.allocate_buffer(self.num_rows * bits // 8)
        parts = (self._sources[number], self._orders, self._counts)
        if bits == _PAIR_BITS:
            texts = [each.texts(number) for each in self._batches]
            shifts = np.append(0, np.cumsum([len(each) for each in texts], dtype=np.int64)[:-1])
            kernels.gather_scattered_pairs(*parts, shifts, out.address)
        else:
            texts = []
            getattr(kernels, f"gather_scattered_{bits}")(*parts, out.address)
        buffers = [None, out, *(text for of_batch in texts for text in of_batch)]
        return pa.Array.from_buffers(data_type, self.num_rows, buffers, null_count=0)


def _address(column: pa.Array) -> int:
    bits = _bits(column.type)
    if bits not in _WIDTHS or column.null_count or not len(column):
        return 0
    return int(column.buffers()[1].address) + column.offset * bits // 8


def _bits(data_type: pa.DataType) -> int:
    """Return how many bits a value takes, 0 where they differ or are no whole bytes."""
    if is_view(data_type):
        return _PAIR_BITS
    is_plain = pa.types.is_primitive(data_type) or pa.types.is_decimal(data_type)
    if is_plain or pa.types.is_fixed_size_binary(data_type):
        return int(data_type.bit_width)
    return 0
