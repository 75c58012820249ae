"""The columns of 2.0 files: a tree like the schema, in which leaves and lists have pages.

Spec: file format 2.x, 3.1. Each field is a column of its own: leaves hold values, lists hold the ends of
their items, structs hold row counts. The pages of items are independent of the pages of the lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.encodings.arrays import concat_arrays, empty_array, list_array, struct_array, variable_array
from lance_df.encodings.buffers import bitmap
from lance_df.encodings.flat.page import select
from lance_df.encodings.loaded_page import Form, read_rows
from lance_df.encodings.plan import RowRange, together
from lance_df.encodings.rows import joined_starts, rows_of_spans, split_rows
from lance_df.encodings.v2_0.build import build_decoder, build_end_positions
from lance_df.encodings.v2_0.page_run import StoredPage, kind_of, read_run
from lance_df.encodings.variable.ends import Spans
from lance_df.errors import CorruptDataError
from lance_df.file.io import named, named_errors, run_plan
from lance_df.file.v2.page_groups import SMALL_BYTES, form_of_parts, grouped, in_order, rows_of_run
from lance_df.file.v2.read_ahead import pages_ahead
from lance_df.file.v2.resident_column import ResidentColumn
from lance_df.format.encodings_v2_0 import AllNulls, ListOffsets

if TYPE_CHECKING:
    from lance_df.encodings.decoder import Decoder
    from lance_df.encodings.loaded_page import LoadedPage
    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.encodings.variable.ends import EndPositions
    from lance_df.file.read_options import ReadOptions
    from lance_df.file.v2.page_groups import Part
    from lance_df.file.v2.pages_2_0 import ColumnPages
    from lance_df.storage import ByteRange


class Column(Protocol):
    """A column that can be read by row number."""

    @property
    def num_rows(self) -> int: ...

    def read(self, rows: Rows, options: ReadOptions) -> IoPlan[pa.Array]:
        """Plan to read ``rows``, all of which must exist."""
        ...

    def page_starts(self) -> npt.NDArray[np.int64]:
        """Return the rows at which pages start, as far as they are known without reading."""
        ...

    def page_bytes(self) -> list[tuple[int, int]]:
        """Return (first row, stored bytes) of each page; for pages of items, the rows are estimates."""
        ...


@dataclass(slots=True)
class LeafColumn:
    """Values in pages."""

    pages: ColumnPages
    data_type: pa.DataType
    resident: ResidentColumn | None = field(init=False)
    _decoders: dict[int, Decoder] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.resident = (
            ResidentColumn(self.pages.starts.tolist(), self._load_whole, self.pages.page_label)
            if self.pages.source.is_memory_mapped
            else None
        )

    @property
    def num_rows(self) -> int:
        return self.pages.num_rows

    def read(self, rows: Rows, options: ReadOptions, form: Form = Form.PLAIN) -> IoPlan[pa.Array]:
        """Plan to read ``rows``, possibly in another form; see `Column` of 2.1 files."""
        parts = list(split_rows(rows, self.pages.starts))
        groups = grouped(parts, self._kind_of if options.page_runs else None)
        form = form_of_parts(form, rows, len(parts), len(groups), mapped=self.pages.source.is_memory_mapped)
        arrays = yield from together(
            [self._read_group([parts[part] for part in group], form) for group in groups]
        )
        return in_order(concat_arrays(arrays, arrays[0].type if arrays else self.data_type), parts, groups)

    def ahead(self, rows: Rows) -> Iterator[ByteRange]:
        """Yield the ranges that the plan for these rows would request in several steps."""
        yield from pages_ahead(split_rows(rows, self.pages.starts), self.pages.infos)

    def page_starts(self) -> npt.NDArray[np.int64]:
        return self.pages.starts[:-1]

    def page_bytes(self) -> list[tuple[int, int]]:
        return self.pages.stored_bytes()

    def _kind_of(self, number: int) -> object | None:
        """Return a key that small pages of one group share, or None if the page is decoded by itself."""
        page = self.pages.page(number)
        if sum(buffer.num_bytes for buffer in page.buffers) > SMALL_BYTES:
            return None
        return kind_of(self.pages.encoding(number))

    def _read_group(self, parts: Sequence[Part], form: Form) -> IoPlan[pa.Array]:
        (number, rows), *others = parts
        if not others:
            with named_errors(self.pages.page_label(number)):
                page, within = yield from self._decoder(number).load(rows)
                return read_rows(page, within, form)
        with named_errors(f"{self.pages.page_label(number)} to {others[-1][0]}"):
            pages = [
                StoredPage(
                    self.pages.encoding(number), self.pages.page(number).num_rows, self.pages.buffers(number)
                )
                for number, _ in parts
            ]
            values = yield from read_run(pages, self.data_type)
            return select(values, rows_of_run(parts, [page.num_values for page in pages]))

    def _decoder(self, number: int) -> Decoder:
        if number not in self._decoders:
            self._decoders[number] = build_decoder(
                self.pages.encoding(number),
                self.data_type,
                self.pages.page(number).num_rows,
                self.pages.buffers(number),
            )
        return self._decoders[number]

    def _load_whole(self, number: int) -> LoadedPage | None:
        return run_plan(self.pages.source, self._decoder(number).whole())


@dataclass(slots=True)
class StructColumn:
    """Children of equal length. There are no null structs in 2.0."""

    data_type: pa.DataType
    num_rows: int
    children: Sequence[Column]

    def read(self, rows: Rows, options: ReadOptions) -> IoPlan[pa.Array]:
        children = yield from together([child.read(rows, options) for child in self.children])
        return struct_array(self.data_type, len(rows), children)

    def page_starts(self) -> npt.NDArray[np.int64]:
        return joined_starts(child.page_starts() for child in self.children)

    def page_bytes(self) -> list[tuple[int, int]]:
        return [page for child in self.children for page in child.page_bytes()]


@dataclass(slots=True)
class PackedColumn:
    """Some children of a packed struct, given by their indices in the stored rows."""

    data_type: pa.DataType
    stored: LeafColumn
    indices: Sequence[int]

    @property
    def num_rows(self) -> int:
        return self.stored.num_rows

    def read(self, rows: Rows, options: ReadOptions) -> IoPlan[pa.Array]:
        packed = yield from self.stored.read(rows, options)
        return struct_array(self.data_type, len(rows), [packed.field(index) for index in self.indices])

    def page_starts(self) -> npt.NDArray[np.int64]:
        return self.stored.page_starts()

    def page_bytes(self) -> list[tuple[int, int]]:
        return self.stored.page_bytes()


class ListColumn:
    """The pages of the ends of lists; the items are a column of their own."""

    def __init__(self, pages: ColumnPages, data_type: pa.DataType, items: Column) -> None:
        self._pages = pages
        self._data_type = data_type
        self._items = items
        self._ends: dict[int, EndPositions] = {}
        self._item_starts = self._count_items()

    @property
    def num_rows(self) -> int:
        return self._pages.num_rows

    def read(self, rows: Rows, options: ReadOptions) -> IoPlan[pa.Array]:
        parts = yield from together(
            [
                named(self._pages.page_label(number), self._read_spans(number, within))
                for number, within in split_rows(rows, self._pages.starts)
            ]
        )
        if not parts:
            return empty_array(self._data_type)
        if len(parts) == 1 and (bounds := parts[0].bounds) is not None:
            wanted: Rows = RowRange(int(bounds[0]), int(bounds[-1]))
            ends = bounds - bounds[0]
        else:
            starts = np.concatenate([spans.starts for spans in parts])
            lengths = np.concatenate([spans.ends for spans in parts]) - starts
            wanted = rows_of_spans(starts, lengths)
            ends = np.concatenate([[0], np.cumsum(lengths)])
        items = yield from self._items.read(wanted, options)
        return list_array(self._data_type, ends, items, _join_validity(parts))

    def page_starts(self) -> npt.NDArray[np.int64]:
        return self._pages.starts[:-1]

    def page_bytes(self) -> list[tuple[int, int]]:
        items = self._items.page_bytes()
        rows = np.interp([first for first, _ in items], self._item_starts, self._pages.starts)
        estimated = zip(rows.astype(np.int64).tolist(), (size for _, size in items), strict=True)
        return [*self._pages.stored_bytes(), *estimated]

    def _count_items(self) -> npt.NDArray[np.int64]:
        """Return the first item of each page, followed by the total number of items."""
        counts = [self._num_items(number) for number in range(len(self._pages))]
        if sum(counts) > self._items.num_rows:
            raise CorruptDataError(
                f"{self._pages.label}: the lists have {sum(counts)} items, but the column of items has "
                f"{self._items.num_rows}"
            )
        return np.cumsum([0, *counts], dtype=np.int64)

    def _num_items(self, number: int) -> int:
        encoding = self._pages.encoding(number)
        return encoding.num_items if isinstance(encoding, ListOffsets) else 0

    def _read_spans(self, number: int, rows: Rows) -> IoPlan[Spans]:
        """Plan to read the start and end of lists in the column of items."""
        encoding = self._pages.encoding(number)
        base = self._item_starts[number]
        if isinstance(encoding, AllNulls):
            positions = np.full(len(rows), base, np.int64)
            return Spans(positions, positions, np.zeros(len(rows), np.bool_))
        if not isinstance(encoding, ListOffsets):
            raise CorruptDataError(f"expected list offsets, found encoding {type(encoding).__name__}")
        if number not in self._ends:
            self._ends[number] = build_end_positions(
                encoding.offsets,
                encoding.null_offset_adjustment,
                self._pages.page(number).num_rows,
                self._pages.buffers(number),
            )
        spans = yield from self._ends[number].read(rows, limit=encoding.num_items)
        return spans.shifted(int(base))


@dataclass(slots=True)
class ListedText:
    """Strings or binaries that are stored as lists of bytes; pre-releases of 0.13 wrote them."""

    data_type: pa.DataType
    lists: ListColumn

    @property
    def num_rows(self) -> int:
        return self.lists.num_rows

    def read(self, rows: Rows, options: ReadOptions) -> IoPlan[pa.Array]:
        lists = yield from self.lists.read(rows, options)
        ends = lists.offsets.to_numpy().astype(np.int64, copy=False)
        valid, _ = lists.buffers()[:2]
        _, data = lists.values.buffers()
        return variable_array(self.data_type, ends, data, valid)

    def page_starts(self) -> npt.NDArray[np.int64]:
        return self.lists.page_starts()

    def page_bytes(self) -> list[tuple[int, int]]:
        return self.lists.page_bytes()


def holds_lists(pages: ColumnPages) -> bool:
    """Whether the pages of a column hold the ends of lists."""
    encodings = map(pages.encoding, range(len(pages)))
    first = next((each for each in encodings if not isinstance(each, AllNulls)), None)
    return isinstance(first, ListOffsets)


def _join_validity(parts: Sequence[Spans]) -> pa.Buffer | None:
    if all(spans.valid is None for spans in parts):
        return None
    return bitmap(
        np.concatenate(
            [np.ones(len(spans.ends), np.bool_) if spans.valid is None else spans.valid for spans in parts]
        )
    )
