"""Hash keys, and sort out those that cannot be among others by marks: one bit for each of many places."""

import numpy as np

from lance_df.encodings.kernels.jit import kernel

_HALF_WORD = np.uint64(32)
_BYTE_BITS = np.uint64(3)
_IN_BYTE = np.uint64(7)


@kernel
def mix_words(hashed, words, multiplier):  # type: ignore[no-untyped-def]
    """Mix one more word into each hash, in place."""
    for i in range(len(hashed)):
        bits = hashed[i]
        hashed[i] = ((bits ^ (bits >> _HALF_WORD)) ^ np.uint64(words[i])) * multiplier


@kernel
def marked_positions(hashed, shift, marks, out):  # type: ignore[no-untyped-def]
    """Write the positions of hashes whose upper bits are marked; return how many there are.

    The caller has checked that there is a mark for each value of the bits above ``shift``, and that ``out``
    is as long as ``hashed``.
    """
    found = np.int64(0)
    for i in range(len(hashed)):
        place = hashed[i] >> shift
        out[found] = i
        found += np.int64((marks[place >> _BYTE_BITS] >> (place & _IN_BYTE)) & np.uint64(1))
    return found


@kernel
def near_positions(numbers, lowest, shift, marks, out):  # type: ignore[no-untyped-def]
    """Write the positions of numbers in marked stretches above ``lowest``; return how many there are.

    Numbers beyond the marks count as the last of these. ``out`` is as long as ``numbers``.
    """
    found = np.int64(0)
    last = np.uint64(len(marks) - 1)
    for i in range(len(numbers)):
        place = min((np.uint64(numbers[i]) - lowest) >> shift, last)
        out[found] = i
        found += np.int64(marks[place])
    return found
