"""Read a column of a file in memory page by page, without plans. See `encodings.loaded_page`."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import concat_arrays
from lance_df.encodings.loaded_page import Form
from lance_df.encodings.plan import RowRange
from lance_df.errors import LanceError
from lance_df.file.io import named_errors
from lance_df.file.v2.page_groups import MANY_PAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from lance_df.encodings.loaded_page import LoadedPage, RowReader
    from lance_df.encodings.page_take import PageTake
    from lance_df.encodings.plan import RowPositions, Rows
    from lance_df.format.schema import Field

    RangeReader: TypeAlias = Callable[[int, int], pa.Array | None]


def forms_of(fields: Sequence[Field], *, keep_dictionaries: bool, views: Collection[Field]) -> list[Form]:
    """Return the forms that the arrays of fields may have; see `FileReader.read`."""
    form = Form.DICTIONARY if keep_dictionaries else Form.PLAIN
    return [form | Form.VIEWS if field in views else form for field in fields]


def read_resident(
    columns: Sequence[ResidentColumn | None], rows: Rows, forms: Sequence[Form]
) -> list[pa.Array | None]:
    """Return the rows of each column, or None for columns that need a plan."""
    if not isinstance(rows, RowRange):
        return [
            None if column is None else column.take(rows, form)
            for column, form in zip(columns, forms, strict=True)
        ]
    start, stop = rows.start, rows.stop
    return [
        None if column is None else column.reader(form)(start, stop)
        for column, form in zip(columns, forms, strict=True)
    ]


# many pages with few rows each are read together
_FEW_ROWS = 4096
_SAID_OF_PAGES = (LanceError, pa.ArrowException, MemoryError)


class ResidentColumn:
    """The pages of one leaf; each is opened when its rows are first read.

    Parameters
    ----------
    starts
        The first row of each page, followed by the total number of rows.
    open_page
        Returns the page with a number, or None if only plans can read it.
    label
        Returns the name of a page in messages.
    """

    __slots__ = ("_bounds", "_label", "_open_page", "_pages", "_readers", "_starts")

    def __init__(
        self,
        starts: Sequence[int],
        open_page: Callable[[int], LoadedPage | None],
        label: Callable[[int], str],
    ) -> None:
        self._starts = starts
        self._bounds = np.array(starts, np.int64)
        self._open_page = open_page
        self._label = label
        self._pages: dict[int, LoadedPage | None] = {}
        self._readers: dict[Form, RangeReader] = {}

    def reader(self, form: Form) -> RangeReader:
        """Return a function that reads the rows from a first to a last (exclusive) one in one form.

        It is made once, and several threads may call it. It returns None if the rows need a plan.
        Dictionaries are kept only for rows of a single page.
        """
        if form not in self._readers:
            self._readers[form] = self._make_reader(form)
        return self._readers[form]

    def _make_reader(self, form: Form) -> RangeReader:
        starts, opened = self._starts, dict[int, "RowReader | None"]()

        def read(start: int, stop: int) -> pa.Array | None:
            number = bisect_right(starts, start) - 1
            if start >= stop or starts[number + 1] < stop:
                return self._read_pages(number, start, stop, form) if start < stop else None
            first = starts[number]
            try:
                if number not in opened:
                    page = self._page(number)
                    opened[number] = None if page is None else page.reader(form)
                read_page = opened[number]
                return None if read_page is None else read_page(start - first, stop - first)
            except _SAID_OF_PAGES:
                with named_errors(self._label(number)):
                    raise

        return read

    def take(self, rows: RowPositions, form: Form) -> pa.Array | None:
        """Return single rows, or None if they need a plan."""
        if not len(rows):
            return None
        starts = self._starts
        first, last = bisect_right(starts, int(rows[0])) - 1, bisect_right(starts, int(rows[-1])) - 1
        if first == last:
            return self._take_of(first, rows, form)
        if last - first >= MANY_PAGES and starts[-1] < _FEW_ROWS * len(starts):
            return None
        cuts = rows.searchsorted(self._bounds[first : last + 2]).tolist()
        parts = []
        for number, low, high in zip(range(first, last + 1), cuts, cuts[1:], strict=False):
            if low == high:
                continue
            part = self._take_of(number, rows[low:high], Form.PLAIN)
            if part is None:
                return None
            parts.append(part)
        return concat_arrays(parts, parts[0].type)

    @property
    def starts(self) -> Sequence[int]:
        """The first row of each page, followed by the total number of rows."""
        return self._starts

    def page_take(self, number: int) -> PageTake | None:
        """Return the object by which kernels take single rows of a page, or None if they cannot."""
        with named_errors(self._label(number)):
            page = self._page(number)
            return None if page is None else page.page_take()

    def label(self, number: int) -> str:
        """Return the name of a page in messages."""
        return self._label(number)

    def _take_of(self, number: int, rows: RowPositions, form: Form) -> pa.Array | None:
        try:
            page = self._page(number)
            return None if page is None else page.take(rows - self._starts[number], form)
        except _SAID_OF_PAGES:
            with named_errors(self._label(number)):
                raise

    def _read_pages(self, number: int, start: int, stop: int, form: Form) -> pa.Array | None:
        starts = self._starts
        last = bisect_right(starts, stop - 1)
        if last - number >= MANY_PAGES:
            return None
        read, parts = self.reader(form & ~Form.DICTIONARY), []
        for low, high in zip(starts[number:last], starts[number + 1 : last + 1], strict=True):
            if low == high:
                continue
            part = read(max(start, low), min(stop, high))
            if part is None:
                return None
            parts.append(part)
        return concat_arrays(parts, parts[0].type)

    def _page(self, number: int) -> LoadedPage | None:
        if number not in self._pages:
            self._pages[number] = self._open_page(number)
        return self._pages[number]
