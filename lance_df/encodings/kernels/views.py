"""Build string views."""

import numpy as np

from lance_df.encodings.kernels.jit import (
    kernel,
    load_8_bytes,
    load_byte,
    load_item,
    store_8_bytes,
    store_item,
)

_SHORT = 12
_BYTE = np.uint8(0)
_WORD = np.uint64(0)
_HIGH_BITS = np.uint64(0x8080808080808080)
# which bits of the two words of a view are of a short value, by its bytes
_VALUE_BITS = np.array(
    [
        bits
        for size in range(_SHORT + 1)
        for bits in (((1 << 8 * min(size, 4)) - 1) << 32, (1 << 8 * max(size - 4, 0)) - 1)
    ],
    np.uint64,
)
_HALF = np.uint64(32)
_U = np.uintp


@kernel
def write_short_view(to, source, size):  # type: ignore[no-untyped-def]
    """Write the view of a value of at most 12 bytes.

    Parameters
    ----------
    to, source
        Addresses of the view and of the value, of which 12 bytes may be read.
    """
    place = _U(size) << _U(1)
    store_8_bytes(to, np.uint64(size) | load_8_bytes(source) << _HALF & _VALUE_BITS[place])
    store_8_bytes(to + _U(8), load_8_bytes(source + _U(4)) & _VALUE_BITS[place + _U(1)])


@kernel
def write_view(to, source, start, size):  # type: ignore[no-untyped-def]
    """Do the same for a value of any size that starts at ``start`` of buffer 0, without a branch."""
    place = _U(min(size, _SHORT)) << _U(1)
    rest = load_8_bytes(source + _U(4)) & _VALUE_BITS[place + _U(1)]
    store_8_bytes(to, np.uint64(size) | load_8_bytes(source) << _HALF & _VALUE_BITS[place])
    store_8_bytes(to + _U(8), np.uint64(start) << _HALF if size > _SHORT else rest)


@kernel
def write_last_view(to, source, size):  # type: ignore[no-untyped-def]
    """Do the same for a value of at most 12 bytes, without a look at what follows it."""
    first = np.uint64(size)
    last = np.uint64(0)
    for k in range(size):
        byte = np.uint64(load_byte(source + _U(k)))
        if k < 4:
            first |= byte << np.uint64(8 * k + 32)
        else:
            last |= byte << np.uint64(8 * k - 32)
    store_8_bytes(to, first)
    store_8_bytes(to + _U(8), last)


@kernel
def has_other_bytes(at, size):  # type: ignore[no-untyped-def]
    """Return whether some of ``size`` bytes at an address are no ASCII."""
    num_words = _U(size) >> _U(3)
    other = np.uint64(0)
    for i in range(num_words):
        other |= load_item(at, i, _WORD)
    for i in range(num_words << _U(3), _U(size)):
        other |= np.uint64(load_item(at, i, _BYTE))
    return other & _HIGH_BITS != 0


@kernel
def write_views(offsets, count, data, start, end, view, like):  # type: ignore[no-untyped-def]
    """Write views of some values, whose offsets are at an address; return whether these ascend.

    Parameters
    ----------
    data, end
        Address of the bytes, less than 2**31, that views count from, and how many there are.
    start
        Where the offsets count from. The first and the last of them lie within ``data``.
    like
        Of the type of offsets.
    """
    # loops over neighbours without a way out take many at a time
    is_broken = np.uint8(0)
    for i in range(_U(count)):
        is_broken |= np.uint8(load_item(offsets, i + _U(1), like) < load_item(offsets, i, like))
    if is_broken:
        return False
    longest = shortest = np.int32(load_item(offsets, _U(1), like) - load_item(offsets, _U(0), like))
    for i in range(_U(count)):
        length = np.int32(load_item(offsets, i + _U(1), like) - load_item(offsets, i, like))
        longest, shortest = max(longest, length), min(shortest, length)
    source = data + _U(start)
    first = _U(load_item(offsets, _U(0), like))
    if longest == 1 and shortest == 1:
        for i in range(_U(count)):
            byte = np.uint64(load_item(source + first, i, _BYTE))
            store_item(view, i << _U(1), np.uint64(1) | byte << _HALF)
            store_item(view, (i << _U(1)) + _U(1), np.uint64(0))
        return True
    # those whose neighbours may be read with them
    safe = _U(count)
    while safe and start + np.int64(load_item(offsets, safe - _U(1), like)) + _SHORT > end:
        safe -= _U(1)
    if longest <= _SHORT:
        for i in range(safe):
            low = np.int64(load_item(offsets, i, like))
            size = np.int64(load_item(offsets, i + _U(1), like)) - low
            write_short_view(view + (i << _U(4)), source + _U(low), size)
    else:
        for i in range(safe):
            low = np.int64(load_item(offsets, i, like))
            size = np.int64(load_item(offsets, i + _U(1), like)) - low
            write_view(view + (i << _U(4)), source + _U(low), start + low, size)
    for i in range(safe, _U(count)):
        low = np.int64(load_item(offsets, i, like))
        size = np.int64(load_item(offsets, i + _U(1), like)) - low
        write_last_view(view + (i << _U(4)), source + _U(low), size)
    return True


@kernel
def string_views(offsets, data, out):  # type: ignore[no-untyped-def]
    """Write a view, as two words, of each of some values ``data[offsets[i]:offsets[i + 1]]`` of buffer 0.

    The caller has checked that offsets (int32) ascend and lie within ``data``.
    """
    begin = _U(data.ctypes.data)
    write_views(_U(offsets.ctypes.data), len(out), begin, 0, len(data), _U(out.ctypes.data), np.int32(0))
