"""Expand runs. Spec: file format 2.x, 4.7.9."""

import numpy as np

from lance_df.encodings.kernels.jit import kernel
from lance_df.encodings.kernels.vectors import store_repeated

_U = np.uintp
_SHORT = 8


@kernel
def expand_runs(values, value_starts, lengths, length_starts, num_runs, counts, out):  # type: ignore[no-untyped-def]
    """Write ``counts[i]`` values for each chunk i; return the first chunk whose runs are too short, or -1.

    The caller has checked that ``num_runs[i]`` run values (from item ``value_starts[i]`` on) and run lengths
    exist, and that ``out`` holds the sum of ``counts``. Runs beyond the count are cut off.
    """
    target = _U(out.ctypes.data)
    width = _U(out.itemsize)
    position = np.int64(0)
    last_store = np.int64(len(out) - _SHORT)
    for chunk in range(len(counts)):
        stop = position + counts[chunk]
        first_value = _U(value_starts[chunk])
        first_length = _U(length_starts[chunk])
        for run in range(_U(num_runs[chunk])):
            if position >= stop:
                break
            value = values[first_value + _U(run)]
            end = min(stop, position + np.int64(lengths[first_length + _U(run)]))
            # a fixed number of stores needs no branches; what is too much is overwritten by the next run
            while position <= last_store:
                store_repeated(target + _U(position) * width, value)
                if end - position <= _SHORT:
                    position = end
                    break
                position += _SHORT
            for i in range(position, end):
                out[_U(i)] = value
            position = end
        if position < stop:
            return chunk
    return -1
