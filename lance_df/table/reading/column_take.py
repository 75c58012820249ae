"""Single rows of a column in memory, taken from all pages of a table by one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from lance_df.cache import Footprint
from lance_df.encodings.gather import take
from lance_df.encodings.kernels import pick_map
from lance_df.encodings.picks import pick
from lance_df.file.io import named_errors
from lance_df.forks import new_lock
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_df.encodings.picks import Numbers, PagePicks
    from lance_df.file.resident_column import ResidentColumn
    from lance_df.format.schema import Field
    from lance_df.table.reading.fragment_reader import FragmentReader
    from lance_df.table.table import Table

OFFSET_BITS: Final = 32
# where there are more, each page is read by itself
_MAX_PAGES: Final = 16_384
_MAX_DICTIONARY_VALUES: Final = 65_536
_INDEX_BYTES = 4
# of a column, and of each of its pages
_COLUMN_BYTES = 2 * 1024
_PAGE_BYTES = 1024


@dataclass(frozen=True, slots=True)
class _Page:
    """A page; without a column, a fragment whose pages are not known yet.

    Attributes
    ----------
    place, first
        Of the fragment in the list of the table, and the first row of the page in it.
    number
        Of the page in its column.
    picks
        None until a row of the page is asked for.
    base
        Its first dictionary value among those of all pages.
    """

    place: int
    first: int = 0
    column: ResidentColumn | None = None
    number: int = 0
    picks: PagePicks | None = None
    base: int = 0


class _Pages:
    """What is known of the pages of a column; nothing of it changes."""

    __slots__ = ("dictionary", "entries", "pages", "picks", "starts")

    def __init__(self, pages: tuple[_Page, ...], dictionary: pa.Array | None) -> None:
        self.pages = pages
        self.dictionary = dictionary
        self.picks = next((page.picks for page in pages if page.picks is not None), None)
        closed = [pick_map.CLOSED, 0, 0]
        entries = [closed if page.picks is None else page.picks.entries(page.base) for page in pages]
        self.entries = np.array(entries, np.int64)
        starts = [page.place << OFFSET_BITS | page.first for page in pages]
        self.starts = np.array([*starts, pages[-1].place + 1 << OFFSET_BITS], np.int64)

    def replaced(self, number: int, pages: Iterable[_Page], dictionary: pa.Array | None) -> _Pages | None:
        """Return others with some instead of one; None for too many."""
        now = (*self.pages[:number], *pages, *self.pages[number + 1 :])
        return _Pages(now, dictionary) if len(now) <= _MAX_PAGES else None

    def place_for(self, count: int) -> pa.Buffer:
        """Return room for so many values, once a page is open."""
        assert self.picks is not None
        return pa.allocate_buffer(count * (_INDEX_BYTES if self.picks.coded else self.picks.width))

    def array(self, data: pa.Buffer, count: int) -> pa.Array:
        """Return what was picked."""
        assert self.picks is not None
        if self.dictionary is not None:
            return take(self.dictionary, np.frombuffer(data, np.uint32, count).astype(np.int64))
        return pa.Array.from_buffers(self.picks.data_type, count, [None, data], 0)


class ColumnTake:
    """A leaf of a table in memory. May be used by many threads.

    Pages are opened when a row of them is first asked for.

    Parameters
    ----------
    table
        Has fragments.

    Attributes
    ----------
    footprint
        Counts the memory that this takes beside its data files.
    """

    def __init__(self, table: Table, field: Field) -> None:
        self._table = table
        self._field = field
        self._lock = new_lock()
        self._readers: dict[int, FragmentReader] = {}
        self.footprint = Footprint(_COLUMN_BYTES)
        self._pages: _Pages | None = _Pages(tuple(map(_Page, range(len(table.fragments)))), None)

    def take(self, rows: Numbers, places: Numbers) -> pa.Array | None:
        """Return single rows, which exist, each at its place; None where they are to be read page by page.

        Parameters
        ----------
        rows
            Ascending, some: the place of a fragment, and `OFFSET_BITS` of the physical row.

        Raises
        ------
        CorruptDataError
            A file contradicts the format.
        """
        pages, begin, data = self._pages, 0, None
        while pages is not None:
            if pages.picks is None:
                pages = self._opened(pages, int(pages.starts.searchsorted(rows[0], "right")) - 1)
                continue
            data = data or pages.place_for(len(rows))
            found, state = pick(pages.entries, pages.starts, rows, places, data, begin=begin)
            if found == pick_map.DONE:
                array = pages.array(data, len(rows))
                # who reads page by page finds out whether those rows are deleted
                return None if array.null_count and not self._field.nullable else array
            begin, number = int(state[pick_map.ROW]), int(state[pick_map.PAGE])
            page = pages.pages[number]
            if page.column is not None and page.picks is not None:
                with named_errors(page.column.label(page.number)):
                    raise page.picks.error(found, state)
            pages = self._opened(pages, number)
        return None

    def _opened(self, pages: _Pages, number: int) -> _Pages | None:
        """Return what is known with one more fragment or page; None where kernels do not pick its rows."""
        with self._lock:
            if self._pages is pages:  # no other thread has come first
                page = pages.pages[number]
                self._pages = (
                    self._with_fragment(pages, number) if page.column is None else _with_page(pages, number)
                )
            return self._pages

    def is_counted(self) -> bool:
        """Return whether the data files that this holds open are still in the cache; counts them as used."""
        return all(reader.is_counted() for reader in list(self._readers.values()))

    def _with_fragment(self, pages: _Pages, number: int) -> _Pages | None:
        place = pages.pages[number].place
        reader = self._readers[place] = self._table.fragment_reader(place)
        column = reader.resident_column(self._field)
        if column is None:
            return None
        starts = column.starts[:-1]
        opened = [_Page(place, first, column, at) for at, first in enumerate(starts)]
        self.footprint.add(_PAGE_BYTES * len(opened))
        return pages.replaced(number, opened, pages.dictionary)


def _with_page(pages: _Pages, number: int) -> _Pages | None:
    page = pages.pages[number]
    assert page.column is not None
    picks, known, dictionary = page.column.picks(page.number), pages.picks, pages.dictionary
    if picks is None or (known is not None and (known.coded is None) != (picks.coded is None)):
        return None
    base = 0 if dictionary is None else len(dictionary)
    if picks.coded is None:
        if known is not None and picks.data_type != known.data_type:
            return None
    else:
        values = picks.coded.values
        if base + len(values) > _MAX_DICTIONARY_VALUES or (dictionary and dictionary.type != values.type):
            return None
        dictionary = values if dictionary is None else pa.concat_arrays([dictionary, values])
    opened = _Page(page.place, page.first, page.column, page.number, picks, base)
    return pages.replaced(number, [opened], dictionary)
