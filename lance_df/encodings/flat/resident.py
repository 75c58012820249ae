"""Flat values of a page in memory: views of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.encodings.flat.page import FlatDecoder, bits_of
from lance_df.encodings.gather import take_words
from lance_df.encodings.page_take import whole_page
from lance_df.encodings.plan import read_whole
from lance_df.encodings.resident import Form
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.encodings.page_take import PageTake
    from lance_df.encodings.plan import RowPositions
    from lance_df.encodings.resident import RowReader, Run


@dataclass(frozen=True, slots=True)
class ResidentFlat:
    """Views of the file."""

    data_type: pa.DataType
    width: int
    data: pa.Buffer

    def reader(self, form: Form = Form.PLAIN) -> RowReader:
        """Return what reads rows. See `ResidentPage`."""
        del form
        data_type, width, part, array = self.data_type, self.width, self.data.slice, pa.Array.from_buffers

        def read(start: int, stop: int) -> pa.Array:
            count = stop - start
            return array(data_type, count, [None, part(start * width, count * width)], 0)

        return read

    def take(self, rows: RowPositions, form: Form = Form.PLAIN) -> pa.Array:
        """Return single rows. See `ResidentPage`."""
        del form
        data = take_words(self.data, self.width, rows)
        return pa.Array.from_buffers(self.data_type, len(rows), [None, data], 0)

    def page_take(self) -> PageTake:
        """Return how kernels take single rows. See `ResidentPage`."""
        return whole_page(self.data, self.width, self.data_type)

    def bytes(self, start: int, stop: int) -> pa.Buffer:
        """Return the bytes of rows."""
        return self.data.slice(start * self.width, (stop - start) * self.width)


def open_flat(decoder: FlatDecoder, run: Run) -> ResidentFlat | None:
    """Return the values of a flat decoder in memory; None where Arrow cannot view them.

    Raises
    ------
    CorruptDataError
        The buffer is too small.
    """
    data_type = decoder.data_type
    width = bits_of(data_type) // 8
    if not width:  # strings of no bytes
        return None
    data = run(read_whole(decoder.buffer))
    if data.size < decoder.num_values * width:
        raise CorruptDataError(f"{decoder.num_values} values of {width} bytes in {data.size} bytes")
    is_aligned = pa.types.is_fixed_size_binary(data_type) or data.address % min(width, 8) == 0
    return ResidentFlat(data_type, width, data) if is_aligned else None
