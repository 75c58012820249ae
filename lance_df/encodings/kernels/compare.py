"""Say for each value whether it is looked for, within two bounds, both included, for example; count these.

``inverted`` asks for all others. ``out`` has a byte for each value.
"""

import numpy as np

from lance_df.encodings.kernels.jit import kernel, load_8_bytes

# as unsigned numbers positions below 0 are beyond the end too, and need no look at their sign
_U = np.uintp


@kernel
def numbers_within(numbers, bounds, inverted, out):  # type: ignore[no-untyped-def]
    """Compare integers with bounds of the same type."""
    low, high = bounds[0], bounds[1]
    found = 0
    for i in range(len(numbers)):
        truth = ((numbers[i] >= low) & (numbers[i] <= high)) ^ inverted
        out[i] = truth
        found += truth
    return found


@kernel
def floats_within(bits, bounds, inverted, out):  # type: ignore[no-untyped-def]
    """Compare floats, given as signed integers of their bits, in the order of `lance_df.expr.floats`."""
    low, high = bounds[0], bounds[1]
    sign = 8 * bits.itemsize - 1
    others = (1 << sign) - 1
    negative_zero = -others - 1
    found = 0
    for i in range(len(bits)):
        number = np.int64(bits[i])
        key = number ^ ((number >> sign) & others)
        key = 0 if number == negative_zero else key
        truth = ((key >= low) & (key <= high)) ^ inverted
        out[i] = truth
        found += truth
    return found


@kernel
def pairs_within(pairs, bounds, inverted, out):  # type: ignore[no-untyped-def]
    """Compare numbers of 128 bits.

    Parameters
    ----------
    pairs
        Rows of the lower and the upper word, unsigned.
    bounds
        Two such rows: the lower bound, and how far above it the upper one is.
    """
    low, high = bounds[0, 0], bounds[0, 1]
    low_span, high_span = bounds[1, 0], bounds[1, 1]
    found = 0
    for i in range(len(pairs)):
        lower = pairs[i, 0] - low
        upper = pairs[i, 1] - high - np.uint64(pairs[i, 0] < low)
        truth = ((upper < high_span) | ((upper == high_span) & (lower <= low_span))) ^ inverted
        out[i] = truth
        found += truth
    return found


@kernel
def strings_equal(offsets, data, word, inverted, out):  # type: ignore[no-untyped-def]
    """Compare strings with a word, given by its bytes. The caller has checked the offsets."""
    source = _U(data.ctypes.data)
    last = len(data) - 8
    size = len(word)
    found = 0
    if size <= 8:
        wanted = np.uint64(0)
        counted = np.uint64(0)
        for k in range(size):
            wanted |= np.uint64(word[k]) << np.uint64(8 * k)
            counted |= np.uint64(255) << np.uint64(8 * k)
        for i in range(len(out)):
            begin = np.int64(offsets[i])
            start = np.uint64(0)
            if begin <= last:
                start = np.uint64(load_8_bytes(source + _U(begin)))
            else:
                for k in range(len(data) - begin):
                    start |= np.uint64(data[begin + k]) << np.uint64(8 * k)
            truth = (np.int64(offsets[i + 1]) - begin == size) & (start & counted == wanted)
            truth ^= inverted
            out[i] = truth
            found += truth
        return found
    target = _U(word.ctypes.data)
    tail = _U(size - 8)
    head = load_8_bytes(target)
    end = load_8_bytes(target + tail)
    for i in range(len(out)):
        truth = np.int64(offsets[i + 1]) - np.int64(offsets[i]) == size
        if truth:
            place = source + _U(offsets[i])
            truth = (load_8_bytes(place) == head) & (load_8_bytes(place + tail) == end)
            middle = _U(8)
            while truth & (middle < tail):
                truth = load_8_bytes(place + middle) == load_8_bytes(target + middle)
                middle += _U(8)
        truth ^= inverted
        out[i] = truth
        found += truth
    return found


@kernel
def look_up_truth(truth, indices, out):  # type: ignore[no-untyped-def]
    """Write ``truth[indices[i]]``; return how many are 1. The caller has checked that indices lie within."""
    found = 0
    for i in range(len(indices)):
        byte = truth[_U(indices[i])]
        out[i] = byte
        found += byte
    return found
