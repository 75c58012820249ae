"""Values of fixed width of mini-block pages in memory, and values that only the decoder of a page reads."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from lance_df.encodings import kernels
from lance_df.encodings.arrays import concat_arrays
from lance_df.encodings.gather import take
from lance_df.encodings.kernels import page_map, pick_map
from lance_df.encodings.picks import PagePicks
from lance_df.encodings.v2_1.buffers import Chunked
from lance_df.encodings.v2_1.resident_chunks import Chunks
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lance_df.encodings.plan import RowPositions
    from lance_df.encodings.resident import CodedValues, Form, LookupTable, RowReader
    from lance_df.encodings.v2_1.buffers import Counts
    from lance_df.encodings.v2_1.mini_block import MiniBlockPage

    Wrap: TypeAlias = Callable[[int, pa.Buffer], pa.Array]

_BLOCK = 1024
_MAX_RUN = 255


@dataclass(frozen=True, slots=True)
class GeneralValues:
    """Whatever the decoder of the page can do."""

    chunks: Chunks
    decoder: MiniBlockPage
    is_coded: bool

    dense: ClassVar[int] = 4

    def reader(self, form: Form) -> RowReader:
        """See `Values`."""
        del form
        return self.chunks.by_chunk(self._read)

    def _read(self, first: int, last: int) -> pa.Array:
        chunks = self.chunks
        buffers = zip(*chunks.values(first, last), strict=True)
        stored = self.decoder.decode_stored(
            tuple(Chunked(chunks.data, starts, sizes) for starts, sizes in buffers),
            chunks.counts(first, last),
        )
        return stored if self.is_coded else self.decoder.finish_values(stored)

    def take(self, rows: RowPositions) -> pa.Array:
        """Decode whole chunks, each run of neighbours by itself."""
        items = self.chunks.items
        chunk_of_row = self.chunks.chunks_of(rows)
        cuts = np.flatnonzero(np.diff(chunk_of_row) > 1) + 1
        parts = []
        for part in np.split(np.arange(len(rows)), cuts):
            first, last = int(chunk_of_row[part[0]]), int(chunk_of_row[part[-1]])
            found = self._read(first, last + 1)
            parts.append(take(found, rows[part] - int(items[first])))
        return concat_arrays(parts, parts[0].type)


@dataclass(frozen=True, slots=True)
class FlatValues:
    """Values back to back in each chunk."""

    chunks: Chunks
    data_type: pa.DataType
    width: int

    dense: ClassVar[int] = 4

    def reader(self, form: Form) -> RowReader:
        """See `Values`."""
        del form
        most, page = len(self.chunks.data) // self.width, self.chunks.map(self.width)
        return _reader(self, kernels.read_flat, page, most, partial(_plain, self.data_type))

    def take(self, rows: RowPositions) -> pa.Array:
        """See `Values`."""
        return self.picks().take(rows)

    def picks(self) -> PagePicks:
        """Return how kernels pick single values."""
        return _picks(self, pick_map.FLAT)


@dataclass(frozen=True, slots=True)
class PackedValues:
    """A bit-packed block in each chunk."""

    chunks: Chunks
    data_type: pa.DataType
    width: int

    dense: ClassVar[int] = 16

    def reader(self, form: Form) -> RowReader:
        """See `Values`."""
        del form
        return self._reader(self.chunks.map(self.width), partial(_plain, self.data_type))

    def index_reader(self, coded: CodedValues, wrap: Wrap) -> RowReader:
        """Return a reader of what indices, none of them null, are wrapped in."""
        width, size = coded.index_width(), len(coded.values)
        return self._reader(self.chunks.map(self.width, table_size=size, out_width=width), wrap, coded)

    def value_reader(self, coded: CodedValues, table: LookupTable) -> RowReader:
        """Return a reader of the values that indices, none of them null, mean."""
        page = self.chunks.map(self.width, table=table.address, table_size=table.size, out_width=table.width)
        return self._reader(page, partial(_plain, table.data_type, shared=table.shared), coded, table)

    def _reader(
        self, page: Counts, wrap: Wrap, coded: CodedValues | None = None, table: LookupTable | None = None
    ) -> RowReader:
        kernel = getattr(kernels, f"read_packed_{8 * self.width}")
        return _reader(self, kernel, page, _BLOCK * (len(self.chunks.items) - 1), wrap, coded, table)

    def take(self, rows: RowPositions) -> pa.Array:
        """See `Values`."""
        return self.picks().take(rows)

    def picks(self) -> PagePicks:
        """Return how kernels pick single values."""
        return _picks(self, pick_map.PACKED)


@dataclass(frozen=True, slots=True)
class RunValues:
    """Values and the lengths of their runs in each chunk."""

    chunks: Chunks
    data_type: pa.DataType
    width: int

    dense: ClassVar[int] = 8

    def reader(self, form: Form) -> RowReader:
        """See `Values`."""
        del form
        kernel, page = getattr(kernels, f"read_runs_{8 * self.width}"), self.chunks.map(self.width)
        return _reader(self, kernel, page, _MAX_RUN * len(self.chunks.data), partial(_plain, self.data_type))

    def take(self, rows: RowPositions) -> pa.Array:
        """See `Values`."""
        return self.picks().take(rows)

    def picks(self) -> PagePicks:
        """Return how kernels pick single values."""
        return _picks(self, pick_map.RUNS)


def _reader(
    values: FlatValues | PackedValues | RunValues,
    kernel: Callable[[int, int, int, int], int],
    page: Counts,
    most: int,
    wrap: Wrap,
    coded: CodedValues | None = None,
    table: LookupTable | None = None,
) -> RowReader:
    """Return what has a kernel of `page_rows` read rows of a page.

    Parameters
    ----------
    values, coded, table
        Kept as long as the reader: ``page`` has their addresses.
    most
        The chunks have no more values, whatever the file says.
    wrap
        Makes an array of what the kernel writes.
    """
    address, width, allocate = page.ctypes.data, int(page[page_map.OUT_WIDTH]), pa.allocate_buffer
    keep = (page, values, table)

    def read(start: int, stop: int) -> pa.Array:
        count = stop - start
        if count > most:
            raise CorruptDataError(f"{keep[1].chunks.data.size} bytes do not hold {count} values")
        data = allocate(count * width)
        broken = kernel(address, start, stop, data.address)
        if broken == -1:
            return wrap(count, data)
        if coded is not None and broken < 0:
            raise coded.beyond(-2 - broken)
        raise CorruptDataError(f"chunk {broken} does not hold its values")

    return read


def _picks(values: FlatValues | PackedValues | RunValues, kind: int) -> PagePicks:
    return PagePicks(kind, values.chunks.map(values.width), values.data_type, keep=values)


def _plain(data_type: pa.DataType, count: int, data: pa.Buffer, shared: Sequence[pa.Buffer] = ()) -> pa.Array:
    return pa.Array.from_buffers(data_type, count, [None, data, *shared], 0)
