"""Parse sets of 32-bit numbers in portable Roaring serialization: deletion vectors, index coverage.

pyroaring validates its input since 1.1; earlier releases return wrong sets, or bytes beyond the buffer.
"""

from __future__ import annotations

from pyroaring import BitMap

from lance_df.errors import CorruptDataError


def read_roaring(data: bytes, *, source: str) -> BitMap:
    """Return the set that ``data`` holds.

    Raises
    ------
    CorruptDataError
        ``data`` is not a portable Roaring bitmap, or is damaged.
    """
    try:
        return BitMap.deserialize(data)
    except (ValueError, IndexError, MemoryError) as err:
        raise CorruptDataError(f"{source}: {len(data)} bytes are not a valid Roaring bitmap") from err
