"""Say for each value whether it lies within two bounds, both included, and how many do.

``inverted`` asks for those outside. ``out`` has a byte for each value.
"""

import numpy as np

from lance_df.encodings.kernels.jit import kernel

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
def look_up_truth(truth, indices, out):  # type: ignore[no-untyped-def]
    """Write ``truth[indices[i]]``; return how many are 1. The caller has checked that indices lie within."""
    found = 0
    for i in range(len(indices)):
        byte = truth[_U(indices[i])]
        out[i] = byte
        found += byte
    return found
