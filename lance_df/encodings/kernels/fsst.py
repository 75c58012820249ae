"""Expand FSST codes. Spec: file format 2.x, 4.7.6."""

import numpy as np

from lance_df.encodings.kernels.jit import kernel, store_8_bytes

SLACK_BYTES = 8


@kernel
def expand_fsst(codes, offsets, symbols, lengths, out_offsets, out):  # type: ignore[no-untyped-def]
    """Expand each value; return (values done, broken value or -1).

    Parameters
    ----------
    codes, offsets
        Value i is ``codes[offsets[i]:offsets[i + 1]]``; the caller has checked the offsets.
    symbols, lengths
        256 symbols (little-endian, first byte first) and their lengths, at most 8.
    out_offsets, out
        Stops before the first value that might not fit into ``out`` less 8 bytes, since every symbol is
        stored as 8 bytes.
    """
    target = out.ctypes.data
    position = np.int64(0)
    out_offsets[0] = 0
    for value in range(len(offsets) - 1):
        i = np.int64(offsets[value])
        stop = np.int64(offsets[value + 1])
        if position + 8 * (stop - i + 1) > len(out):
            return value, -1
        while i < stop:
            code = codes[i]
            if code != 255:
                store_8_bytes(target + position, symbols[code])
                position += np.int64(lengths[code])
                i += 1
            elif i + 1 < stop:
                out[position] = codes[i + 1]
                position += 1
                i += 2
            else:
                return value, value
        out_offsets[value + 1] = position
    return len(offsets) - 1, -1
