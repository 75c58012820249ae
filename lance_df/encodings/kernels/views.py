"""Build string views."""

import numpy as np

from lance_df.encodings.kernels.jit import kernel, load_8_bytes, load_byte, store_8_bytes

_SHORT = 12
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
    """Do the same for a value of any size that starts at ``start`` of buffer 0."""
    if size > _SHORT:
        store_8_bytes(to, np.uint64(size) | load_8_bytes(source) << _HALF)
        store_8_bytes(to + _U(8), np.uint64(start) << _HALF)
    else:
        write_short_view(to, source, size)


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
def string_views(offsets, data, out):  # type: ignore[no-untyped-def]
    """Write a view, as two words, of each value ``data[offsets[i]:offsets[i + 1]]`` of buffer 0.

    The caller has checked that offsets ascend and lie within ``data``. Bytes beyond a short value are 0.
    """
    source = _U(data.ctypes.data)
    view = _U(out.ctypes.data)
    end = len(data)
    longest = np.int64(0)
    for i in range(_U(len(out))):
        longest = max(longest, np.int64(offsets[i + _U(1)]) - np.int64(offsets[i]))
    count = _U(len(out))
    if longest <= _SHORT:
        # those whose neighbours may be read with them
        while count and np.int64(offsets[count - _U(1)]) + _SHORT > end:
            count -= _U(1)
        for i in range(count):
            start = np.int64(offsets[i])
            write_short_view(view, source + _U(start), np.int64(offsets[i + _U(1)]) - start)
            view += _U(16)
    else:
        count = _U(0)
    for i in range(count, _U(len(out))):
        start = np.int64(offsets[i])
        size = np.int64(offsets[i + _U(1)]) - start
        if start + _SHORT <= end or size > _SHORT:
            write_view(view, source + _U(start), start, size)
        else:
            write_last_view(view, source + _U(start), size)
        view += _U(16)


@kernel
def view_variable(data, words, starts, sizes, counts, state, out):  # type: ignore[no-untyped-def]
    """Write a view, as two words, of each value of chunks of (offsets, bytes); buffer 0 is all of ``data``.

    Returns the first chunk whose offsets are wrong, or -1.

    Parameters
    ----------
    data, words
        The same memory, of less than 2**31 bytes, as bytes and as signed offsets.
    starts, sizes
        First byte (a multiple of 8) and bytes of each chunk. The caller has checked that chunk i has room for
        ``counts[i] + 1`` offsets.
    state
        Receives what is not 0 where the bytes are not all ASCII.
    """
    source = _U(data.ctypes.data)
    width = words.itemsize
    end = len(data)
    other = np.uint64(0)
    view = _U(out.ctypes.data)
    for chunk in range(len(counts)):
        begin = starts[chunk]
        base = _U(begin // width)
        count = _U(counts[chunk])
        low = np.int64(words[base])
        limit = np.int64(words[base + count])
        if low < 0 or limit < low or limit > sizes[chunk]:
            return chunk
        at = begin + low
        stop = begin + limit
        while at + 8 <= stop:
            other |= load_8_bytes(source + _U(at))
            at += 8
        while at < stop:
            other |= np.uint64(data[at])
            at += 1
        # loops over neighbours without a way out take many at a time
        signs = longest = np.int64(0)
        for i in range(count):
            size = np.int64(words[base + i + _U(1)]) - np.int64(words[base + i])
            signs |= size
            longest = max(longest, size)
        if signs < 0:
            return chunk
        if longest <= _SHORT and stop + _SHORT <= end:
            for i in range(count):
                low = np.int64(words[base + i])
                size = np.int64(words[base + i + _U(1)]) - low
                write_short_view(view + (i << _U(4)), source + _U(begin + low), size)
        else:
            for i in range(count):
                start = begin + np.int64(words[base + i])
                size = begin + np.int64(words[base + i + _U(1)]) - start
                if start + _SHORT <= end:
                    write_view(view + (i << _U(4)), source + _U(start), start, size)
                else:
                    write_last_view(view + (i << _U(4)), source + _U(start), size)
        view += count << _U(4)
    state[0] = other & _HIGH_BITS
    return -1
