"""Read the pages of one column of a 2.1 or 2.2 file as one sequence of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import concat_arrays
from lance_df.encodings.levels.nested import empty_path_array, path_array
from lance_df.encodings.loaded_page import Form, read_rows
from lance_df.encodings.plan import RowRange, together
from lance_df.encodings.rows import item_rows, split_rows
from lance_df.encodings.v2_1.page import open_page
from lance_df.encodings.v2_1.page_run import CommonLayout, PageRun, common_layout, decode_run
from lance_df.errors import CorruptDataError
from lance_df.file.footprints import OPEN_PAGE_BYTES
from lance_df.file.io import named_errors, run_plan
from lance_df.file.v2.page_groups import (
    MANY_PAGES,
    SMALL_BYTES,
    form_of_parts,
    grouped,
    in_order,
    rows_of_run,
)
from lance_df.file.v2.read_ahead import pages_ahead
from lance_df.file.v2.resident_column import ResidentColumn
from lance_df.format.encodings_v2_1 import MiniBlockLayout
from lance_df.format.page_layout_messages import parse_page_layout, split_page_layout

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from lance_df.cache import Footprint
    from lance_df.encodings.layouts.page_decoder import PageDecoder
    from lance_df.encodings.levels.shape import Leaf
    from lance_df.encodings.loaded_page import LoadedPage
    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.file.read_options import ReadOptions
    from lance_df.file.v2.container import Container
    from lance_df.file.v2.joined_files import JoinedContainer
    from lance_df.file.v2.page_groups import Part
    from lance_df.format.encodings_v2_1 import PageLayout
    from lance_df.storage import ByteRange

_KnownLayouts: TypeAlias = dict[tuple[bytes, int, int], CommonLayout | None]

_MAX_ROWS: Final = 2**62
# Two bytes of the chunk table become two 64-bit numbers; dictionaries may be compressed, and kept as views.
_TABLE_GROWTH: Final = 8
_DICTIONARY_GROWTH: Final = 4


class Column:
    """The pages of one column; each is opened when its rows are first read.

    Attributes
    ----------
    row_starts
        The first row of each page, followed by the total number of rows. Items of fixed-size lists of structs
        count as rows.
    page_bytes
        The stored bytes of each page.
    resident
        The same pages for reading without plans, if the file is in memory and the leaf has no ancestors.
    """

    def __init__(self, container: Container | JoinedContainer, leaf: Leaf, footprint: Footprint) -> None:
        self._footprint = footprint
        self._info = container.column(leaf.column)
        self._label = f"{container.path}: column {leaf.name!r}"
        self._stored_type = leaf.stored_type
        self._source = container.source
        self._mapped = container.source.is_memory_mapped
        self._pages: dict[int, PageDecoder] = {}
        self._common: _KnownLayouts = {}
        self._run: PageRun | None = None
        self._is_run: bool | None = None
        counts = [0, *self._info.page_rows()]
        expected = container.num_rows * leaf.page_rows_per_row
        if (sum(counts) != expected and not leaf.is_empty_struct) or sum(counts) > _MAX_ROWS:
            raise CorruptDataError(f"{self._label}: the pages have {sum(counts)} rows, expected {expected}")
        self.row_starts: npt.NDArray[np.int64] = np.cumsum(np.array(counts, np.int64))
        self.resident = (
            ResidentColumn(self.row_starts.tolist(), self._load_whole, self._page_label)
            if self._mapped and not leaf.ancestors and leaf.selected_children is None
            else None
        )
        self.page_bytes = self._info.page_bytes()

    def read(self, leaf: Leaf, rows: Rows, options: ReadOptions, form: Form = Form.PLAIN) -> IoPlan[pa.Array]:
        """Plan to read the values of ``rows``, with all ancestors of the leaf.

        A leaf without ancestors may be read in another form: as a dictionary if one page has all rows, and as
        views if the rows are a range of a mapped file.
        """
        may_join = options.page_runs and leaf.page_rows_per_row == 1
        if may_join and self._is_whole(rows) and (run := self._all_pages()) is not None:
            return (yield from self._plan_run(leaf, run, rows, f"{self._label}, all pages"))
        parts = list(split_rows(item_rows(rows, leaf.page_rows_per_row), self.row_starts))
        if not parts:
            return empty_path_array(leaf.stored_type, leaf.ancestors)
        groups = grouped(parts, self._layout if may_join else None)
        form = form_of_parts(form, rows, len(parts), len(groups), mapped=self._mapped)
        arrays = yield from together(
            [self._plan([parts[part] for part in group], leaf, form) for group in groups]
        )
        with named_errors(self._label):
            values = concat_arrays(arrays, arrays[0].type)
            return in_order(values, parts, groups)

    def _layout(self, number: int) -> PageLayout | None:
        common = self._common_layout(number, self._common)
        return None if common is None else common.layout

    def _common_layout(self, number: int, known: _KnownLayouts) -> CommonLayout | None:
        """Return the layout that a small page shares with others, or None if it is decoded by itself."""
        if self.page_bytes[number] > SMALL_BYTES:
            return None
        page = self._info.distinct[self._info.kinds[number]]
        key = (page.encoding, len(page.buffers), page.num_rows)
        if key not in known:
            with named_errors(f"{self._label}, page {number}"):
                layout, value = split_page_layout(page.encoding_url, page.encoding, source="page encoding")
            known[key] = common_layout(layout, value, len(page.buffers), page.num_rows)
        return known[key]

    def _plan(self, parts: Sequence[Part], leaf: Leaf, form: Form) -> IoPlan[pa.Array]:
        (number, rows), *others = parts
        run = self._page_run([number for number, _ in parts], self._common) if others else None
        if run is None:
            with named_errors(f"{self._label}, page {number}"):
                page, rows = yield from self._open(number).load(rows)
                if leaf.ancestors:
                    return path_array(page.slots(rows), leaf.ancestors)
                return read_rows(page, rows, form)
        label = f"{self._label}, pages {number} to {others[-1][0]}"
        return (yield from self._plan_run(leaf, run, rows_of_run(parts, run.num_rows), label))

    def _plan_run(self, leaf: Leaf, run: PageRun, rows: Rows, label: str) -> IoPlan[pa.Array]:
        with named_errors(label):
            slots = yield from decode_run(run, rows, self._stored_type, mapped=self._mapped)
            return path_array(slots, leaf.ancestors)

    def ahead(self, leaf: Leaf, rows: Rows) -> Iterator[ByteRange]:
        """Yield the ranges that the plan for these rows would request in several steps."""
        parts = split_rows(item_rows(rows, leaf.page_rows_per_row), self.row_starts)
        yield from pages_ahead((part for part in parts if part[0] not in self._pages), self._info.pages)

    def _is_whole(self, rows: Rows) -> bool:
        return isinstance(rows, RowRange) and (rows.start, rows.stop) == (0, int(self.row_starts[-1]))

    def _all_pages(self) -> PageRun | None:
        """Return all pages as one run, or None if they are few or differ."""
        if self._is_run is None:
            # a map of its own, since `_common` would keep the values of many constant pages a second time
            known: _KnownLayouts = {}
            numbers = range(len(self._info.pages))
            self._run = self._page_run(numbers, known) if len(numbers) >= MANY_PAGES else None
            self._is_run = self._run is not None
        return self._run

    def _page_run(self, numbers: Sequence[int], known: _KnownLayouts) -> PageRun | None:
        """Return pages as one run, or None if their layouts differ."""
        kinds = [self._info.kinds[number] for number in numbers]
        layouts: dict[int, CommonLayout] = {}
        layout = None
        for number, kind in zip(numbers, kinds, strict=True):
            if kind in layouts:
                continue
            common = self._common_layout(number, known)
            if common is None:
                return None
            if layout is None:
                layout = common.layout
            # most layouts are the same object
            if common.layout is not layout and common.layout != layout:
                return None
            layouts[kind] = common
        if layout is None:
            return None
        indices = np.array(numbers)
        return PageRun(
            layout,
            self._info.spans(numbers),
            self.row_starts[indices + 1] - self.row_starts[indices],
            [layouts[kind].value for kind in kinds],
        )

    def _load_whole(self, number: int) -> LoadedPage | None:
        return run_plan(self._source, self._open(number).whole())

    def _page_label(self, number: int) -> str:
        return f"{self._label}, page {number}"

    def _open(self, number: int) -> PageDecoder:
        page = self._pages.get(number)
        if page is None:
            info = self._info.pages[number]
            layout = parse_page_layout(info.encoding_url, info.encoding, source="page encoding")
            page = open_page(layout, info.buffers, info.num_rows, self._stored_type, mapped=self._mapped)
            self._pages[number] = page
            self._footprint.add(OPEN_PAGE_BYTES + _state_bytes(layout, info.buffers))
        return page


def _state_bytes(layout: PageLayout, buffers: Sequence[ByteRange]) -> int:
    """Return an upper estimate of the decoded state of a page: its chunk table and its dictionary."""
    if not isinstance(layout, MiniBlockLayout):
        return 0
    sizes = [buffer.num_bytes for buffer in buffers]
    return _TABLE_GROWTH * sum(sizes[:1]) + _DICTIONARY_GROWTH * sum(sizes[2:])
