"""Expand runs. Spec: file format 2.x, 4.7.9."""

from lance_df.encodings.kernels.jit import kernel

_SHORT = 8


@kernel
def expand_runs(values, value_starts, lengths, length_starts, num_runs, counts, out):  # type: ignore[no-untyped-def]
    """Write ``counts[i]`` values for each chunk i; return the first chunk whose runs are too short, or -1.

    The caller has checked that ``num_runs[i]`` run values (from item ``value_starts[i]`` on) and run lengths
    exist, and that ``out`` holds the sum of ``counts``. Runs beyond the count are cut off.
    """
    position = 0
    for chunk in range(len(counts)):
        stop = position + counts[chunk]
        for run in range(num_runs[chunk]):
            if position == stop:
                break
            value = values[value_starts[chunk] + run]
            end = min(stop, position + lengths[length_starts[chunk] + run])
            if end - position <= _SHORT and position + _SHORT <= len(out):
                # a fixed number of stores needs no branches; what is too much is overwritten by the next run
                for i in range(_SHORT):
                    out[position + i] = value
            else:
                for i in range(position, end):
                    out[i] = value
            position = end
        if position < stop:
            return chunk
    return -1
