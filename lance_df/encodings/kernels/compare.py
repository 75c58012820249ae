"""Compare values that no machine instruction compares."""

import numpy as np

from lance_df.encodings.kernels.jit import kernel


@kernel
def pairs_below(pairs, high, low, out):  # type: ignore[no-untyped-def]
    """Write whether each 128-bit number lies below a limit.

    Parameters
    ----------
    pairs
        Rows of the lower and the upper word, unsigned.
    high, low
        The limit: int64, uint64.
    """
    for i in range(len(pairs)):
        upper = np.int64(pairs[i, 1])
        out[i] = (upper < high) | ((upper == high) & (pairs[i, 0] < low))
