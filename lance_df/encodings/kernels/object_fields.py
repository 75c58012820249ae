"""Where objects keep what kernels need: what the C interfaces of CPython and numpy hold in place.

Sources: PyObject and PyBytesObject of CPython; PyArrayObject_fields and the flags in numpy/ndarraytypes.h,
PyLongLongScalarObject in numpy/arrayscalars.h.
"""

from __future__ import annotations

import ctypes
from typing import Final

import numpy as np

TYPE: Final = 8
SCALAR: Final = 16
DATA, NUM_DIMENSIONS, DIMENSIONS, STRIDES, DTYPE, FLAGS, _END = 16, 24, 32, 40, 56, 64, 72
CONTIGUOUS, ALIGNED, WRITABLE = 0x1, 0x100, 0x400
# bytes end with a zero that is no part of them
BYTES: Final = bytes.__basicsize__ - 1
_WORD_BYTES: Final = 8


def are_as_expected() -> bool:
    """Return whether the objects of this process keep it there."""
    if ctypes.sizeof(ctypes.c_void_p) != _WORD_BYTES or object.__basicsize__ != SCALAR:
        return False
    if np.ndarray.__basicsize__ < _END or np.int64.__basicsize__ < SCALAR + _WORD_BYTES:
        return False
    array, scalar, letters = np.zeros((2, 3), np.int16), np.int64(0x0123456789ABCDEF), b"eight letters"
    words = (ctypes.c_int64 * (_END // 8)).from_address(id(array))
    halves = (ctypes.c_int32 * (_END // 4)).from_address(id(array))
    flags = CONTIGUOUS | ALIGNED | WRITABLE
    return (
        words[TYPE // 8] == id(np.ndarray)
        and words[DATA // 8] == array.ctypes.data
        and words[DTYPE // 8] == id(array.dtype)
        and halves[NUM_DIMENSIONS // 4] == array.ndim
        and halves[FLAGS // 4] & flags == flags
        and tuple((ctypes.c_int64 * 2).from_address(words[DIMENSIONS // 8])) == array.shape
        and tuple((ctypes.c_int64 * 2).from_address(words[STRIDES // 8])) == array.strides
        and ctypes.c_int64.from_address(id(scalar) + SCALAR).value == scalar
        and ctypes.string_at(id(letters) + BYTES, len(letters)) == letters
    )
