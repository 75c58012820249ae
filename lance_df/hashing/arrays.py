"""Convert Arrow arrays to canonical bytes and hash these; the package's docstring defines both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.kernels import hashing
from lance_df.errors import InvalidInputError

_Offsets: TypeAlias = npt.NDArray[np.int32] | npt.NDArray[np.int64]

_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_NAN_BITS = np.int64(0x7FF8000000000000)


def murmur3(values: pa.Array) -> pa.Int32Array:
    """Return the hash of each value; NULL for NULL.

    Raises
    ------
    InvalidInputError
        The type is nested, or has no canonical bytes for another reason.
    """
    plain = _plain(values)
    if pa.types.is_null(plain.type):
        return pa.nulls(len(plain), pa.int32())
    # memory of Arrow's pool is used again, numpy's is taken from the system anew; the null mask starts in its
    # first byte
    first = plain.offset % 8
    out = pa.allocate_buffer(4 * (first + len(plain)))
    hashes = np.frombuffer(out, np.uint32)[first:]
    if (words := _as_int64(plain)) is not None:
        hashing.murmur3_words(np.ascontiguousarray(words).view(np.uint8), hashes)
    else:
        _hash_bytes(*_as_bytes(plain), hashes)
    validity = plain.buffers()[0].slice(plain.offset // 8) if plain.null_count else None
    return pa.Array.from_buffers(pa.int32(), len(plain), [validity, out], offset=first)


def murmur3_multi(columns: Sequence[pa.Array]) -> pa.Int32Array:
    """Return the hash of each row over all columns; NULL if all of them are NULL.

    Raises
    ------
    InvalidInputError
        There is no column, the lengths differ, or a type has no canonical bytes.
    """
    if not columns or len({len(column) for column in columns}) != 1:
        raise InvalidInputError("murmur3_multi needs at least one column, and columns of equal length")
    empty = pa.scalar(b"", pa.large_binary())
    # not null_handling="skip": with it pyarrow 26 drops rows in which all are null
    parts = [pc.fill_null(canonical_bytes(column), empty) for column in columns]
    joined = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, empty)
    is_null = np.logical_and.reduce([_null_mask(column) for column in columns])
    hashes = np.empty(len(joined), np.uint32)
    _hash_bytes(*_as_bytes(joined), hashes)
    return pa.array(hashes.view(np.int32), mask=is_null)


def murmur3_of_lists(keys: pa.ListArray) -> pa.Int32Array:
    """Return the hash of each list of canonical bytes, as `murmur3_multi` computes it from columns."""
    items = keys.flatten().cast(pa.large_binary())
    present = pc.fill_null(items, pa.scalar(b"", pa.large_binary()))
    item_offsets, data = _as_bytes(present)
    num_present = np.concatenate(([0], np.cumsum(~_null_mask(items))))
    lengths = pc.fill_null(pc.list_value_length(keys), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    bounds = np.concatenate(([0], np.cumsum(lengths)))
    hashes = np.empty(len(keys), np.uint32)
    _hash_bytes(item_offsets[bounds], data, hashes)
    has_value = np.diff(num_present[bounds]) > 0
    return pa.array(hashes.view(np.int32), mask=~has_value)


def _null_mask(values: pa.Array) -> npt.NDArray[np.bool_]:
    mask: npt.NDArray[np.bool_] = values.is_null().to_numpy(zero_copy_only=False)
    return mask


def _plain(values: pa.Array) -> pa.Array:
    """Return the values without extension types, dictionaries and views."""
    while True:
        if isinstance(values, pa.ExtensionArray):
            values = values.storage
        elif isinstance(values, pa.DictionaryArray):
            values = values.dictionary_decode()
        elif pa.types.is_string_view(values.type):
            values = values.cast(pa.large_string())
        elif pa.types.is_binary_view(values.type):
            values = values.cast(pa.large_binary())
        else:
            return values


def _as_int64(values: pa.Array) -> npt.NDArray[np.int64] | None:
    """Return values that hash as 8 bytes; None for other types. Null slots are arbitrary."""
    kind, kinds = values.type, pa.types
    if kinds.is_primitive(kind) and values.null_count:
        values = pa.Array.from_buffers(kind, len(values), [None, values.buffers()[1]], offset=values.offset)
    if kinds.is_boolean(kind):
        return values.cast(pa.int64()).to_numpy()
    if kinds.is_integer(kind):
        return values.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    if kinds.is_floating(kind):
        doubles = values.to_numpy(zero_copy_only=False).astype(np.float64) + 0.0
        bits = doubles.view(np.int64)
        return np.where(np.isnan(doubles), _NAN_BITS, bits)
    if kinds.is_date32(kind):
        return values.cast(pa.int32()).cast(pa.int64()).to_numpy()
    if kinds.is_date64(kind):
        return np.floor_divide(values.cast(pa.int64()).to_numpy(), 86_400_000)
    if kinds.is_time32(kind):
        return _microseconds(values.cast(pa.int32()).cast(pa.int64()), kind.unit)
    if kinds.is_timestamp(kind) or kinds.is_time64(kind) or kinds.is_duration(kind):
        return _microseconds(values.cast(pa.int64()), kind.unit)
    return None


def _microseconds(values: pa.Array, unit: str) -> npt.NDArray[np.int64]:
    numbers = values.to_numpy()
    with np.errstate(over="ignore"):
        return np.floor_divide(numbers, 1000) if unit == "ns" else numbers * np.int64(_MICROSECONDS[unit])


def canonical_bytes(values: pa.Array) -> pa.Array:
    """Return the canonical bytes of each value as large binary, NULL for NULL.

    Raises
    ------
    InvalidInputError
        As for :func:`murmur3`.
    """
    plain = _plain(values)
    if pa.types.is_null(plain.type):
        return pa.nulls(len(plain), pa.large_binary())
    words = _as_int64(plain)
    if words is None:
        return _large_binary(plain)
    data = pa.py_buffer(np.ascontiguousarray(words))
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(8), len(words), [None, data])
    return pc.if_else(plain.is_valid(), fixed.cast(pa.large_binary()), pa.scalar(None, pa.large_binary()))


def _large_binary(plain: pa.Array) -> pa.Array:
    kinds = pa.types
    if kinds.is_decimal(plain.type):
        return _decimal_bytes(plain)
    if _has_offsets(plain.type) or kinds.is_fixed_size_binary(plain.type):
        return plain.cast(pa.large_binary())
    raise InvalidInputError(f"murmur3 is not defined for values of type {plain.type}")


def _has_offsets(data_type: pa.DataType) -> bool:
    kinds = pa.types
    is_text = kinds.is_string(data_type) or kinds.is_large_string(data_type)
    return is_text or kinds.is_binary(data_type) or kinds.is_large_binary(data_type)


def _as_bytes(plain: pa.Array) -> tuple[_Offsets, pa.Buffer | None]:
    """Return offsets and data of the canonical bytes. Null slots are arbitrary."""
    values = plain if _has_offsets(plain.type) else _large_binary(plain)
    _, offsets, data = values.buffers()
    is_large = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    kind: Any = np.int64 if is_large else np.int32
    all_offsets: npt.NDArray[Any] = np.frombuffer(offsets, kind) if offsets else np.zeros(1, kind)
    return all_offsets[values.offset : values.offset + len(values) + 1], data


def _hash_bytes(offsets: _Offsets, data: pa.Buffer | None, out: npt.NDArray[np.uint32]) -> None:
    """Hash the bytes between consecutive offsets."""
    content = np.frombuffer(data or b"", np.uint8)
    hashing.murmur3_bytes(offsets.view(np.uint8), offsets.itemsize, content, out)


def _decimal_bytes(values: pa.Array) -> pa.Array:
    """Return decimals as their canonical bytes."""
    width = values.type.bit_width // 8
    start = values.offset * width
    # also of null slots, as pyarrow's kernels give decimals of negative scale another scale
    raw = np.frombuffer(values.buffers()[1] or b"", np.uint8)[start : start + len(values) * width]
    wide = _sign_extended(raw.reshape(len(values), width))
    lengths, data = np.empty(len(wide), np.int64), np.empty((len(wide), 33), np.uint8)
    hashing.decimal_bytes(wide.reshape(-1), values.type.scale, lengths, data.reshape(-1))
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    packed = data[np.arange(data.shape[1]) < lengths[:, None]]
    joined = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(packed)]
    )
    return pc.if_else(values.is_valid(), joined, pa.scalar(None, pa.large_binary()))


def _sign_extended(rows: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint64]:
    """Return each value as four little-endian 64-bit words."""
    wide = np.empty((len(rows), 32), np.uint8)
    wide[:, : rows.shape[1]] = rows
    wide[:, rows.shape[1] :] = np.where(rows[:, -1:] >= 128, 255, 0)
    return wide.view(np.uint64)
