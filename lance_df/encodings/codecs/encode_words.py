"""Choose the encoding of the numbers of a page: plain, bit-packed or runs, compressed or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.encodings.bitpacked.encode import bitpacking_cutter
from lance_df.encodings.buffers import Chunked
from lance_df.encodings.encode_chunks import (
    ChunkBuffer,
    ChunkedValues,
    ValueCutter,
    value_cutter,
)
from lance_df.encodings.general import codecs as compression
from lance_df.encodings.leaf_values import FixedValues
from lance_df.encodings.rle.encode import count_runs, rle_cutter
from lance_df.format.encodings_v2_1 import ByteStreamSplit, General

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.codecs.encode_options import Compression, EncodingOptions

WORD_BYTES = (1, 2, 4, 8)
_SPLIT_BYTES = (4, 8)
_SPLIT_ENTROPY_BITS = 4.0
_SAMPLE_WORDS = 64 * 1024
_MIN_COMPRESSED_BYTES = 4 * 1024


def word_cutter(values: FixedValues, options: EncodingOptions) -> ValueCutter:
    """Return the encoding, without compression, that needs the least space for values (at least one)."""
    plain = value_cutter(values)
    if options.is_plain or values.width_bytes not in WORD_BYTES or values.row_encoding is not None:
        return plain
    num_runs = count_runs(values.words)
    runs = rle_cutter(values.words, num_runs)
    if options.run_threshold is None:
        return min(plain, bitpacking_cutter(values.words), runs, key=lambda cutter: cutter.num_bytes)
    if num_runs < len(values) * options.run_threshold:
        return runs
    return min(plain, bitpacking_cutter(values.words), key=lambda cutter: cutter.num_bytes)


def compressed_cutter(
    cutter: ValueCutter, values: FixedValues | None, options: EncodingOptions
) -> ValueCutter:
    """Return ``cutter`` with the compression that is asked for around it, or around the split bytes of
    ``values``; where it does not help, values are stored without it.
    """
    wanted = options.compression
    if wanted is None:
        return cutter
    inner = cutter
    if values is not None and _splits(values, options):
        inner = ValueCutter(cutter.chunk_items, lambda items: _split_bytes(values, items), len(values.data))

    def cut(items: int) -> ChunkedValues:
        compressed = _compress(inner.cut(items), wanted)
        return cutter.cut(items) if compressed is None else compressed

    return ValueCutter(inner.chunk_items, cut, inner.num_bytes)


def _compress(chunked: ChunkedValues, wanted: Compression) -> ChunkedValues | None:
    """Compress the first buffer of each chunk."""
    first, *rest = chunked.buffers
    if first.num_bytes < _MIN_COMPRESSED_BYTES:
        return None
    plain = first.joined().data
    stops = np.cumsum(first.sizes).tolist()
    pieces = [
        compression.compress(wanted.scheme, plain[start:stop], level=wanted.level)
        for start, stop in zip([0, *stops], stops, strict=False)
    ]
    data = np.frombuffer(b"".join(pieces), np.uint8)
    if len(data) >= first.num_bytes:
        return None
    sizes = np.array([len(piece) for piece in pieces], np.int64)
    compressed = ChunkBuffer.of(Chunked.consecutive(data, sizes))
    return ChunkedValues(General(wanted.scheme, wanted.level, chunked.encoding), (compressed, *rest))


def _splits(values: FixedValues, options: EncodingOptions) -> bool:
    if values.width_bytes not in _SPLIT_BYTES or values.row_encoding or options.split_bytes == "off":
        return False
    return options.split_bytes == "on" or _mean_entropy(values) < _SPLIT_ENTROPY_BITS


def _mean_entropy(values: FixedValues) -> float:
    """Return the mean entropy per byte, in bits, with the statistics of each byte position kept apart."""
    rows = values.data.reshape(-1, values.width_bytes)
    rows = rows[:: max(1, len(rows) // _SAMPLE_WORDS)]
    return float(np.mean([_entropy(rows[:, byte_index]) for byte_index in range(values.width_bytes)]))


def _entropy(data: npt.NDArray[np.uint8]) -> float:
    shares = np.bincount(data, minlength=256) / len(data)
    shares = shares[shares > 0]
    return float(-(shares * np.log2(shares)).sum())


def _split_bytes(values: FixedValues, items: int) -> ChunkedValues:
    """Store byte 0 of all values of a chunk, then byte 1 of all values, and so on."""
    width = values.width_bytes
    rows = values.data.reshape(-1, width)
    whole = len(rows) // items * items
    parts = [
        np.ascontiguousarray(rows[:whole].reshape(-1, items, width).transpose(0, 2, 1)).reshape(-1),
        np.ascontiguousarray(rows[whole:].T).reshape(-1),
    ]
    plain = value_cutter(values).cut(items)
    sizes = plain.buffers[0].sizes
    return ChunkedValues(
        ByteStreamSplit(plain.encoding), (ChunkBuffer.of(Chunked.consecutive(np.concatenate(parts), sizes)),)
    )
