"""Encode runs of equal words as chunks and as blocks. Format: docs/format/rle.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.encodings.buffers import Chunked
from lance_df.encodings.encode_chunks import (
    ChunkBuffer,
    ChunkedValues,
    ValueCutter,
    chunk_ends,
)
from lance_df.format.encodings_v2_1 import Flat, Rle
from lance_df.records import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.buffers import Counts

_MAX_RUN = 255
_CHUNK_ITEMS = 2048


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs of at most 255 words; chunk i has ``counts[i]`` of them."""

    values: npt.NDArray[np.unsignedinteger]
    lengths: npt.NDArray[np.uint8]
    counts: Counts

    @property
    def encoding(self) -> Rle:
        return Rle(Flat(self.values.itemsize * 8), Flat(8))

    @property
    def value_spans(self) -> Chunked:
        return Chunked.consecutive(self.values.view(np.uint8), self.counts * self.values.itemsize)

    @property
    def length_spans(self) -> Chunked:
        return Chunked.consecutive(self.lengths, self.counts)


def count_runs(words: npt.NDArray[np.unsignedinteger]) -> int:
    """Return the number of runs of equal words, with no limit on their length."""
    return int(np.count_nonzero(words[1:] != words[:-1])) + 1


def rle_cutter(words: npt.NDArray[np.unsignedinteger], num_runs: int) -> ValueCutter:
    """Return a cutter that stores words (at least one) as runs; ``num_runs`` is from :func:`count_runs`."""

    def cut(items: int) -> ChunkedValues:
        runs = _split(words, chunk_ends(len(words), items))
        return ChunkedValues(
            runs.encoding, (ChunkBuffer.of(runs.value_spans), ChunkBuffer.of(runs.length_spans))
        )

    num_bytes = (num_runs + len(words) // _MAX_RUN) * (words.itemsize + 1)
    return ValueCutter(_CHUNK_ITEMS, cut, num_bytes)


def rle_blocks(words: npt.NDArray[np.unsignedinteger], ends: Counts) -> tuple[Rle, ChunkBuffer]:
    """Store words as one block for each chunk: the size of the values, the values, the lengths."""
    runs = _split(words, ends)
    sizes = (runs.counts * words.itemsize).astype("<u8")
    heads = Chunked.consecutive(sizes.view(np.uint8), np.full(len(ends), 8, np.int64))
    return runs.encoding, ChunkBuffer.of(heads, runs.value_spans, runs.length_spans)


def _split(words: npt.NDArray[np.unsignedinteger], ends: Counts) -> _Runs:
    """Split words into runs, none of which crosses the end of a chunk."""
    begins = np.ones(len(words), np.bool_)
    np.not_equal(words[1:], words[:-1], out=begins[1:])
    begins[ends[:-1]] = True
    (starts,) = np.nonzero(begins)
    lengths = np.diff(starts, append=len(words))
    pieces = -(-lengths // _MAX_RUN)
    piece_ends = np.cumsum(pieces)
    short = np.full(int(piece_ends[-1]), _MAX_RUN, np.uint8)
    short[piece_ends - 1] = lengths - (pieces - 1) * _MAX_RUN
    runs_before = np.concatenate([[0], piece_ends])[np.searchsorted(starts, ends)]
    return _Runs(np.repeat(words[starts], pieces), short, np.diff(runs_before, prepend=0))
