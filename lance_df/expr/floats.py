"""The order of floats: IEEE 754's total order, but with -0.0 equal to 0.0.

This is how DataFusion compares: NaN is greater than everything, a NaN whose sign bit is set is less than
everything, and NaNs are equal when their bits are. Its long IN lists compare bits, zeros included.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SIGNED = {2: np.int16, 4: np.int32, 8: np.int64}
_NEGATIVE_ZERO_KEY = -1


def float_values(values: pa.Array) -> npt.NDArray[Any]:
    """Return the floats of an array as a view; nulls hold whatever their slots hold."""
    dtype = values.type.to_pandas_dtype()
    buffer = values.buffers()[1]
    if buffer is None or len(values) == 0:
        return np.zeros(len(values), dtype)
    return np.frombuffer(buffer, dtype, len(values), values.offset * np.dtype(dtype).itemsize)


def bit_values(floats: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the bits of floats as signed integers of the same width."""
    return floats.view(_SIGNED[floats.dtype.itemsize])


def order_keys(floats: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return signed integers that compare as the floats do."""
    keys = total_order_keys(floats)
    return np.where(keys == _NEGATIVE_ZERO_KEY, keys.dtype.type(0), keys)


def total_order_keys(floats: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return signed integers that compare as IEEE 754's total order does, in which -0.0 precedes 0.0."""
    bits = bit_values(np.ascontiguousarray(floats))
    limits = np.iinfo(bits.dtype)
    return bits ^ ((bits >> (limits.bits - 1)) & limits.max)


def is_negative_nan(floats: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return where a NaN sorts below all numbers."""
    return np.isnan(floats) & np.signbit(floats)
