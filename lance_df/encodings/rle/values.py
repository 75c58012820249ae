"""Read run-length encoded values of chunks in memory."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from lance_df.encodings.chunks import WordValues, kernel_reader, plain_array
from lance_df.encodings.kernels import pages, row_take
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.encodings.loaded_page import Form, RowReader

_MAX_RUN = 255


@dataclass(frozen=True, slots=True)
class RunValues(WordValues):
    """Values and the lengths of their runs in each chunk."""

    kind: ClassVar[int] = row_take.RUNS
    dense: ClassVar[int] = 8

    def reader(self, form: Form) -> RowReader:
        """See `Values`."""
        del form
        most, page = _MAX_RUN * len(self.chunks.data), self.chunks.page(self.width)
        return kernel_reader(pages.read_runs, page, most, partial(plain_array, self.data_type))
