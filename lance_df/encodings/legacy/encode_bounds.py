"""Compute the statistics of 0.1 batches: null counts, and bounds of the other values.

Spec: file format 0.1, 6.3. They are those of pylance, except that every value is within the bounds: pylance
looks for the largest text after cutting, and cutting at code points can change the order.

=================  ===============================================================================
integers, dates    without values: the limits of the type
decimals           without values: the limits of 128 bits
floats             NaN is left out; without values -inf and inf; a zero is -0.0 below and 0.0 above
booleans           without values: false and true
strings, binaries  cut to 64 bytes; where anything was cut, the upper bound is the next larger text
                   of that length; null where there is none, or without values
=================  ===============================================================================
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.leaf_values import is_variable

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.legacy.encode import Bounds

_PREFIX_BYTES = 64
_DECIMAL_LIMIT = 1 << 127


def has_bounds(data_type: pa.DataType) -> bool:
    """Whether pylance stores bounds for a type; it does not for times, timestamps and durations."""
    types = pa.types
    return bool(
        is_variable(data_type)
        or types.is_boolean(data_type)
        or types.is_integer(data_type)
        or types.is_float32(data_type)
        or types.is_float64(data_type)
        or types.is_date(data_type)
        or types.is_decimal128(data_type)
    )


def null_counts(array: pa.Array, bounds: Bounds) -> npt.NDArray[np.int64]:
    """Return the number of nulls of each batch."""
    if not array.null_count:
        return np.zeros(len(bounds) - 1, np.int64)
    return np.add.reduceat(array.is_null().to_numpy(zero_copy_only=False), bounds[:-1], dtype=np.int64)


def min_max(array: pa.Array, bounds: Bounds) -> tuple[pa.Array, pa.Array]:
    """Return the lower and the upper bound of each batch; no batch may be empty.

    Parameters
    ----------
    array
        An array of a type for which :func:`has_bounds` is true.
    bounds
        The first row of each batch, followed by the total number.
    """
    data_type = array.type
    if is_variable(data_type):
        return _of_texts(array, bounds)
    if pa.types.is_boolean(data_type):
        return _of_booleans(array, bounds)
    if pa.types.is_decimal(data_type):
        return _of_decimals(array, bounds)
    return _of_numbers(array, bounds)


def _of_numbers(array: pa.Array, bounds: Bounds) -> tuple[pa.Array, pa.Array]:
    data_type = array.type
    stored = array.view(f"int{data_type.bit_width}") if pa.types.is_date(data_type) else array
    dtype = np.dtype(stored.type.to_pandas_dtype())
    least, greatest = _limits(dtype)
    valid = None
    if stored.null_count:
        valid = stored.is_valid().to_numpy(zero_copy_only=False)
        stored = pc.fill_null(stored, 0)
    values = stored.to_numpy()
    if dtype.kind == "f":
        numbers = ~np.isnan(values)
        valid = numbers if valid is None else valid & numbers
    starts = bounds[:-1]
    low = np.minimum.reduceat(values if valid is None else np.where(valid, values, greatest), starts)
    high = np.maximum.reduceat(values if valid is None else np.where(valid, values, least), starts)
    if valid is not None:
        some = np.logical_or.reduceat(valid, starts)
        low, high = np.where(some, low, least), np.where(some, high, greatest)
    if dtype.kind == "f":
        low, high = np.where(low == 0, dtype.type(-0.0), low), np.where(high == 0, dtype.type(0.0), high)
    return pa.array(low).view(data_type), pa.array(high).view(data_type)


def _limits(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if dtype.kind == "f":
        return dtype.type(-np.inf), dtype.type(np.inf)
    return dtype.type(np.iinfo(dtype).min), dtype.type(np.iinfo(dtype).max)


def _of_booleans(array: pa.Array, bounds: Bounds) -> tuple[pa.Array, pa.Array]:
    starts = bounds[:-1]
    true = np.logical_or.reduceat(_flags(pc.fill_null(array, False)), starts)
    false = np.logical_or.reduceat(_flags(pc.fill_null(pc.invert(array), False)), starts)
    return pa.array(true & ~false), pa.array(true | ~false)


def _flags(array: pa.Array) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = array.to_numpy(zero_copy_only=False)
    return flags


def _of_decimals(array: pa.Array, bounds: Bounds) -> tuple[pa.Array, pa.Array]:
    """Compute bounds of decimals: as 64-bit integers if they fit, otherwise with Arrow."""
    words = np.frombuffer(array.buffers()[1], "<i8").reshape(-1, 2)[array.offset : array.offset + len(array)]
    if array.null_count:
        words = np.where(array.is_valid().to_numpy(zero_copy_only=False)[:, None], words, 0)
    if (words[:, 1] != words[:, 0] >> 63).any():
        return _of_wide_decimals(array, bounds)
    validity = array.is_valid() if array.null_count else None
    numbers = pa.array(words[:, 0], mask=None if validity is None else pc.invert(validity).to_numpy(False))
    low, high = (each.to_numpy() for each in _of_numbers(numbers, bounds))
    limits = (-_DECIMAL_LIMIT, _DECIMAL_LIMIT - 1)
    empty = np.flatnonzero(null_counts(array, bounds) == np.diff(bounds)).tolist()
    return _widened(array.type, low, empty, limits[0]), _widened(array.type, high, empty, limits[1])


def _widened(
    data_type: pa.DataType, numbers: npt.NDArray[np.int64], empty: list[int], limit: int
) -> pa.Array:
    """Convert 64-bit integers to decimals; empty ones become a limit of 128 bits, beyond the precision."""
    words = np.stack([numbers, numbers >> 63], axis=1).astype("<i8")
    words[empty] = np.frombuffer(limit.to_bytes(16, "little", signed=True), "<i8")
    return pa.Array.from_buffers(data_type, len(words), [None, pa.py_buffer(words)])


def _of_wide_decimals(array: pa.Array, bounds: Bounds) -> tuple[pa.Array, pa.Array]:
    lows, highs = bytearray(), bytearray()
    for start, stop in pairwise(bounds.tolist()):
        part = array.slice(start, stop - start)
        if part.null_count == len(part):
            lows += (-_DECIMAL_LIMIT).to_bytes(16, "little", signed=True)
            highs += (_DECIMAL_LIMIT - 1).to_bytes(16, "little", signed=True)
            continue
        limits = pc.min_max(part)
        lows += _decimal_bytes(limits["min"])
        highs += _decimal_bytes(limits["max"])
    return _decimals(array.type, lows), _decimals(array.type, highs)


def _decimal_bytes(value: pa.Scalar) -> bytes:
    data: bytes = pa.array([value.as_py()], value.type).buffers()[1].to_pybytes()
    return data[:16]


def _decimals(data_type: pa.DataType, data: bytearray) -> pa.Array:
    return pa.Array.from_buffers(data_type, len(data) // 16, [None, pa.py_buffer(bytes(data))])


def _of_texts(array: pa.Array, bounds: Bounds) -> tuple[pa.Array, pa.Array]:
    types = pa.types
    is_text = types.is_string(array.type) or types.is_large_string(array.type)
    is_large = types.is_large_string(array.type) or types.is_large_binary(array.type)
    lows: list[bytes | None] = []
    highs: list[bytes | None] = []
    as_bytes = array.view(pa.large_binary() if is_large else pa.binary())
    lengths = pc.fill_null(pc.binary_length(as_bytes), 0).to_numpy()
    is_cut = np.maximum.reduceat(lengths, bounds[:-1]) > _PREFIX_BYTES
    for cut, (start, stop) in zip(is_cut.tolist(), pairwise(bounds.tolist()), strict=True):
        limits = pc.min_max(as_bytes.slice(start, stop - start))
        low, high = limits["min"].as_py(), limits["max"].as_py()
        if cut:
            low, high = _cut(low, is_text=is_text), _next(_cut(high, is_text=is_text), is_text=is_text)
        lows.append(low)
        highs.append(high)
    return pa.array(lows, as_bytes.type).view(array.type), pa.array(highs, as_bytes.type).view(array.type)


def _cut(value: bytes, *, is_text: bool) -> bytes:
    """Return the first bytes of a value; of a text, only whole code points."""
    end = _PREFIX_BYTES
    while is_text and end < len(value) and value[end] & 0xC0 == 0x80:
        end -= 1
    return value[:end]


def _next(value: bytes, *, is_text: bool) -> bytes | None:
    """Return a larger value of the same length, or None."""
    return _next_text(value) if is_text else _next_bytes(value)


def _next_bytes(value: bytes) -> bytes | None:
    """Return the next larger bytes of the same length, or None if there are none."""
    number = int.from_bytes(value) + 1
    return None if number >> 8 * len(value) else number.to_bytes(len(value))


def _next_text(value: bytes) -> bytes | None:
    """Return a larger text of the same length, or None; as in pylance, the last byte that can grow grows."""
    for index in reversed(range(len(value))):
        for byte in range(value[index] + 1, 256):
            larger = value[:index] + bytes([byte]) + value[index + 1 :]
            if _is_text(larger):
                return larger
    return None


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
