"""Where arrays keep their fields: what numpy's C interface holds in place for code that was compiled once.

Source: PyArrayObject_fields and the flags in numpy/ndarraytypes.h. Places are counted from the end of what
all objects of CPython begin with.
"""

from __future__ import annotations

import ctypes
from typing import Final

import numpy as np

HEADER_BYTES: Final = object.__basicsize__
DATA, NUM_DIMENSIONS, DIMENSIONS, STRIDES, DTYPE, FLAGS, _END = 0, 8, 16, 24, 40, 48, 56
CONTIGUOUS, ALIGNED, WRITABLE = 0x1, 0x100, 0x400
_WORD_BYTES: Final = 8


def are_as_expected() -> bool:
    """Return whether arrays of this process keep their fields there."""
    if ctypes.sizeof(ctypes.c_void_p) != _WORD_BYTES or np.ndarray.__basicsize__ < HEADER_BYTES + _END:
        return False
    array = np.zeros((2, 3), np.int16)
    start = id(array) + HEADER_BYTES
    words = (ctypes.c_int64 * (_END // 8)).from_address(start)
    halves = (ctypes.c_int32 * (_END // 4)).from_address(start)
    flags = CONTIGUOUS | ALIGNED | WRITABLE
    return (
        words[DATA // 8] == array.ctypes.data
        and words[DTYPE // 8] == id(array.dtype)
        and halves[NUM_DIMENSIONS // 4] == array.ndim
        and halves[FLAGS // 4] & flags == flags
        and tuple((ctypes.c_int64 * 2).from_address(words[DIMENSIONS // 8])) == array.shape
        and tuple((ctypes.c_int64 * 2).from_address(words[STRIDES // 8])) == array.strides
    )
