"""RowAddrTreeMap: sets of 64-bit row addresses or row ids, as index files hold them.

Bytes: u32 number of entries; for each entry, ascending: u32 high word, u32 byte size, then so many bytes of
portable Roaring with the low words. A byte size of 0 stands for all 2**32 low words. All little-endian.
Spec: table format, 14.5.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_df.errors import CorruptDataError
from lance_df.format.roaring import read_roaring
from lance_df.table.selection import RowRanges

_COUNT = struct.Struct("<I")
_ENTRY = struct.Struct("<II")
_WHOLE = 1 << 32
# addresses are int64 here; Lance gives out fragment ids one by one, so larger ones do not occur
_MAX_HIGH = 1 << 31


def parse_row_address_map(data: bytes | pa.Buffer, *, source: str) -> RowRanges:
    """Return the set as ranges of 64-bit numbers.

    Raises
    ------
    CorruptDataError
        ``data`` is cut, has bytes left over, or holds a broken bitmap.
    """
    parts = [_ranges(high, low) for high, low in _entries(memoryview(data), source)]
    if len(parts) == 1:
        return parts[0]
    bounds = np.concatenate([part.bounds for part in parts]) if parts else np.empty((0, 2), np.int64)
    return RowRanges.from_ranges(bounds[:, 0], bounds[:, 1])


def _entries(data: memoryview, source: str) -> Iterator[tuple[int, BitMap | None]]:
    if len(data) < _COUNT.size:
        raise CorruptDataError(f"{source}: a row set of {len(data)} bytes, expected 4 at least")
    (count,) = _COUNT.unpack_from(data)
    position = _COUNT.size
    for _ in range(count):
        if len(data) - position < _ENTRY.size:
            raise CorruptDataError(f"{source}: a row set of {len(data)} bytes is cut, it names {count} parts")
        high, num_bytes = _ENTRY.unpack_from(data, position)
        position += _ENTRY.size
        if num_bytes > len(data) - position or high >= _MAX_HIGH:
            raise CorruptDataError(
                f"{source}: part {high} of a row set takes {num_bytes} bytes, "
                f"but {len(data) - position} are left"
            )
        low = read_roaring(bytes(data[position : position + num_bytes]), source=source) if num_bytes else None
        position += num_bytes
        yield high, low
    if position != len(data):
        raise CorruptDataError(f"{source}: {len(data) - position} bytes follow the end of a row set")


def _ranges(high: int, low: BitMap | None) -> RowRanges:
    """Find the ends of the runs within Roaring: a few bytes may stand for 2**32 rows."""
    start = high * _WHOLE
    if low is None:
        return RowRanges.from_ranges([start], [start + _WHOLE])
    first, last = (low - low.shift(1)).to_array(), (low - low.shift(-1)).to_array()
    return RowRanges.from_ranges(
        np.asarray(first, dtype=np.int64) + start, np.asarray(last, dtype=np.int64) + start + 1
    )
