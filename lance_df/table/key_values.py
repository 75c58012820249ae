"""Keys of merges: convert them so that equal keys have equal bits, and hash them to 64 bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings import kernels
from lance_df.encodings.arrays import OversizedArrayError, fixed_width_bits, one_array
from lance_df.encodings.kernels.keys import mix_words
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.expr.literals import plain_array, without_views

if TYPE_CHECKING:
    import numpy.typing as npt

    Words = npt.NDArray[np.uint64]

_WORD_BYTES = 8
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_BYTES = pa.large_binary()
_NULL, _VALID = pa.scalar(b"\0", _BYTES), pa.scalar(b"\1", _BYTES)
_HALF_WORD = np.uint64(32)


def is_comparable(data_type: pa.DataType) -> bool:
    """Whether values of this type can be keys."""
    types = pa.types
    if types.is_map(data_type) or types.is_union(data_type) or types.is_run_end_encoded(data_type):
        return False
    return all(is_comparable(data_type.field(number).type) for number in range(data_type.num_fields))


def key_columns(rows: pa.Table, names: Sequence[str]) -> list[pa.Array]:
    """Return the named columns as keys, one array each.

    Raises
    ------
    InvalidInputError
        A column is too large for one array.
    UnsupportedFeatureError
        A column has a type that keys cannot have.
    """
    keys = []
    for name in names:
        column = rows.column(name)
        if not is_comparable(column.type):
            raise UnsupportedFeatureError(
                f"key column {name!r} has type {column.type}, which is not supported for keys"
            )
        try:
            keys.append(one_array(column))
        except OversizedArrayError as err:
            raise InvalidInputError(f"the keys {name!r} are too large for one array: {err}") from err
    return keys


def comparable(array: pa.Array) -> pa.Array:
    """Convert keys so that two keys are equal if their bits are.

    As in DataFusion's joins, NaN equals NaN and -0.0 equals 0.0. Structs and lists become bytes. Nulls within
    them equal each other; a struct or list that is null itself stays null.
    """
    values = without_views(plain_array(array))
    if pa.types.is_nested(values.type):
        return pc.if_else(values.is_valid(), _self_delimiting(values), pa.scalar(None, _BYTES))
    if pa.types.is_boolean(values.type) or pa.types.is_null(values.type):
        return values.cast(pa.uint8())
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    if pa.types.is_floating(values.type):
        nan = pa.scalar(float("nan"), values.type)
        values = pc.if_else(pc.is_nan(values), nan, pc.add(values, pa.scalar(0.0, values.type)))
    return values


def _self_delimiting(array: pa.Array) -> pa.Array:
    """Return each value as bytes that do not start another value's: whether it is null, then its content."""
    if not pa.types.is_nested(array.type):
        array = comparable(array)
    if pa.types.is_null(array.type):
        return pa.repeat(_NULL, len(array))
    parts = [pa.repeat(_VALID, len(array)), *_contents(array)]
    whole = pc.binary_join_element_wise(*parts, pa.scalar(b"", _BYTES), null_handling="replace")
    return pc.if_else(array.is_valid(), whole, _NULL) if array.null_count else whole


def _contents(array: pa.Array) -> list[pa.Array]:
    types = pa.types
    if types.is_struct(array.type):
        # slicing a struct array does not slice its fields
        return [_self_delimiting(pc.struct_field(array, number)) for number in range(array.type.num_fields)]
    if types.is_nested(array.type):
        lengths = pc.list_value_length(array).fill_null(0).cast(pa.int64())
        offsets = np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))])
        items = pa.LargeListArray.from_arrays(pa.array(offsets), _self_delimiting(pc.list_flatten(array)))
        return [_fixed_bytes(lengths), pc.binary_join(items, pa.scalar(b"", _BYTES))]
    if fixed_width_bits(array.type) is not None:
        return [_fixed_bytes(array)]
    return [_fixed_bytes(pc.binary_length(array).fill_null(0).cast(pa.int64())), array.cast(_BYTES)]


def _fixed_bytes(array: pa.Array) -> pa.Array:
    return array.view(pa.binary((fixed_width_bits(array.type) or 0) // 8)).cast(_BYTES)


def hashes(columns: Sequence[pa.Array]) -> Words:
    """Return a hash of each key; its high bits are better mixed than its low bits.

    Parameters
    ----------
    columns
        One array for each part of the keys, from :func:`comparable`. The hashes of keys with nulls have no
        meaning.
    """
    hashed = np.zeros(len(columns[0]), np.uint64)
    for column in columns:
        if len(column) > column.null_count:
            _mix_column(hashed, column)
    return hashed


def _mix_column(hashed: Words, column: pa.Array) -> None:
    bits = fixed_width_bits(column.type)
    if bits is None:
        _mix_texts(hashed, column)
        return
    for words in _fixed_width_words(column, bits // 8):
        _mix(hashed, words)


def _mix(hashed: Words, words: npt.NDArray[np.unsignedinteger[Any]]) -> None:
    """Mix one more word into each hash, in place."""
    if kernels.COMPILED:
        mix_words(hashed, words.view(np.uint8), words.itemsize, _MULTIPLIER)
        return
    np.bitwise_xor(hashed, hashed >> _HALF_WORD, out=hashed)
    np.bitwise_xor(hashed, words, out=hashed)
    np.multiply(hashed, _MULTIPLIER, out=hashed)


def _fixed_width_words(values: pa.Array, width: int) -> Iterator[npt.NDArray[np.unsignedinteger[Any]]]:
    data = np.frombuffer(values.buffers()[1], np.uint8)
    used = data[values.offset * width : (values.offset + len(values)) * width]
    if width in (1, 2, 4, 8):
        yield used.view(f"<u{width}")
        return
    rows = used.reshape(len(values), width)
    for start in range(0, width, _WORD_BYTES):
        part = rows[:, start : start + _WORD_BYTES]
        padded = np.zeros((len(values), _WORD_BYTES), np.uint8)
        padded[:, : part.shape[1]] = part
        yield padded.view("<u8").reshape(len(values))


def _mix_texts(hashed: Words, values: pa.Array) -> None:
    """Mix the length and all bytes of each text in, one word at a time."""
    is_large = pa.types.is_large_string(values.type) or pa.types.is_large_binary(values.type)
    offsets = np.frombuffer(values.buffers()[1], np.int64 if is_large else np.int32)
    offsets = offsets[values.offset : values.offset + len(values) + 1].astype(np.int64)
    starts, lengths = offsets[:-1], np.diff(offsets)
    _mix(hashed, lengths.astype(np.uint64))
    words = _words_at_any_byte(values.buffers()[2], int(offsets[-1]))
    left = np.flatnonzero(lengths)
    done = 0
    while len(left):
        chunk = words[starts[left] + done]
        missing = np.maximum(_WORD_BYTES - (lengths[left] - done), 0).astype(np.uint64)
        chunk <<= np.uint64(8) * missing
        mixed = hashed[left]
        _mix(mixed, chunk)
        hashed[left] = mixed
        done += _WORD_BYTES
        left = left[lengths[left] > done]


def _words_at_any_byte(buffer: pa.Buffer | None, size: int) -> Words:
    """Return the eight-byte word that starts at each of the first ``size`` bytes."""
    data = np.zeros(size + 2 * _WORD_BYTES, np.uint8)
    if buffer is not None and size:
        data[:size] = np.frombuffer(buffer, np.uint8)[:size]
    aligned = data[: len(data) // _WORD_BYTES * _WORD_BYTES].view("<u8")
    return np.lib.stride_tricks.as_strided(aligned, shape=(size + 1,), strides=(1,), writeable=False)
