"""Read flat values of chunks in memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from lance_df.encodings.chunks import WordValues, kernel_reader, plain_array
from lance_df.encodings.kernels import pages, row_take
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.encodings.loaded_page import Form, RowReader


@dataclass(frozen=True, slots=True)
class FlatValues(WordValues):
    """Values back to back in each chunk."""

    kind: ClassVar[int] = row_take.FLAT
    dense: ClassVar[int] = 4

    def reader(self, form: Form) -> RowReader:
        """See `Values`."""
        del form
        most, page = len(self.chunks.data) // self.width, self.chunks.page(self.width)
        return kernel_reader(pages.read_flat, page, most, partial(plain_array, self.data_type))
