"""Build string views."""

import numpy as np

from lance_df.encodings.kernels.jit import kernel, load_8_bytes

_SHORT = 12
_PREFIX = np.uint64(0xFFFFFFFF)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@kernel
def string_views(offsets, data, out):  # type: ignore[no-untyped-def]
    """Write a view, as two words, of each value ``data[offsets[i]:offsets[i + 1]]`` of buffer 0.

    The caller has checked that offsets ascend and lie within ``data``. Bytes beyond a short value are 0.
    """
    source = data.ctypes.data
    end = len(data)
    for i in range(len(out)):
        start = np.int64(offsets[i])
        size = np.int64(offsets[i + 1]) - start
        if size > _SHORT:
            first = load_8_bytes(source + start) & _PREFIX
            second = np.uint64(start) << np.uint64(32)
        elif start + _SHORT <= end:
            first = load_8_bytes(source + start) & _PREFIX
            second = load_8_bytes(source + start + 4)
            if size < 4:
                first &= ~(_ALL << np.uint64(8 * size))
                second = np.uint64(0)
            elif size < _SHORT:
                second &= ~(_ALL << np.uint64(8 * (size - 4)))
        else:
            first = np.uint64(0)
            second = np.uint64(0)
            for k in range(size):
                byte = np.uint64(data[start + k])
                if k < 4:
                    first |= byte << np.uint64(8 * k)
                else:
                    second |= byte << np.uint64(8 * (k - 4))
        out[i, 0] = np.uint64(size) | (first << np.uint64(32))
        out[i, 1] = second
