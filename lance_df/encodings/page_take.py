"""Single rows of pages in memory, none of them null: one call of compiled code takes them from many."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from lance_df.encodings.kernels import row_take
from lance_df.encodings.kernels.pages import Page
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lance_df.encodings.dictionary.coded_values import CodedValues
    from lance_df.encodings.plan import RowPositions

    Numbers: TypeAlias = npt.NDArray[np.int64]


_NO_BYTES = np.empty(0, np.uint8)
_NO_CHUNKS = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class PageTake:
    """How single rows of a page are taken.

    Attributes
    ----------
    kind
        How values are stored; see `row_take`.
    page
        Where they are.
    data_type
        Of what is stored: values, or indices.
    coded
        What indices mean.
    """

    kind: int
    page: Page
    data_type: pa.DataType
    coded: CodedValues | None = None

    @property
    def width(self) -> int:
        """Bytes of a stored value."""
        return self.page.width

    def decoding(self, coded: CodedValues) -> PageTake:
        """Return how indices into values are taken."""
        return PageTake(self.kind, self.page.with_table_size(len(coded.values)), self.data_type, coded)

    def take(self, rows: RowPositions) -> pa.Array:
        """Return single rows, which exist, as they are stored.

        Raises
        ------
        CorruptDataError
            The page does not hold them.
        """
        count = len(rows)
        data = pa.allocate_buffer(count * self.width)
        *_, wrong = PagesTake([self], [0], _ALL_ROWS).take(rows, np.arange(count), data)
        if wrong != -1:
            raise self.error(wrong)
        return pa.Array.from_buffers(self.data_type, count, [None, data], 0)

    def error(self, wrong: int) -> CorruptDataError:
        """Return what is wrong with the page: a chunk, or -2 less an index."""
        if wrong < 0 and self.coded is not None:
            return self.coded.beyond(-2 - wrong)
        return CorruptDataError(f"chunk {wrong} does not hold its values")


# the first row of one page, and a row beyond its last
_ALL_ROWS = np.array([0, np.iinfo(np.int64).max])


class PagesTake:
    """Takes single rows of many pages, of one width of values.

    Parameters
    ----------
    pages
        None for those that are not known.
    bases
        What is added to indices of each page.
    starts
        The first row of each page, and what follows the last.
    """

    __slots__ = ("_bases", "_kinds", "_pages", "_starts")

    def __init__(self, pages: Sequence[PageTake | None], bases: Sequence[int], starts: Numbers) -> None:
        self._pages = [None if each is None else each.page for each in pages]
        self._kinds = np.array([0 if each is None else each.kind for each in pages], np.int64)
        self._bases = np.array(bases, np.int64)
        self._starts = starts

    def take(
        self, rows: Numbers, targets: Numbers, out: pa.Buffer, *, begin: int = 0
    ) -> tuple[int, int, int]:
        """Return where it stopped: the number of a row and of its page, and what is wrong with that.

        See `row_take.take_rows`.
        """
        room = np.frombuffer(out, np.uint8) if out.size else _NO_BYTES
        pages, starts = self._pages, self._starts
        return row_take.take_rows(pages, self._kinds, self._bases, starts, rows, targets, begin, room)


def whole_page(data: pa.Buffer, width: int, data_type: pa.DataType) -> PageTake:
    """Return how values that lie back to back are taken."""
    stored = np.frombuffer(data, np.uint8) if data.size else _NO_BYTES
    page = Page(stored, _NO_CHUNKS, _NO_CHUNKS, 0, 0, width, _NO_BYTES, -1, width)
    return PageTake(row_take.WHOLE, page, data_type)
