"""Take single rows of a column in memory from all pages of a table, in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_df.cache import Footprint
from lance_df.encodings.gather import take
from lance_df.encodings.page_take import PagesTake
from lance_df.file.io import named_errors
from lance_df.forks import new_lock
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_df.encodings.page_take import Numbers, PageTake
    from lance_df.file.v2.resident_column import ResidentColumn
    from lance_df.format.schema import Field
    from lance_df.table.reading.fragment_reader import FragmentReader
    from lance_df.table.table import Table

OFFSET_BITS: Final = 32
# with more, each page is read by itself
_MAX_PAGES: Final = 16_384
_MAX_DICTIONARY_VALUES: Final = 65_536
_INDEX_BYTES = 4
# memory of a column, and of each of its pages
_COLUMN_BYTES = 2 * 1024
_PAGE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class _Page:
    """A page; without a column, a fragment whose pages are not known yet.

    Attributes
    ----------
    fragment, first
        The fragment's position in the list of the table, and the first row of the page in it.
    number
        The number of the page in its column.
    page_take
        None until a row of the page is needed.
    base
        The position of its first dictionary value among those of all pages.
    """

    fragment: int
    first: int = 0
    column: ResidentColumn | None = None
    number: int = 0
    page_take: PageTake | None = None
    base: int = 0


class _Pages:
    """The known pages of a column; immutable."""

    __slots__ = ("all", "dictionary", "page_take", "pages", "starts")

    def __init__(self, pages: tuple[_Page, ...], dictionary: pa.Array | None) -> None:
        self.pages = pages
        self.dictionary = dictionary
        self.page_take = next((page.page_take for page in pages if page.page_take is not None), None)
        starts = [page.fragment << OFFSET_BITS | page.first for page in pages]
        self.starts = np.array([*starts, pages[-1].fragment + 1 << OFFSET_BITS], np.int64)
        self.all = PagesTake([page.page_take for page in pages], [page.base for page in pages], self.starts)

    def replaced(self, number: int, pages: Iterable[_Page], dictionary: pa.Array | None) -> _Pages | None:
        """Return a copy in which one page is replaced by the given ones; None if there would be too many."""
        now = (*self.pages[:number], *pages, *self.pages[number + 1 :])
        return _Pages(now, dictionary) if len(now) <= _MAX_PAGES else None

    def allocate_values(self, count: int) -> pa.Buffer:
        """Allocate memory for the given number of values; a page must be open."""
        assert self.page_take is not None
        return pa.allocate_buffer(count * (_INDEX_BYTES if self.page_take.coded else self.page_take.width))

    def array(self, data: pa.Buffer, count: int) -> pa.Array:
        """Return the taken values as an array."""
        assert self.page_take is not None
        if self.dictionary is not None:
            return take(self.dictionary, np.frombuffer(data, np.uint32, count).astype(np.int64))
        return pa.Array.from_buffers(self.page_take.data_type, count, [None, data], 0)


class ColumnTake:
    """Takes rows of a leaf of a table in memory. Threads may share it.

    Pages are opened when a row of them is needed for the first time.

    Parameters
    ----------
    table
        Has fragments.

    Attributes
    ----------
    footprint
        Counts the memory that this takes besides its data files.
    """

    def __init__(self, table: Table, field: Field) -> None:
        self._table = table
        self._field = field
        self._lock = new_lock()
        self._readers: dict[int, FragmentReader] = {}
        self.footprint = Footprint(_COLUMN_BYTES)
        self._pages: _Pages | None = _Pages(tuple(map(_Page, range(len(table.fragments)))), None)

    def take(self, rows: Numbers, targets: Numbers) -> pa.Array | None:
        """Return single existing rows at their target positions; None if they must be read page by page.

        Parameters
        ----------
        rows
            Ascending and not empty: the position of a fragment, and in the low `OFFSET_BITS` the physical
            row.

        Raises
        ------
        CorruptDataError
            A file contradicts the format.
        """
        pages, begin, data = self._pages, 0, None
        while pages is not None:
            if pages.page_take is None:
                pages = self._opened(pages, int(pages.starts.searchsorted(rows[0], "right")) - 1)
                continue
            data = data or pages.allocate_values(len(rows))
            begin, number, wrong = pages.all.take(rows, targets, data, begin=begin)
            if begin == len(rows):
                array = pages.array(data, len(rows))
                # reading page by page checks whether those rows are deleted
                return None if array.null_count and not self._field.nullable else array
            page = pages.pages[number]
            if page.column is not None and page.page_take is not None:
                with named_errors(page.column.label(page.number)):
                    raise page.page_take.error(wrong)
            pages = self._opened(pages, number)
        return None

    def _opened(self, pages: _Pages, number: int) -> _Pages | None:
        """Open one more fragment or page; return None if the kernels cannot take its rows."""
        with self._lock:
            if self._pages is pages:  # no other thread was faster
                page = pages.pages[number]
                self._pages = (
                    self._with_fragment(pages, number) if page.column is None else _with_page(pages, number)
                )
            return self._pages

    def is_counted(self, known: dict[FragmentReader, bool]) -> bool:
        """Return whether the open data files are still in the cache; mark them as used.

        Parameters
        ----------
        known
            The results for fragments so far, for all columns of one take; new results are added.
        """
        for reader in list(self._readers.values()):
            is_counted = known.get(reader)
            if is_counted is None:
                is_counted = known[reader] = reader.is_counted()
            if not is_counted:
                return False
        return True

    def _with_fragment(self, pages: _Pages, number: int) -> _Pages | None:
        fragment = pages.pages[number].fragment
        reader = self._readers[fragment] = self._table.fragment_reader(fragment)
        column = reader.resident_column(self._field)
        if column is None:
            return None
        starts = column.starts[:-1]
        opened = [_Page(fragment, first, column, at) for at, first in enumerate(starts)]
        self.footprint.add(_PAGE_BYTES * len(opened))
        return pages.replaced(number, opened, pages.dictionary)


def _with_page(pages: _Pages, number: int) -> _Pages | None:
    page = pages.pages[number]
    assert page.column is not None
    page_take, known, dictionary = page.column.page_take(page.number), pages.page_take, pages.dictionary
    if page_take is None or (known is not None and (known.coded is None) != (page_take.coded is None)):
        return None
    base = 0 if dictionary is None else len(dictionary)
    if page_take.coded is None:
        if known is not None and page_take.data_type != known.data_type:
            return None
    else:
        values = page_take.coded.values
        if base + len(values) > _MAX_DICTIONARY_VALUES or (dictionary and dictionary.type != values.type):
            return None
        dictionary = values if dictionary is None else pa.concat_arrays([dictionary, values])
    opened = _Page(page.fragment, page.first, page.column, page.number, page_take, base)
    return pages.replaced(number, [opened], dictionary)
