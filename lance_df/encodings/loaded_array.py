"""Read rows of a page that has been decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.encodings.gather import take
from lance_df.encodings.loaded_page import Form, viewed
from lance_df.records import dataclass

if TYPE_CHECKING:
    from lance_df.encodings.loaded_page import RowReader
    from lance_df.encodings.plan import RowPositions


@dataclass(frozen=True, slots=True)
class LoadedArray:
    """A `LoadedPage` for encodings that are decoded to an array first."""

    values: pa.Array

    def reader(self, form: Form) -> RowReader:
        """Return a reader of rows. See `LoadedPage`."""
        return viewed(lambda start, stop: self.values.slice(start, stop - start), form)

    def take(self, rows: RowPositions, form: Form) -> pa.Array:
        """Return single rows. See `LoadedPage`."""
        del form
        return take(self.values, rows)

    def page_take(self) -> None:
        """Return None, since the stored bytes are not in memory. See `LoadedPage`."""
