"""Gather rows that are scattered over several batches, with compiled loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_df.encodings.kernels import gather
from lance_df.expr.text_views import is_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

_WIDTHS: Final = (8, 16, 32, 64, 128)
_PAIR_BITS: Final = 128


class BatchValues:
    """The values of the columns of a batch.

    Attributes
    ----------
    values
        The bytes of each column; None if it has nulls or no fixed-width values.
    """

    __slots__ = ("_rows", "_texts", "values")

    def __init__(self, rows: pa.RecordBatch) -> None:
        self._rows = rows
        self._texts: dict[int, list[pa.Buffer]] = {}
        self.values: list[gather.Values | None] = list(map(_values, rows.columns))

    def texts(self, number: int) -> list[pa.Buffer]:
        """Return the buffers to which the views of a column refer."""
        if number not in self._texts:
            self._texts[number] = self._rows.column(number).buffers()[2:]
        return self._texts[number]


class ScatteredRows:
    """Some rows of several batches with the same schema.

    Parameters
    ----------
    batches
        The columns of each batch.
    orders
        The positions of the rows in each batch.
    """

    def __init__(
        self,
        schema: pa.Schema,
        batches: Sequence[BatchValues],
        orders: Sequence[npt.NDArray[np.integer]],
    ) -> None:
        self._schema = schema
        self._batches = batches
        self._order = np.concatenate(orders, dtype=np.int64)
        self._counts = np.array(list(map(len, orders)), np.int64)
        self.num_rows = len(self._order)

    def columns(self) -> dict[int, pa.Array]:
        """Return the gathered columns for which all batches have bytes, by column number."""
        columns = {}
        for number, values in enumerate(zip(*(each.values for each in self._batches), strict=True)):
            if all(each is not None for each in values):
                columns[number] = self._column(number, list(values))
        return columns

    def _column(self, number: int, values: list[gather.Values]) -> pa.Array:
        data_type, num_rows = self._schema.field(number).type, self.num_rows
        width = _bits(data_type) // 8
        out = pa.allocate_buffer(num_rows * width)
        texts = [each.texts(number) for each in self._batches]
        shifts = np.zeros(len(texts), np.int64)
        if is_view(data_type):
            np.cumsum([len(each) for each in texts[:-1]], out=shifts[1:])
        else:
            texts = []
        to = np.frombuffer(out, np.uint8) if num_rows else np.empty(0, np.uint8)
        gather.gather_scattered(values, width, self._order, self._counts, shifts, to)
        buffers = [None, out, *(text for of_batch in texts for text in of_batch)]
        return pa.Array.from_buffers(data_type, num_rows, buffers, null_count=0)


def _values(column: pa.Array) -> gather.Values | None:
    bits = _bits(column.type)
    if bits not in _WIDTHS or column.null_count or not len(column):
        return None
    return gather.Values(np.frombuffer(column.buffers()[1], np.uint8)[column.offset * bits // 8 :])


def _bits(data_type: pa.DataType) -> int:
    """Return the fixed width of a value in bits, or 0 if the width is not fixed."""
    if is_view(data_type):
        return _PAIR_BITS
    is_plain = pa.types.is_primitive(data_type) or pa.types.is_decimal(data_type)
    if is_plain or pa.types.is_fixed_size_binary(data_type):
        return int(data_type.bit_width)
    return 0
