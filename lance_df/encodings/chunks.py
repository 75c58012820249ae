"""Chunks of values in memory: the position of their buffers, and readers of their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from lance_df.encodings.buffers import Bytes, Counts
from lance_df.encodings.kernels import pages
from lance_df.encodings.kernels.pages import Page
from lance_df.encodings.page_take import PageTake
from lance_df.encodings.rows import as_positions, as_rows, shift_rows
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lance_df.encodings.dictionary.coded_values import CodedValues
    from lance_df.encodings.loaded_page import Form, RowReader
    from lance_df.encodings.plan import RowPositions, Rows
    from lance_df.format.encodings_v2_1 import MiniBlockLayout

    Wrap: TypeAlias = Callable[[int, pa.Buffer], pa.Array]


_NO_BYTES = np.empty(0, np.uint8)


class Values(Protocol):
    """Decodes the values of a page: indices stay indices, and nulls have arbitrary values.

    Attributes
    ----------
    dense
        If at least one in this many rows is wanted, decoding all rows is faster than taking single ones.
    """

    dense: ClassVar[int]

    def reader(self, form: Form) -> RowReader:
        """Return a reader of the values from a first to a last (exclusive). Strings may be views."""
        ...

    def take(self, rows: RowPositions) -> pa.Array:
        """Return single values."""
        ...


@dataclass(frozen=True, slots=True)
class Chunks:
    """The start of each chunk and the end of the last one, and the first value of each chunk."""

    data: Bytes
    positions: Counts
    items: Counts
    layout: MiniBlockLayout

    @property
    def levels(self) -> int:
        """The number of level buffers before the values."""
        return (self.layout.repetition is not None) + (self.layout.definition is not None)

    def find(self, chunks: Counts) -> tuple[Counts, Counts]:
        """Return the starts and the sizes of the buffers of chunks: a row for each buffer, levels first."""
        num_buffers = self.levels + self.layout.num_buffers
        if 2 * num_buffers * len(chunks) > len(self.data):
            raise CorruptDataError(
                f"{len(chunks)} chunks with {num_buffers} buffers each do not fit into {len(self.data)} bytes"
            )
        starts, sizes = np.empty((2, num_buffers, len(chunks)), np.int64)
        check(pages.chunk_buffers(self.page(1), chunks, starts, sizes))
        return starts, sizes

    def page(
        self, width: int, *, table: Bytes | None = None, table_size: int = -1, out_width: int = 0
    ) -> Page:
        """Return the page in the form that kernels take; it keeps the chunks alive."""
        return Page(
            self.data,
            self.positions,
            self.items,
            self.levels,
            int(self.layout.has_large_chunk),
            width,
            _NO_BYTES if table is None else table,
            table_size,
            out_width or width,
        )

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return the first chunk of a range of rows, and the end (exclusive) of its chunks."""
        return int(self.items.searchsorted(start, "right")) - 1, int(self.items.searchsorted(stop, "left"))

    def counts(self, chunks: Counts) -> Counts:
        """Return the number of values of each chunk."""
        return self.items[chunks + 1] - self.items[chunks]

    def chunks_of(self, rows: RowPositions) -> Counts:
        """Return the chunk of each row."""
        return self.items.searchsorted(rows, "right") - 1

    def rows_of(self, chunks: Counts, positions: Rows) -> Rows:
        """Return the rows at positions, at least one, that count only values of some chunks. See `locate`."""
        counts = self.counts(chunks)
        before = np.cumsum(counts) - counts
        shifts = self.items[chunks] - before
        if (shifts == shifts[0]).all():
            return shift_rows(positions, int(shifts[0]))
        positions = as_positions(positions)
        return as_rows(positions + shifts[before.searchsorted(positions, "right") - 1])

    def locate(self, rows: RowPositions) -> tuple[Counts, Counts]:
        """Return the chunks that contain rows, and the positions of the rows within these chunks."""
        if len(rows) > 1 and (rows[1:] >= rows[:-1]).all():
            first = int(self.items.searchsorted(rows[0], "right")) - 1
            last = int(self.items.searchsorted(rows[-1], "right")) - 1
            in_chunk = np.diff(rows.searchsorted(self.items[first : last + 2]))
            numbers = np.flatnonzero(in_chunk)
            in_chunk, numbers = in_chunk[numbers], numbers + first
            counts = self.counts(numbers)
            return numbers, rows + np.repeat(np.cumsum(counts) - counts - self.items[numbers], in_chunk)
        numbers, index = np.unique(self.chunks_of(rows), return_inverse=True)
        counts = self.counts(numbers)
        return numbers, rows + (np.cumsum(counts) - counts - self.items[numbers])[index]

    def words(self, word: str) -> np.ndarray[Any, np.dtype[Any]]:
        """Return the whole of ``data`` as words."""
        width = int(word[-1])
        return self.data[: len(self.data) // width * width].view(word)


def check(broken: int) -> None:
    """Raise `CorruptDataError` if a kernel has found a broken chunk."""
    if broken >= 0:
        raise CorruptDataError(f"chunk {broken} is corrupt, its buffers do not match its number of values")


def kernel_reader(
    kernel: Callable[[Page, int, int, Bytes], int],
    page: Page,
    most: int,
    wrap: Wrap,
    coded: CodedValues | None = None,
) -> RowReader:
    """Return a reader that calls a kernel of `pages` for rows of a page.

    Parameters
    ----------
    most
        The most values that the chunks can have, whatever the file claims.
    wrap
        Makes an array from the output of the kernel.
    coded
        The values in which the kernel looks indices up.
    """
    width = page.out_width

    def read(start: int, stop: int) -> pa.Array:
        count = stop - start
        if count > most:
            raise CorruptDataError(f"cannot read {count} values from chunks with room for {most}")
        data = pa.allocate_buffer(count * width)
        broken = kernel(page, start, stop, np.frombuffer(data, np.uint8))
        if broken == -1:
            return wrap(count, data)
        if coded is not None and broken < 0:
            raise coded.beyond(-2 - broken)
        raise CorruptDataError(f"chunk {broken} is corrupt, its buffers do not match its number of values")

    return read


def plain_array(
    data_type: pa.DataType, count: int, data: pa.Buffer, shared: Sequence[pa.Buffer] = ()
) -> pa.Array:
    """Return an array without nulls from the output of a kernel."""
    return pa.Array.from_buffers(data_type, count, [None, data, *shared], 0)


@dataclass(frozen=True, slots=True)
class WordValues:
    """Values of 1, 2, 4, 8 or more whole bytes, of which kernels can take single ones.

    Attributes
    ----------
    data_type, width
        The type of the values, and their size in bytes.
    kind
        How they are stored; see `row_take`.
    """

    chunks: Chunks
    data_type: pa.DataType
    width: int

    kind: ClassVar[int]

    def take(self, rows: RowPositions) -> pa.Array:
        """See `Values`."""
        return self.page_take().take(rows)

    def page_take(self) -> PageTake:
        """Return the object by which kernels take single values."""
        return PageTake(self.kind, self.chunks.page(self.width), self.data_type)
