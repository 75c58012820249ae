"""Read bit-packed values of chunks in memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from lance_df.encodings.chunks import WordValues, kernel_reader, plain_array
from lance_df.encodings.kernels import fastlanes, row_take
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.encodings.chunks import Wrap
    from lance_df.encodings.dictionary.coded_values import CodedValues, LookupTable
    from lance_df.encodings.kernels.pages import Page
    from lance_df.encodings.loaded_page import Form, RowReader

_BLOCK = 1024


@dataclass(frozen=True, slots=True)
class PackedValues(WordValues):
    """A bit-packed block in each chunk."""

    kind: ClassVar[int] = row_take.PACKED
    dense: ClassVar[int] = 16

    def reader(self, form: Form) -> RowReader:
        """See `Values`."""
        del form
        return self._reader(self.chunks.page(self.width), partial(plain_array, self.data_type))

    def index_reader(self, coded: CodedValues, wrap: Wrap) -> RowReader:
        """Return a reader of indices without nulls, which wraps them."""
        width, size = coded.index_width(), len(coded.values)
        return self._reader(self.chunks.page(self.width, table_size=size, out_width=width), wrap, coded)

    def value_reader(self, coded: CodedValues, table: LookupTable) -> RowReader:
        """Return a reader of the values that indices without nulls refer to."""
        page = self.chunks.page(self.width, table=table.data, table_size=table.size, out_width=table.width)
        return self._reader(page, partial(plain_array, table.data_type, shared=table.shared), coded)

    def _reader(self, page: Page, wrap: Wrap, coded: CodedValues | None = None) -> RowReader:
        return kernel_reader(fastlanes.read_packed, page, _BLOCK * (len(self.chunks.items) - 1), wrap, coded)
