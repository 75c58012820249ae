"""Read ranges of strings of 2.0 files in memory, by the ends of values.

The ends are unsigned words of 8 bytes, at most ``limit``: those of nulls are above, and the bytes go so far.
What has nulls, or is broken, is not read: -3 is returned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lance_df.encodings.kernels.jit import kernel, load_item, store_item
from lance_df.encodings.kernels.views import has_other_bytes, write_last_view, write_view, write_views

if TYPE_CHECKING:
    from collections.abc import Callable

_U = np.uintp
_END = np.uint64(0)
_FAILED = np.int64(-3)
_SHORT = 12


@kernel
def _bounds(ends, start, stop, limit):  # type: ignore[no-untyped-def]
    """Return where the first of some values starts, where the last ends, and whether these may be true."""
    low = load_item(ends, _U(start - 1), _END) if start else _END
    high = load_item(ends, _U(stop - 1), _END)
    return low, high, low <= high and high <= np.uint64(limit)


@kernel
def view_ends(ends, start, stop, limit, data, is_checked, out):  # type: ignore[no-untyped-def]
    """Write views that count from the first value; return -1, or -2 where some bytes are no ASCII.

    ``data`` is the address of the bytes, which are looked at unless they are checked. ``limit`` is less than
    2**31.
    """
    place, source, view = _U(ends), _U(data), _U(out)
    low, high, is_sound = _bounds(place, start, stop, limit)
    if not is_sound:
        return _FAILED
    if not is_checked and has_other_bytes(source + _U(low), high - low):
        return np.int64(-2)
    if start == 0:  # which is stored nowhere
        size = np.int64(min(load_item(place, _U(0), _END), high))
        if limit >= _SHORT:
            write_view(view, source, 0, size)
        else:
            write_last_view(view, source, size)
        start, view = start + 1, view + _U(16)
    else:
        place += _U(start - 1) << _U(3)
    before = np.int64(low)
    if start < stop and not write_views(
        place, stop - start, source + _U(low), -before, limit - before, view, _END
    ):
        return _FAILED
    return np.int64(-1)


def _end_reader(width: int, offset_type: Callable[[Any], Any]) -> Callable[..., Any]:
    @kernel
    def read_ends(ends, start, stop, limit, out):  # type: ignore[no-untyped-def]
        """Write offsets that start at 0, and return the last of them."""
        place, offsets = _U(ends), _U(out)
        low, high, is_sound = _bounds(place, start, stop, limit)
        if not is_sound or load_item(place, _U(start), _END) < low:
            return _FAILED
        place += _U(start) << _U(3)
        is_broken = np.uint8(0)
        for i in range(_U(stop - start - 1)):
            is_broken |= np.uint8(load_item(place, i + _U(1), _END) < load_item(place, i, _END))
        if is_broken:
            return _FAILED
        store_item(offsets, _U(0), offset_type(0))
        offsets += _U(width)
        for i in range(_U(stop - start)):
            store_item(offsets, i, offset_type(load_item(place, i, _END) - low))
        return np.int64(high - low)

    return read_ends


read_ends_32 = _end_reader(4, np.int32)
read_ends_64 = _end_reader(8, np.int64)
