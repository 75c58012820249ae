"""Expand FSST codes. Spec: file format 2.x, 4.7.6."""

import numpy as np

from lance_df.encodings.kernels.jit import kernel, store_8_bytes

_U = np.uintp
_ESCAPE = 255


@kernel
def expand_fsst(codes, symbols, lengths, starts, out):  # type: ignore[no-untyped-def]
    """Expand a stream of codes; return (codes done, bytes written).

    Stops early where ``out`` may be too small, and at an escape without a byte after it.

    Parameters
    ----------
    symbols, lengths
        256 symbols (little-endian, first byte first) and their lengths, at most 8.
    starts
        Receives where the bytes of each code start, -1 for bytes that an escape is about, and at last the
        end.
    out
        Every symbol is stored as 8 bytes: the last 32 bytes remain free for that.
    """
    target = out.ctypes.data
    count = _U(len(codes))
    position = _U(0)
    i = _U(0)
    limit = _U(max(len(out), 32) - 32)
    while i < count and position <= limit:
        a = codes[i]
        if i + _U(4) <= count:
            b, c, d = codes[i + _U(1)], codes[i + _U(2)], codes[i + _U(3)]
            if (a != _ESCAPE) & (b != _ESCAPE) & (c != _ESCAPE) & (d != _ESCAPE):
                starts[i] = position
                store_8_bytes(target + position, symbols[a])
                position += _U(lengths[a])
                starts[i + _U(1)] = position
                store_8_bytes(target + position, symbols[b])
                position += _U(lengths[b])
                starts[i + _U(2)] = position
                store_8_bytes(target + position, symbols[c])
                position += _U(lengths[c])
                starts[i + _U(3)] = position
                store_8_bytes(target + position, symbols[d])
                position += _U(lengths[d])
                i += _U(4)
                continue
        starts[i] = position
        if a != _ESCAPE:
            store_8_bytes(target + position, symbols[a])
            position += _U(lengths[a])
            i += _U(1)
            continue
        if i + _U(1) == count:
            break
        out[position] = codes[i + _U(1)]
        starts[i + _U(1)] = -1
        position += _U(1)
        i += _U(2)
    starts[i] = position
    return i, position
