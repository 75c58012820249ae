"""Runs of neighbouring rows that are equal in some columns, and sums over the runs.

Tables often store the rows of one order, user or day next to each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings import kernels
from lance_df.encodings.kernels import run_sums
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

# If runs are hardly longer than this on average, gathering their rows does not pay.
_MIN_RUN_ROWS: Final = 1.3
# sums of this many numbers with up to 15 digits fit into 64 bits
MAX_RUN_ROWS: Final = 4096
_SHORT_DIGITS: Final = 15
_MAX_DIGITS: Final = 18
_MORE_DIGITS: Final = 10
_MAX_SUM: Final = 2**62


def summed_type(data_type: pa.DataType) -> pa.DataType | None:
    """Return the type of the sums of runs of a type; None if such values are not summed.

    The types are those of DataFusion's sums: 64-bit integers, which wrap around, decimals with ten more
    digits, and 64-bit floats.
    """
    if pa.types.is_decimal128(data_type) and data_type.precision <= _MAX_DIGITS:
        return pa.decimal128(data_type.precision + _MORE_DIGITS, data_type.scale)
    if pa.types.is_signed_integer(data_type):
        return pa.int64()
    if pa.types.is_unsigned_integer(data_type):
        return pa.uint64()
    return pa.float64() if data_type in (pa.float32(), pa.float64()) else None


class SummedColumn:
    """The values of a column to sum.

    Parameters
    ----------
    values
        Values of a type that has a `summed_type`.
    data_type
        The type of the sums.
    """

    def __init__(self, values: pa.Array, data_type: pa.DataType) -> None:
        self._values = values
        self._type = data_type

    @property
    def max_rows(self) -> int:
        """The maximum number of rows of a sum."""
        data_type = self._values.type
        if not pa.types.is_decimal128(data_type) or data_type.precision <= _SHORT_DIGITS:
            return MAX_RUN_ROWS
        numbers, step = self._numbers()
        numbers = numbers[::step]
        largest = max(-int(numbers.min(initial=0)), int(numbers.max(initial=0)), 1)
        return max(1, _MAX_SUM // largest)

    def each(self) -> pa.Array:
        """Return the values as sums of one row each."""
        return self._values.cast(self._type)

    def of_runs(self, runs: Runs) -> pa.Array:
        """Return the sum of each run."""
        numbers, step = self._numbers()
        width = 2 if pa.types.is_decimal128(self._type) else 1
        sums = _sums(numbers, step, runs, width)
        has_values = None
        if self._values.null_count:
            valid = np.logical_or.reduceat(_valid(self._values), runs.starts)
            has_values = pa.py_buffer(np.packbits(valid, bitorder="little"))
        return pa.Array.from_buffers(self._type, len(runs.ends), [has_values, pa.py_buffer(sums)])

    def _numbers(self) -> tuple[npt.NDArray[Any], int]:
        """Return the values as 64-bit numbers, 0 for NULL, and the step from one number to the next."""
        values = self._values
        if not pa.types.is_decimal128(values.type):
            filled = values.fill_null(0) if values.null_count else values
            return filled.cast(self._type).to_numpy(), 1
        # numbers with up to 18 digits are in the lower half
        words = np.frombuffer(values.buffers()[1], np.int64)
        words = words[2 * values.offset : 2 * (values.offset + len(values))]
        return (np.where(_valid(values), words[::2], 0), 1) if values.null_count else (words, 2)


def _sums(numbers: npt.NDArray[Any], step: int, runs: Runs, width: int) -> npt.NDArray[Any]:
    if numbers.dtype.kind == "f" or not kernels.COMPILED:
        with np.errstate(all="ignore"):  # infinities of both signs add up to NaN
            sums = np.add.reduceat(numbers[::step], runs.starts)
        return sums if width == 1 else np.column_stack((sums, sums >> 63))
    out = np.empty(len(runs.ends) * width, np.int64)
    run_sums.add_up_runs(numbers.view(np.int64), step, runs.begins, width, out)
    return out


def _valid(values: pa.Array) -> npt.NDArray[np.bool_]:
    is_valid: npt.NDArray[np.bool_] = values.is_valid().to_numpy(zero_copy_only=False)
    return is_valid


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a batch: their ends, their keys, and for each row whether it begins a run."""

    ends: npt.NDArray[np.int64]
    keys: list[pa.Array]
    begins: npt.NDArray[np.uint8]

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """The index of the first row of each run."""
        return np.append(0, self.ends[:-1])


def find_runs(keys: Sequence[pa.Array], num_rows: int, max_rows: int) -> Runs | None:
    """Return the runs of equal keys; None if there are nearly as many runs as rows.

    Parameters
    ----------
    max_rows
        The maximum number of rows of a run.
    """
    most = int(num_rows / _MIN_RUN_ROWS)
    if not most:
        return None
    longest = 1 << (min(max_rows, MAX_RUN_ROWS).bit_length() - 1)
    words = _words(keys[0]) if len(keys) == 1 and not keys[0].null_count else None
    if words is not None and words.ndim == 1 and words.itemsize >= 4 and kernels.COMPILED:
        # numpy memory, because each thread would hold on to some of the memory that Arrow allocates
        begins, ends = np.empty(num_rows, np.uint8), np.empty(num_rows, np.int64)
        key_words = np.empty(num_rows, words.dtype)
        count = run_sums.find_runs(
            words.view(np.uint8), words.itemsize, longest, begins, key_words.view(np.uint8), ends
        )
        array = pa.Array.from_buffers(keys[0].type, count, [None, pa.py_buffer(key_words)])
        return None if count > most else Runs(ends[:count], [array], begins)
    marks = run_starts(keys, num_rows, longest)
    starts = np.flatnonzero(marks)
    if len(starts) > most:
        return None
    indices = pa.array(starts)
    return Runs(np.append(starts[1:], num_rows), [each.take(indices) for each in keys], marks.view(np.uint8))


def run_starts(keys: Sequence[pa.Array], num_rows: int, longest: int) -> npt.NDArray[np.bool_]:
    """Return for each row whether it begins a run."""
    begins = np.zeros(num_rows, np.bool_)
    begins[::longest] = True
    for values in keys:
        begins[1:] |= _changes(values)
    return begins


def _changes(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Return for each value but the first whether it differs from its predecessor. NULL equals NULL."""
    words = _words(values)
    if words is None:
        different = pc.not_equal(values.slice(1), values.slice(0, max(0, len(values) - 1)))
        differs = different.fill_null(False).to_numpy(zero_copy_only=False)
    else:
        differs = words[1:] != words[:-1]
        if differs.ndim > 1:
            differs = differs.any(axis=1)
    if values.null_count:
        valid = _valid(values)
        differs = differs & valid[1:] & valid[:-1] | (valid[1:] != valid[:-1])
    changes: npt.NDArray[np.bool_] = differs
    return changes


def _words(values: pa.Array) -> npt.NDArray[Any] | None:
    """Return the bits of values whose width is a whole number of bytes; None for other types."""
    data_type = values.type
    if pa.types.is_decimal128(data_type):
        words = np.frombuffer(values.buffers()[1], np.uint64).reshape(-1, 2)
    elif pa.types.is_primitive(data_type) and data_type.bit_width % 8 == 0:
        # floats as well: NaN equals NaN if the bits are equal, and 0.0 differs from -0.0
        words = np.frombuffer(values.buffers()[1], f"u{data_type.bit_width // 8}")
    else:
        return None
    return words[values.offset : values.offset + len(values)]


def are_compared(data_type: pa.DataType) -> bool:
    """Whether runs of equal values can be found for a type."""
    is_fixed = pa.types.is_primitive(data_type) or pa.types.is_decimal128(data_type)
    return is_fixed or any(data_type == each for each in _COMPARED)


_COMPARED: Final = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
