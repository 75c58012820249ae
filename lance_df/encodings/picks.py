"""Single rows of pages in memory, none of them null: one call of compiled code picks them out of many."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from lance_df.encodings import kernels
from lance_df.encodings.kernels import page_map, pick_map
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.plan import RowPositions
    from lance_df.encodings.resident import CodedValues

    Numbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PagePicks:
    """How single rows of a page are picked.

    Attributes
    ----------
    kind
        See `pick_map`.
    page
        See `page_map`.
    data_type
        Of what is stored: values, or indices.
    coded
        What indices mean.
    keep
        What has to live as long as ``page`` is used.
    """

    kind: int
    page: Numbers
    data_type: pa.DataType
    coded: CodedValues | None = None
    keep: object = None

    @property
    def width(self) -> int:
        """Bytes of a stored value."""
        return int(self.page[page_map.WIDTH])

    def decoding(self, coded: CodedValues) -> PagePicks:
        """Return how indices into values are picked."""
        page = self.page.copy()
        page[page_map.TABLE_SIZE] = len(coded.values)
        return PagePicks(self.kind, page, self.data_type, coded, self.keep)

    def entries(self, base: int) -> list[int]:
        """Return what the kernel is told of the page.

        Parameters
        ----------
        base
            What is added to indices.
        """
        return [self.kind, base, self.page.ctypes.data]

    def take(self, rows: RowPositions) -> pa.Array:
        """Return single rows, which exist, as they are stored.

        Raises
        ------
        CorruptDataError
            The page does not hold them.
        """
        pages = np.array([self.entries(0)], np.int64)
        count = len(rows)
        data = pa.allocate_buffer(count * self.width)
        found, state = pick(pages, _ALL_ROWS, rows, np.arange(count), data)
        if found != pick_map.DONE:
            raise self.error(found, state)
        return pa.Array.from_buffers(self.data_type, count, [None, data], 0)

    def error(self, found: int, state: Numbers) -> CorruptDataError:
        """Return what is wrong with the page, where the kernel found something."""
        wrong = int(state[pick_map.WRONG])
        if found == pick_map.IS_BEYOND and self.coded is not None:
            return self.coded.beyond(wrong)
        return CorruptDataError(f"chunk {wrong} does not hold its values")


# the first row of one page, and a row beyond its last
_ALL_ROWS = np.array([0, np.iinfo(np.int64).max])


def whole_page(data: pa.Buffer, width: int, data_type: pa.DataType) -> PagePicks:
    """Return how values are picked that lie back to back."""
    page = np.zeros(page_map.NUM_ENTRIES, np.int64)
    page[page_map.DATA] = data.address
    page[page_map.WIDTH] = width
    page[page_map.TABLE_SIZE] = -1
    return PagePicks(pick_map.WHOLE, page, data_type, keep=data)


def pick(
    pages: Numbers, starts: Numbers, rows: Numbers, places: Numbers, out: pa.Buffer, *, begin: int = 0
) -> tuple[int, Numbers]:
    """Return what became of it, and where it stopped. See `kernels.picked_rows`."""
    state = np.zeros(pick_map.NUM_STATES, np.int64)
    return kernels.pick_rows(pages, starts, rows, places, begin, out.address, state), state
