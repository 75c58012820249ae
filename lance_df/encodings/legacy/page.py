"""The input of decoders of 0.1: ranges of rows of some pages, or single values of many pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.encodings.buffers import bitmap
from lance_df.encodings.fetch import fetch_bits, fetch_fixed, fetch_spans
from lance_df.encodings.plan import RowRange, together
from lance_df.encodings.rows import item_rows
from lance_df.errors import CorruptDataError
from lance_df.records import dataclass
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    from lance_df.encodings.plan import IoPlan


@dataclass(frozen=True, slots=True)
class RowSlice:
    """The wanted ``rows`` of the page at ``position``, which has ``num_values`` values.

    Every page must end before ``stop``, the size of the file.
    """

    position: int
    num_values: int
    stop: int
    rows: RowRange

    def bytes_of(self, num_values: int, bits: int) -> ByteRange:
        """Return the range of ``num_values`` values; raises CorruptDataError if it leaves the file."""
        stop = self.position + (num_values * bits + 7) // 8
        if not 0 <= self.position <= stop <= self.stop:
            raise CorruptDataError(
                f"a page of {num_values} values of {bits} bits at byte {self.position} is out of range, the "
                f"file has {self.stop} bytes"
            )
        return ByteRange(self.position, stop)


@dataclass(frozen=True, slots=True)
class Points:
    """Single values: for each, its row within the page that starts at ``positions``; all exist."""

    positions: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    stop: int

    def offsets(self, bits: int) -> npt.NDArray[np.int64]:
        """Return the position of each value, in bits from the start of the file.

        Raises
        ------
        CorruptDataError
            A value ends outside the file.
        """
        if (self.rows >= self.stop * 8 // max(bits, 1)).any() or (self.positions > self.stop).any():
            raise self._outside(bits)
        offsets = self.positions * 8 + self.rows * bits
        if (offsets + bits > self.stop * 8).any():
            raise self._outside(bits)
        return offsets

    def _outside(self, bits: int) -> CorruptDataError:
        return CorruptDataError(f"values of {bits} bits are out of range, the file has {self.stop} bytes")


Wanted: TypeAlias = Sequence[RowSlice] | Points


def count_values(wanted: Wanted) -> int:
    """Return the number of wanted values."""
    if isinstance(wanted, Points):
        return len(wanted.rows)
    return sum(len(row_slice.rows) for row_slice in wanted)


def fetch_values(wanted: Wanted, bits: int) -> IoPlan[pa.Buffer]:
    """Return the wanted values back to back; a view if there is one range of whole bytes."""
    if bits == 0:
        return pa.py_buffer(b"")
    if isinstance(wanted, Points):
        return (yield from _fetch_points(wanted, bits))
    if bits % 8:
        return (yield from _fetch_bits(wanted, bits))
    parts = yield from together(
        [
            fetch_fixed(row_slice.bytes_of(row_slice.num_values, bits), bits // 8, row_slice.rows)
            for row_slice in wanted
        ]
    )
    return join(parts)


def fetch_anywhere(
    stop: int, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> IoPlan[pa.Buffer]:
    """Return spans of a file of ``stop`` bytes back to back, in any order.

    Raises
    ------
    CorruptDataError
        Spans overlap, or lie outside the file.
    """
    order = None if (starts[1:] >= ends[:-1]).all() else np.argsort(starts, kind="stable")
    low, high = (starts, ends) if order is None else (starts[order], ends[order])
    if len(low) and (low[0] < 0 or high[-1] > stop or (low > high).any()):
        raise CorruptDataError(
            f"values at bytes {low[0]} to {high[-1]} are out of range, the file has {stop} bytes"
        )
    if (low[1:] < high[:-1]).any():
        raise CorruptDataError("pages overlap each other")
    bounds, data = yield from fetch_spans(ByteRange(0, stop), low, high)
    if order is None:
        return data
    values = pa.Array.from_buffers(pa.large_binary(), len(low), [None, pa.py_buffer(bounds), data])
    return values.take(pa.array(np.argsort(order))).buffers()[2]


def join(parts: Sequence[pa.Buffer]) -> pa.Buffer:
    """Join buffers into one."""
    return parts[0] if len(parts) == 1 else pa.py_buffer(b"".join(parts))


def _fetch_points(points: Points, bits: int) -> IoPlan[pa.Buffer]:
    offsets = points.offsets(bits)
    if bits % 8 == 0:
        starts = offsets // 8
        return (yield from fetch_anywhere(points.stop, starts, starts + bits // 8))
    bit_positions = (offsets[:, None] + np.arange(bits)).reshape(-1)
    return (yield from fetch_bits(ByteRange(0, points.stop), bit_positions))


def _fetch_bits(row_slices: Sequence[RowSlice], bits: int) -> IoPlan[pa.Buffer]:
    wanted = [item_rows(row_slice.rows, bits) for row_slice in row_slices]
    parts = yield from together(
        [
            fetch_bits(row_slice.bytes_of(row_slice.num_values, bits), rows)
            for row_slice, rows in zip(row_slices, wanted, strict=True)
        ]
    )
    if len(parts) == 1:
        return parts[0]
    # Pages are aligned to bytes, rows are not.
    unpacked = [
        np.unpackbits(np.frombuffer(part, np.uint8), count=len(rows), bitorder="little")
        for part, rows in zip(parts, wanted, strict=True)
    ]
    return bitmap(np.concatenate(unpacked) if unpacked else np.zeros(0, np.uint8))
