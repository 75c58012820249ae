"""Add up numbers of rows that are next to each other."""

import numpy as np

from lance_df.encodings.kernels.jit import kernel

_SIGN = np.int64(63)


@kernel
def add_up_runs(numbers, step, num_rows, starts, out, width):  # type: ignore[no-untyped-def]
    """Write the sum of each run of rows, sign-extended to ``width`` words: 1 or 2.

    The number of row ``i`` is at ``i * step``. The caller has checked that ``starts`` ascend and are below
    ``num_rows``, that there are so many numbers, and that ``out`` has the words of each run.
    """
    last = len(starts) - 1
    for j in range(len(starts)):
        stop = num_rows if j == last else starts[j + 1]
        total = np.int64(0)
        for i in range(starts[j], stop):
            total += numbers[i * step]
        out[j * width] = total
        if width > 1:
            out[j * width + 1] = total >> _SIGN
