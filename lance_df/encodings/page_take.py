"""Take single rows, none of them null, from many pages in memory by one call of compiled code."""

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
    """Takes single rows of a page.

    Attributes
    ----------
    kind
        How the values are stored; see `row_take`.
    page
        The page in the form that kernels take.
    data_type
        The stored type: of values, or of indices.
    coded
        The values that indices refer to.
    """

    kind: int
    page: Page
    data_type: pa.DataType
    coded: CodedValues | None = None

    @property
    def width(self) -> int:
        """The number of bytes of a stored value."""
        return self.page.width

    def decoding(self, coded: CodedValues) -> PageTake:
        """Return the same object for indices into values."""
        return PageTake(self.kind, self.page.with_table_size(len(coded.values)), self.data_type, coded)

    def take(self, rows: RowPositions) -> pa.Array:
        """Return single rows, which must exist, as stored.

        Raises
        ------
        CorruptDataError
            The page does not have these rows.
        """
        count = len(rows)
        data = pa.allocate_buffer(count * self.width)
        *_, wrong = PagesTake([self], [0], _ALL_ROWS).take(rows, np.arange(count), data)
        if wrong != -1:
            raise self.error(wrong)
        return pa.Array.from_buffers(self.data_type, count, [None, data], 0)

    def error(self, wrong: int) -> CorruptDataError:
        """Return the error for a result of the kernel: the number of a chunk, or -2 less an index."""
        if wrong < 0 and self.coded is not None:
            return self.coded.beyond(-2 - wrong)
        return CorruptDataError(f"chunk {wrong} is corrupt, its buffers do not match its number of values")


# the first row of a single page, and a number beyond all of its rows
_ALL_ROWS = np.array([0, np.iinfo(np.int64).max])


class PagesTake:
    """Takes single rows of many pages, whose values have the same width.

    Parameters
    ----------
    pages
        The pages; None for unknown ones.
    bases
        The number to add to the indices of each page.
    starts
        The first row of each page, followed by the end of the last page.
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
        """Return where the kernel stopped: the number of a row, the number of its page, and the error.

        See `row_take.take_rows`.
        """
        room = np.frombuffer(out, np.uint8) if out.size else _NO_BYTES
        pages, starts = self._pages, self._starts
        return row_take.take_rows(pages, self._kinds, self._bases, starts, rows, targets, begin, room)


def whole_page(data: pa.Buffer, width: int, data_type: pa.DataType) -> PageTake:
    """Return the object by which kernels take values that are stored back to back."""
    stored = np.frombuffer(data, np.uint8) if data.size else _NO_BYTES
    page = Page(stored, _NO_CHUNKS, _NO_CHUNKS, 0, 0, width, _NO_BYTES, -1, width)
    return PageTake(row_take.WHOLE, page, data_type)
