"""Pages of 2.1 and 2.2 in memory: values, and the levels of the lists, structs and nulls above them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from lance_df.encodings.levels.nested import path_array
from lance_df.encodings.loaded_page import viewed
from lance_df.encodings.plan import RowRange

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.encodings.levels.decode import Slots
    from lance_df.encodings.loaded_page import Form, RowReader
    from lance_df.encodings.page_take import PageTake
    from lance_df.encodings.plan import RowPositions, Rows


class LeveledPage(ABC):
    """A `LoadedPage` with slots, from which arrays are made unless a subclass has a faster way."""

    __slots__ = ()

    @abstractmethod
    def slots(self, rows: Rows) -> Slots:
        """Return the levels and values of rows. Raises as readers do."""

    def reader(self, form: Form) -> RowReader:
        """Return a reader of rows of a leaf without ancestors. See `LoadedPage`."""

        def read(start: int, stop: int) -> pa.Array:
            return path_array(self.slots(RowRange(start, stop)), ())

        return viewed(read, form)

    def take(self, rows: RowPositions, form: Form) -> pa.Array:
        """Return single rows of a leaf without ancestors. See `LoadedPage`."""
        del form
        return path_array(self.slots(rows), ())

    def page_take(self) -> PageTake | None:
        """Return None, since kernels cannot take rows of such pages. See `LoadedPage`."""
        return None
