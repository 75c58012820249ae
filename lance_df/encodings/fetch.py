"""Request the values of single rows in a buffer of equal-width values.

A range of rows is returned as a view of the bytes that were read. Single rows are gathered: nearby rows share
a byte range, which limits both the number of ranges and the bytes read between them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.encodings import kernels
from lance_df.encodings.buffers import bitmap
from lance_df.encodings.gather import take_words
from lance_df.encodings.kernels import variable
from lance_df.encodings.plan import RowRange
from lance_df.errors import CorruptDataError
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    from lance_df.encodings.plan import IoPlan, RowPositions, Rows

# A page of memory: the machine reads the bytes between such near rows anyway.
_NEAR_BYTES = 4 * 1024
# With more ranges in one buffer, gaps are read as a remote store would do.
_MANY_RANGES = 256
_FAR_BYTES = 256 * 1024

# If at least one in this many rows is wanted, everything between the rows is read.
_DENSE = 4

_NOTHING = np.empty(0, np.uint8)
_WORDS: dict[int, np.dtype[Any]] = {
    1: np.dtype("u1"),
    2: np.dtype("<u2"),
    4: np.dtype("<u4"),
    8: np.dtype("<u8"),
}


def check_size(buffer: ByteRange, num_values: int, bits_per_value: int, what: str) -> None:
    """Raise CorruptDataError if ``buffer`` is too small for the values."""
    needed = (num_values * bits_per_value + 7) // 8
    if needed > buffer.num_bytes:
        raise CorruptDataError(
            f"{what}: {num_values} values of {bits_per_value} bits take {needed} bytes, but the buffer has "
            f"{buffer.num_bytes}"
        )


def fetch_fixed(buffer: ByteRange, width: int, rows: Rows) -> IoPlan[pa.Buffer]:
    """Return the values of ``rows`` back to back.

    Parameters
    ----------
    buffer
        A buffer of values of ``width`` bytes. The caller has checked that the rows lie within it.
    width
        The number of bytes of a value.
    rows
        The rows, ascending.
    """
    if isinstance(rows, RowRange):
        (data,) = yield [ByteRange(buffer.start + rows.start * width, buffer.start + rows.stop * width)]
        return data
    if not len(rows):
        return pa.py_buffer(b"")
    cuts = _cut_at_gaps(rows, width)
    parts = yield [
        ByteRange(buffer.start + int(rows[low]) * width, buffer.start + (int(rows[high - 1]) + 1) * width)
        for low, high in cuts
    ]
    if len(cuts) == 1:
        return take_words(parts[0], width, rows - rows[0])
    word: np.dtype[Any] = _WORDS.get(width) or np.dtype(f"V{width}")
    out = np.empty(len(rows), word)
    for (low, high), part in zip(cuts, parts, strict=True):
        np.take(np.frombuffer(part, word), rows[low:high] - rows[low], out=out[low:high], mode="clip")
    return pa.py_buffer(out)


def fetch_spans(
    within: ByteRange, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> IoPlan[tuple[npt.NDArray[np.int64], pa.Buffer]]:
    """Return spans of bytes back to back: first 0 and the end of each span, then the data.

    Parameters
    ----------
    within
        The range from whose start the positions count.
    starts, ends
        Ascending spans that do not overlap. The caller has checked that they lie within ``within``.
    """
    if not len(starts):
        return np.zeros(1, np.int64), pa.py_buffer(b"")
    cuts = _cut_spans(starts, ends)
    parts = yield [
        ByteRange(within.start + int(starts[low]), within.start + int(ends[high - 1])) for low, high in cuts
    ]
    pieces = [
        take_spans(part, starts[low:high] - starts[low], ends[low:high] - starts[low])
        for (low, high), part in zip(cuts, parts, strict=True)
    ]
    if len(pieces) == 1:
        return pieces[0]
    joined = np.concatenate([np.frombuffer(data, np.uint8) for _, data in pieces if data.size] or [_NOTHING])
    return _ends_of(ends - starts), pa.py_buffer(joined)


def take_spans(
    data: pa.Buffer, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], pa.Buffer]:
    """Return spans like `fetch_spans`, of bytes that are in memory."""
    lengths = ends - starts
    bounds = _ends_of(lengths)
    total = int(bounds[-1])
    if not total:
        return bounds, pa.py_buffer(b"")
    if not kernels.COMPILED:
        return _take_spans(data, starts, ends)
    out = pa.allocate_buffer(total)
    source = np.frombuffer(data, np.uint8)
    starts = np.ascontiguousarray(starts)
    variable.copy_spans(source, starts, lengths, np.frombuffer(out, np.uint8), bounds[:-1])
    return bounds, out


def _ends_of(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return 0, then the end of each value when values are stored back to back."""
    bounds = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    return bounds


def _take_spans(
    part: pa.Buffer, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], pa.Buffer]:
    """Take the spans as every other value of an array whose other values are the gaps between them."""
    if not len(starts):
        return np.zeros(1, np.int64), pa.py_buffer(b"")
    edges = np.stack([starts, ends], axis=1).reshape(-1)
    everything = pa.Array.from_buffers(
        pa.large_binary(), len(edges) - 1, [None, pa.py_buffer(edges), part], null_count=0
    )
    values = everything.take(pa.array(np.arange(0, len(edges), 2)))
    offsets = np.frombuffer(values.buffers()[1], np.int64, len(values) + 1)
    return offsets, values.buffers()[2] or pa.py_buffer(b"")


def fetch_bits(buffer: ByteRange, rows: Rows) -> IoPlan[pa.Buffer]:
    """Return the bits of ``rows`` as a bitmap that starts at bit 0 of its first byte."""
    if isinstance(rows, RowRange):
        first, stop = rows.start // 8, (rows.stop + 7) // 8
        (data,) = yield [ByteRange(buffer.start + first, buffer.start + stop)]
        return data if rows.start % 8 == 0 else _shift_down(data, rows.start % 8)
    in_bytes, byte_index = np.unique(rows >> 3, return_inverse=True)
    data = yield from fetch_fixed(buffer, 1, in_bytes)
    bits = (np.frombuffer(data, np.uint8)[byte_index] >> (rows & 7).astype(np.uint8)) & np.uint8(1)
    return bitmap(bits.astype(np.uint8, copy=False))


def _shift_down(bitmap: pa.Buffer, by: int) -> pa.Buffer:
    data = np.frombuffer(bitmap, np.uint8)
    shifted = data >> np.uint8(by)
    shifted[:-1] |= data[1:] << np.uint8(8 - by)
    return pa.py_buffer(shifted)


def _cut_at_gaps(rows: RowPositions, width: int) -> list[tuple[int, int]]:
    """Return (first, stop) indices into ``rows`` for each row slice that is read as one range."""
    if int(rows[-1]) - int(rows[0]) < _DENSE * len(rows):
        return [(0, len(rows))]
    starts = rows * width
    return _cut_spans(starts, starts + width)


def _cut_spans(starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    gaps = starts[1:] - ends[:-1]
    cuts = np.flatnonzero(gaps > _NEAR_BYTES)
    if len(cuts) >= _MANY_RANGES:
        cuts = np.flatnonzero(gaps > _FAR_BYTES)
    edges = [0, *(cuts + 1).tolist(), len(starts)]
    return list(pairwise(edges))
