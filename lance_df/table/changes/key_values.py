"""Keys of merges: brought to a form in which equal ones have equal bits, and reduced to 64 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.arrays import fixed_width_bits
from lance_df.expr.literals import plain_array

if TYPE_CHECKING:
    import numpy.typing as npt

    Words = npt.NDArray[np.uint64]

_WORD_BYTES = 8


def is_comparable(data_type: pa.DataType) -> bool:
    """Whether values of this type can be keys."""
    return not pa.types.is_nested(data_type)


def comparable(array: pa.Array) -> pa.Array:
    """Return the keys in a form in which equality is equality of bits.

    As in DataFusion's joins, NaN equals NaN and -0.0 equals 0.0.
    """
    values = plain_array(array)
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    if pa.types.is_floating(values.type):
        nan = pa.scalar(float("nan"), values.type)
        values = pc.if_else(pc.is_nan(values), nan, pc.add(values, pa.scalar(0.0, values.type)))
    return values


def fingerprints(values: pa.Array) -> Words | None:
    """Return 64 bits of each value: equal ones for equal values, any for nulls; None for unsuitable types."""
    data_type = values.type
    if pa.types.is_boolean(data_type):
        return None
    if not len(values):
        return np.empty(0, np.uint64)
    bits = fixed_width_bits(data_type)
    if bits is not None:
        return _of_fixed_width(values, bits // 8)
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        return _of_texts(values, np.int32)
    if pa.types.is_large_string(data_type) or pa.types.is_large_binary(data_type):
        return _of_texts(values, np.int64)
    return None


def _of_fixed_width(values: pa.Array, width: int) -> Words:
    data = np.frombuffer(values.buffers()[1], np.uint8)
    used = data[values.offset * width : (values.offset + len(values)) * width]
    if width in (1, 2, 4, 8):
        return used.view(f"<u{width}").astype(np.uint64, copy=False)
    rows = used.reshape(len(values), width)
    head, tail = rows[:, :_WORD_BYTES], rows[:, max(width - _WORD_BYTES, 0) :]
    return _words(head) ^ (_words(tail) << np.uint64(1))


def _words(columns: npt.NDArray[np.uint8]) -> Words:
    padded = np.zeros((len(columns), _WORD_BYTES), np.uint8)
    padded[:, : columns.shape[1]] = columns
    return padded.view("<u8").reshape(len(columns)).astype(np.uint64, copy=False)


def _of_texts(values: pa.Array, offset_type: type[np.int32 | np.int64]) -> Words:
    """Return a mix of the first and last bytes and the length, by unaligned reads of whole words."""
    offsets = np.frombuffer(values.buffers()[1], offset_type)
    offsets = offsets[values.offset : values.offset + len(values) + 1].astype(np.int64)
    stored = values.buffers()[2]
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    data = np.zeros(last - first + 2 * _WORD_BYTES, np.uint8)
    if stored is not None:
        data[_WORD_BYTES : _WORD_BYTES + last - first] = np.frombuffer(stored, np.uint8)[first:last]
    words = np.lib.stride_tricks.as_strided(
        data[: _WORD_BYTES * (len(data) // _WORD_BYTES)].view("<u8"),
        shape=(len(data) - _WORD_BYTES + 1,),
        strides=(1,),
        writeable=False,
    )
    starts = offsets[:-1] - first + _WORD_BYTES
    lengths = np.diff(offsets)
    unused = np.uint64(8) * (np.uint64(_WORD_BYTES) - np.minimum(lengths, _WORD_BYTES).astype(np.uint64))
    # shifts of a whole word are undefined: empty texts have no bytes to keep
    keep = np.where(lengths > 0, np.uint64(2**64 - 1), np.uint64(0))
    unused = np.where(lengths > 0, unused, np.uint64(0))
    heads = (words[starts] << unused) & keep
    tails = (words[starts + lengths - _WORD_BYTES] >> unused) & keep
    return heads ^ (tails * np.uint64(0x9E3779B97F4A7C15)) ^ lengths.astype(np.uint64)
