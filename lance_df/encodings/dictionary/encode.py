"""Dictionary-encode pages that repeat few values. Format: docs/format/dictionary.md."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.leaf_values import FixedValues, VariableValues, leaf_values, pack_bits
from lance_df.records import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.codecs.encode_options import EncodingOptions

CodableValues: TypeAlias = FixedValues | VariableValues


@dataclass(frozen=True, slots=True)
class CodedValues:
    """Codes of 32 bits and the values that they stand for; ``num_bytes`` estimates the size of both.

    ``is_clear_win`` says that no other encoding can be expected to be smaller.
    """

    codes: FixedValues
    dictionary: CodableValues
    num_bytes: int
    is_clear_win: bool


_CLEAR_WIN_RATIO = 0.25
_MIN_ROWS = 100
_MAX_VALUES = 100_000
_SAMPLE_ROWS = (512, 4096)
_FEW_EQUAL = 4
_FEW_ROWS = 65_536


def find_dictionary(
    values: CodableValues, valid: npt.NDArray[np.bool_] | None, options: EncodingOptions, *, num_bytes: int
) -> CodedValues | None:
    """Dictionary-encode values if that saves enough.

    Parameters
    ----------
    values
        Values of 8 or 16 bytes, or of variable width.
    valid
        Which values are valid; codes of others are arbitrary. None if all are valid.
    num_bytes
        The size of the values without a dictionary.
    """
    if options.is_plain or len(values) < _MIN_ROWS:
        return None
    limit = int(num_bytes * options.dictionary_ratio)
    most = min(_MAX_VALUES, len(values) // options.dictionary_divisor)
    array = _array(values, valid)
    guess = _guess_distinct(array)
    if guess > most or _coded_bytes(values, guess) > limit:
        return None
    coded = array.dictionary_encode()
    dictionary = _dictionary_values(coded.dictionary, values)
    coded_bytes = _size(dictionary) + _code_bytes(len(values), len(dictionary))
    if len(dictionary) > most or coded_bytes > limit:
        return None
    indices = coded.indices
    if indices.null_count:  # nulls continue runs
        indices = pc.fill_null(pc.fill_null_forward(indices), 0)
    codes = leaf_values(indices)
    if not isinstance(codes, FixedValues):
        raise TypeError(f"unexpected type of dictionary codes: {indices.type}")
    return CodedValues(codes, dictionary, coded_bytes, coded_bytes < num_bytes * _CLEAR_WIN_RATIO)


def _array(values: CodableValues, valid: npt.NDArray[np.bool_] | None) -> pa.Array:
    """Return the values as an array of a type that compares their bytes."""
    bitmap = None if valid is None else pa.py_buffer(pack_bits(valid))
    if isinstance(values, VariableValues):
        buffers = [bitmap, pa.py_buffer(values.offsets), pa.py_buffer(values.data)]
        return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)
    data_type = pa.uint64() if values.width_bytes == 8 else pa.binary(values.width_bytes)
    return pa.Array.from_buffers(data_type, len(values), [bitmap, pa.py_buffer(values.data)])


def _dictionary_values(distinct: pa.Array, like: CodableValues) -> CodableValues:
    values = leaf_values(distinct)
    if isinstance(like, VariableValues) and isinstance(values, VariableValues):
        return VariableValues(values.offsets, values.data, like.offset_bits)
    if isinstance(values, FixedValues):
        return values
    raise TypeError(f"unexpected type of dictionary values: {distinct.type}")


def _guess_distinct(array: pa.Array) -> int:
    """Estimate the number of distinct values from the number of equal values in a sample."""
    for size in _SAMPLE_ROWS:
        if size >= len(array):
            return _num_distinct(array)
        distinct = _num_distinct(array.take(_sample(len(array), size)))
        # hardly any equal values in a small sample mean too many distinct values for a page of few rows
        if distinct > size - _FEW_EQUAL and len(array) <= _FEW_ROWS:
            break
    if distinct <= size // 2:
        return distinct
    return max(distinct, size * size // (2 * max(1, size - distinct)))


def _num_distinct(array: pa.Array) -> int:
    return int(pc.count_distinct(array, mode="all").as_py())


@lru_cache(maxsize=16)
def _sample(num_rows: int, size: int) -> pa.Array:
    """Return random positions; every n-th row might coincide with a period of the data."""
    return pa.array(np.random.default_rng(0).integers(0, num_rows, size))


def _coded_bytes(values: CodableValues, num_distinct: int) -> int:
    """Return the estimated size of a dictionary of ``num_distinct`` values and its codes."""
    return _size(values) * num_distinct // len(values) + _code_bytes(len(values), num_distinct)


def _size(values: CodableValues) -> int:
    return values.num_bytes if isinstance(values, VariableValues) else len(values.data)


def _code_bytes(num_values: int, num_distinct: int) -> int:
    return num_values * max(1, (num_distinct - 1).bit_length()) // 8
