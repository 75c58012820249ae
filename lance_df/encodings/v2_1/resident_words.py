"""Values of fixed width of mini-block pages in memory, and values that only the decoder of a page reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from lance_df.encodings import kernels
from lance_df.encodings.arrays import concat_arrays
from lance_df.encodings.gather import take
from lance_df.encodings.resident import Form
from lance_df.encodings.v2_1.buffers import Chunked
from lance_df.encodings.v2_1.resident_chunks import Chunks, check
from lance_df.encodings.v2_1.values import INDEX_TYPES
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_df.encodings.plan import RowPositions
    from lance_df.encodings.v2_1.mini_block import MiniBlockPage

_BLOCK = 1024
_MAX_RUN = 255


@dataclass(frozen=True, slots=True)
class GeneralValues:
    """Whatever the decoder of the page can do."""

    chunks: Chunks
    decoder: MiniBlockPage
    is_coded: bool

    dense: ClassVar[int] = 4

    def read(self, first: int, last: int, form: Form) -> pa.Array:
        """See `Values`."""
        del form
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
            found = self.read(first, last + 1, Form.PLAIN)
            parts.append(take(found, rows[part] - int(items[first])))
        return concat_arrays(parts, parts[0].type)


@dataclass(frozen=True, slots=True)
class FlatValues:
    """Values back to back in each chunk."""

    chunks: Chunks
    data_type: pa.DataType
    width: int

    dense: ClassVar[int] = 4

    def read(self, first: int, last: int, form: Form) -> pa.Array:
        """See `Values`."""
        del form
        count = self.chunks.count(first, last)
        if count * self.width > len(self.chunks.data):
            raise CorruptDataError(f"chunks {first} to {last - 1} do not hold their values")
        data = pa.allocate_buffer(count * self.width)
        self.chunks.read_by(kernels.copy_flat, first, last, self.width, np.frombuffer(data, np.uint8))
        return pa.Array.from_buffers(self.data_type, count, [None, data], 0)

    def take(self, rows: RowPositions) -> pa.Array:
        """See `Values`."""
        return _take(kernels.take_flat, self.chunks, self.data_type, self.width, rows)


@dataclass(frozen=True, slots=True)
class PackedValues:
    """A bit-packed block in each chunk."""

    chunks: Chunks
    data_type: pa.DataType
    width: int
    is_coded: bool

    dense: ClassVar[int] = 16

    def read(self, first: int, last: int, form: Form) -> pa.Array:
        """See `Values`. Indices come in the narrowest words that they fit into."""
        del form
        chunks = self.chunks
        found = np.empty((3, last - first), np.int64)
        chunks.read_by(kernels.packed_blocks, first, last, self.width, found)
        first_words, widths, counts = found
        width, data_type = self.width, self.data_type
        if self.is_coded:
            width = next(each for each in (1, 2, 4, 8) if widths.max(initial=0) <= 8 * each)
            data_type = INDEX_TYPES[8 * width]
        count = chunks.count(first, last)
        data = pa.allocate_buffer((count + _BLOCK) * width)
        kernels.unpack_blocks(
            chunks.words(f"<u{self.width}"), first_words, widths, counts, np.frombuffer(data, f"<u{width}")
        )
        return pa.Array.from_buffers(data_type, count, [None, data], 0)

    def take(self, rows: RowPositions) -> pa.Array:
        """See `Values`."""
        chunks, word = self.chunks, f"<u{self.width}"
        data = pa.allocate_buffer(len(rows) * self.width)
        wide = int(chunks.layout.has_large_chunk)
        check(
            kernels.take_packed(
                chunks.data,
                chunks.words(word),
                chunks.positions,
                chunks.items,
                chunks.levels,
                wide,
                rows,
                np.frombuffer(data, word),
            )
        )
        return pa.Array.from_buffers(self.data_type, len(rows), [None, data], 0)


@dataclass(frozen=True, slots=True)
class RunValues:
    """Values and the lengths of their runs in each chunk."""

    chunks: Chunks
    data_type: pa.DataType
    width: int

    dense: ClassVar[int] = 8

    def read(self, first: int, last: int, form: Form) -> pa.Array:
        """See `Values`."""
        del form
        chunks, counts = self.chunks, self.chunks.counts(first, last)
        (value_starts, length_starts), (value_sizes, num_runs) = chunks.values(first, last)
        np.minimum(num_runs, value_sizes // self.width, out=num_runs)
        if (counts > num_runs * _MAX_RUN).any():
            raise CorruptDataError(f"chunks {first} to {last - 1} do not hold their values")
        count = int(counts.sum())
        data = pa.allocate_buffer(count * self.width)
        broken = kernels.expand_runs(
            chunks.words(f"<u{self.width}"),
            value_starts // self.width,
            chunks.data,
            length_starts,
            num_runs,
            counts,
            np.frombuffer(data, f"<u{self.width}"),
        )
        check(-1 if broken < 0 else first + broken)
        return pa.Array.from_buffers(self.data_type, count, [None, data], 0)

    def take(self, rows: RowPositions) -> pa.Array:
        """See `Values`."""
        return _take(kernels.take_runs, self.chunks, self.data_type, self.width, rows)


def _take(
    kernel: Callable[..., int], chunks: Chunks, data_type: pa.DataType, width: int, rows: RowPositions
) -> pa.Array:
    data = pa.allocate_buffer(len(rows) * width)
    out = np.frombuffer(data, np.uint8)
    wide = int(chunks.layout.has_large_chunk)
    check(kernel(chunks.data, chunks.positions, chunks.items, chunks.levels, wide, width, rows, out))
    return pa.Array.from_buffers(data_type, len(rows), [None, data], 0)
