"""RowAddrTreeMap: sets of 64-bit row addresses or row ids in index files.

Bytes: u32 number of entries; for each entry, ascending: u32 high word, u32 byte size, then that many bytes of
portable Roaring with the low words. A byte size of 0 stands for all 2**32 low words. All little-endian.
Spec: table format, 14.5.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap

from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.format.roaring import read_roaring
from lance_df.table.reading.selection import RowRanges

_COUNT = struct.Struct("<I")
_ENTRY = struct.Struct("<II")
_WHOLE = 1 << 32
# addresses are int64 here; Lance assigns fragment ids one by one, so larger ones do not occur
_MAX_HIGH = 1 << 31
# Sets of more ranges are of no use to a scan, and 16 bytes for each take many times the space of Roaring.
MAX_RANGES = 1 << 20
# A few bytes may mean 2**32 rows; no fragment that is written in practice has so many.
_MAX_LISTED = 1 << 26


def parse_row_address_map(data: bytes | pa.Buffer, *, source: str) -> RowRanges | None:
    """Return the set as ranges of 64-bit numbers; ``None`` if it has more than a million ranges.

    Raises
    ------
    CorruptDataError
        ``data`` is truncated, has bytes left over, or has a damaged bitmap.
    """
    starts, stops = [], []
    num_ranges = 0
    for high, low in _entries(memoryview(data), source):
        first, last = _run_ends(low)
        num_ranges += len(first)
        if num_ranges > MAX_RANGES:
            return None
        starts.append(np.asarray(first.to_array(), dtype=np.int64) + high * _WHOLE)
        stops.append(np.asarray(last.to_array(), dtype=np.int64) + (high * _WHOLE + 1))
    if not starts:
        return RowRanges.none()
    return RowRanges.from_ranges(np.concatenate(starts), np.concatenate(stops))


def read_row_sets(data: bytes | pa.Buffer, *, source: str) -> Iterator[tuple[int, BitMap]]:
    """Yield the high word of each part of the set, and its low words.

    Raises
    ------
    CorruptDataError
        See :func:`parse_row_address_map`.
    UnsupportedFeatureError
        A part has more rows than fragments have.
    """
    for high, low in _entries(memoryview(data), source):
        if low is None or len(low) > _MAX_LISTED:
            raise UnsupportedFeatureError(
                f"{source}: part {high} of a row set has more than {_MAX_LISTED} rows"
            )
        yield high, low


def serialize_row_sets(sets: Mapping[int, BitMap]) -> bytes:
    """Serialize a set, given by high words, for index files."""
    parts = [(high, low.serialize()) for high, low in sorted(sets.items())]
    return _COUNT.pack(len(parts)) + b"".join(_ENTRY.pack(high, len(low)) + low for high, low in parts)


def serialize_row_addresses(addresses: npt.NDArray[np.uint64]) -> bytes:
    """Serialize a non-empty set of addresses or row ids, in any order, for index files."""
    ascending = np.sort(addresses)
    highs, starts = np.unique(ascending >> np.uint64(32), return_index=True)
    lows = np.split((ascending & np.uint64(0xFFFFFFFF)).astype(np.uint32), starts[1:])
    pairs = zip(highs.tolist(), lows, strict=True)
    return serialize_row_sets({high: BitMap(low, optimize=False) for high, low in pairs})


def _entries(data: memoryview, source: str) -> Iterator[tuple[int, BitMap | None]]:
    if len(data) < _COUNT.size:
        raise CorruptDataError(f"{source}: a row set has {len(data)} bytes, expected at least 4")
    (count,) = _COUNT.unpack_from(data)
    position = _COUNT.size
    for _ in range(count):
        if len(data) - position < _ENTRY.size:
            raise CorruptDataError(
                f"{source}: a row set of {len(data)} bytes is truncated, it should have {count} parts"
            )
        high, num_bytes = _ENTRY.unpack_from(data, position)
        position += _ENTRY.size
        if num_bytes > len(data) - position or high >= _MAX_HIGH:
            raise CorruptDataError(
                f"{source}: part {high} of a row set needs {num_bytes} bytes, but only "
                f"{len(data) - position} are left"
            )
        low = read_roaring(bytes(data[position : position + num_bytes]), source=source) if num_bytes else None
        position += num_bytes
        yield high, low
    if position != len(data):
        raise CorruptDataError(f"{source}: {len(data) - position} bytes follow the end of a row set")


def _run_ends(low: BitMap | None) -> tuple[BitMap, BitMap]:
    """Return the first and the last number of each run, without listing the numbers: a few bytes may mean
    2**32 of them.
    """
    if low is None:
        return BitMap([0]), BitMap([_WHOLE - 1])
    return low - low.shift(1), low - low.shift(-1)
