"""Find rows that are equal to the one before, and add up their numbers. Nothing here branches for a row."""

import numpy as np

from lance_df.encodings.kernels.jit import kernel

_SIGN = np.int64(63)


@kernel
def find_runs(keys, longest, begins, out_keys, out_ends):  # type: ignore[no-untyped-def]
    """Write the key of each run of equal keys and where it ends; return how many runs there are.

    ``begins`` gets 1 where a run begins, and 0 elsewhere; one begins at all multiples of ``longest``, a power
    of two. The caller has checked that there are keys, and that all arrays are as long as these.
    """
    place = np.uint64(0)
    last = keys[0]
    mask = np.uint64(longest - 1)
    for i in range(len(keys)):
        key = keys[i]
        begin = np.uint8(key != last) | np.uint8(np.uint64(i) & mask == np.uint64(0))
        last = key
        begins[i] = begin
        place += np.uint64(begin)
        out_keys[place - np.uint64(1)] = key
        out_ends[place - np.uint64(1)] = i + 1
    return np.int64(place)


@kernel
def add_up_runs(numbers, step, begins, out, width):  # type: ignore[no-untyped-def]
    """Write the sum of each run of rows, sign-extended to ``width`` words: 1 or 2.

    The number of row ``i`` is at ``i * step``. The caller has checked that there are so many numbers, that
    ``begins`` is 1 where a run begins, first of all at row 0, and 0 elsewhere, and that ``out`` has the words
    of each run.
    """
    place = np.uint64(0)
    words = np.uint64(width)
    total = np.int64(0)
    for i in range(len(begins)):
        place += np.uint64(begins[i])
        total += numbers[np.uint64(i) * np.uint64(step)]
        out[(place - np.uint64(1)) * words] = total
    before = np.int64(0)
    for run in range(place):
        total = out[run * words]
        out[run * words] = total - before
        if width > 1:
            out[run * words + np.uint64(1)] = (total - before) >> _SIGN
        before = total
