"""Read values of equal width in memory, back to back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import pyarrow as pa

from lance_df.encodings.gather import take_words
from lance_df.encodings.loaded_page import Form
from lance_df.encodings.page_take import whole_page
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.encodings.loaded_page import RowReader
    from lance_df.encodings.page_take import PageTake
    from lance_df.encodings.plan import RowPositions


@dataclass(frozen=True, slots=True)
class LoadedFlat:
    """Values of a plain type, which arrays view.

    Attributes
    ----------
    width
        The number of bytes of a value.
    data
        The values, aligned as Arrow requires for views.
    """

    data_type: pa.DataType
    width: int
    data: pa.Buffer

    @classmethod
    def of(cls, values: pa.Array) -> Self:
        """Return the values of a fixed-width array that starts at offset 0 and has no nulls."""
        return cls(values.type, values.type.byte_width, values.buffers()[1])

    def reader(self, form: Form = Form.PLAIN) -> RowReader:
        """Return a reader of rows. See `LoadedPage`."""
        del form
        data_type, width, part, array = self.data_type, self.width, self.data.slice, pa.Array.from_buffers

        def read(start: int, stop: int) -> pa.Array:
            count = stop - start
            return array(data_type, count, [None, part(start * width, count * width)], 0)

        return read

    def take(self, rows: RowPositions, form: Form = Form.PLAIN) -> pa.Array:
        """Return single rows. See `LoadedPage`."""
        del form
        data = take_words(self.data, self.width, rows)
        return pa.Array.from_buffers(self.data_type, len(rows), [None, data], 0)

    def page_take(self) -> PageTake:
        """Return the object by which kernels take single rows. See `LoadedPage`."""
        return whole_page(self.data, self.width, self.data_type)

    def bytes(self, start: int, stop: int) -> pa.Buffer:
        """Return the bytes of a range of rows."""
        return self.data.slice(start * self.width, (stop - start) * self.width)
