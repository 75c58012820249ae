"""Full-zip pages in memory whose values lie as Arrow has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.encodings.gather import is_view, take, word_bytes
from lance_df.encodings.page_take import whole_page
from lance_df.encodings.resident import Form
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.encodings.page_take import PageTake
    from lance_df.encodings.plan import RowPositions
    from lance_df.encodings.resident import RowReader


@dataclass(frozen=True, slots=True)
class ResidentValues:
    """Values that lie in the file as Arrow has them."""

    values: pa.Array

    def reader(self, form: Form) -> RowReader:
        """Return what reads rows. See `ResidentPage`."""
        del form
        return lambda start, stop: self.values.slice(start, stop - start)

    def take(self, rows: RowPositions, form: Form) -> pa.Array:
        """Return single rows. See `ResidentPage`."""
        del form
        return take(self.values, rows)

    def page_take(self) -> PageTake | None:
        """Return how kernels take single rows. See `ResidentPage`."""
        width = word_bytes(self.values.type)
        if not width or self.values.null_count or is_view(self.values.type):
            return None
        return whole_page(self.values.buffers()[1].slice(self.values.offset * width), width, self.values.type)
