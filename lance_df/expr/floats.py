"""The order of floats: IEEE 754's total order, but with -0.0 equal to 0.0.

DataFusion compares floats in this order: NaN is greater than all other values, a NaN with a set sign bit is
less than all other values, and NaNs are equal if their bits are equal. DataFusion's long IN lists compare
bits, also for zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SIGNED = {2: np.int16, 4: np.int32, 8: np.int64}
_NEGATIVE_ZERO_KEY = -1


def float_values(values: pa.Array) -> npt.NDArray[Any]:
    """Return a view of an array's floats. The values at nulls are arbitrary."""
    dtype = values.type.to_pandas_dtype()
    buffer = values.buffers()[1]
    if buffer is None or len(values) == 0:
        return np.zeros(len(values), dtype)
    return np.frombuffer(buffer, dtype, len(values), values.offset * np.dtype(dtype).itemsize)


def bit_values(floats: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the bits of floats as signed integers of the same width."""
    return floats.view(_SIGNED[floats.dtype.itemsize])


def order_keys(floats: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return signed integers with the same order as the floats."""
    keys = total_order_keys(floats)
    return np.where(keys == _NEGATIVE_ZERO_KEY, keys.dtype.type(0), keys)


def total_order_keys(floats: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return signed integers in the order of IEEE 754's total order, in which -0.0 precedes 0.0."""
    bits = bit_values(np.ascontiguousarray(floats))
    limits = np.iinfo(bits.dtype)
    return bits ^ ((bits >> (limits.bits - 1)) & limits.max)


def is_negative_nan(floats: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which values are NaNs that sort below all numbers."""
    return np.isnan(floats) & np.signbit(floats)
