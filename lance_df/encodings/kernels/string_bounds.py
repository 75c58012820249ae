"""Find the least and the greatest of some strings, compared byte by byte."""

import numpy as np

from lance_df.encodings.kernels.jit import kernel, load_8_bytes, load_byte

_U = np.uintp


@kernel
def extreme_strings(offsets, data, out):  # type: ignore[no-untyped-def]
    """Write the positions of the least and of the greatest one to ``out``.

    Parameters
    ----------
    offsets
        Where each string begins, and where the last one ends, of at least one; the caller has checked them.
    """
    base = _U(data.ctypes.data)
    least = greatest = 0
    for row in range(1, len(offsets) - 1):
        # most strings are neither, which the first comparison tells for one of both
        if _is_less(base, offsets, row, least):
            least = row
        elif _is_less(base, offsets, greatest, row):
            greatest = row
    out[0] = least
    out[1] = greatest


@kernel
def _is_less(base, offsets, one, other):  # type: ignore[no-untyped-def]
    at, beside = base + _U(offsets[one]), base + _U(offsets[other])
    length = offsets[one + 1] - offsets[one]
    other_length = offsets[other + 1] - offsets[other]
    common = min(length, other_length)
    done = 0
    while done + 8 <= common:
        if load_8_bytes(at + _U(done)) != load_8_bytes(beside + _U(done)):
            break
        done += 8
    while done < common:
        byte, other_byte = load_byte(at + _U(done)), load_byte(beside + _U(done))
        if byte != other_byte:
            return byte < other_byte
        done += 1
    return length < other_length
