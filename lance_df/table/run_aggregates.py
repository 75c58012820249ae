"""Runs of rows that are equal in what is asked for, each as one row with the count and the sums of its rows.

Tables often hold the rows of one order, user or day next to each other. Who adds up counts and sums of such
rows gets the same of fewer: it does not matter where a run ends, so batches are looked at one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings import kernels
from lance_df.encodings.plan import RowRange
from lance_df.errors import LanceError
from lance_df.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from lance_df.table.table import Table

# Runs that are hardly longer are not worth gathering their rows.
_MIN_RUN_ROWS: Final = 1.3
# sums of so many rows with up to 15 digits fit into 64 bits
_MAX_RUN_ROWS: Final = 4096
_SHORT_DIGITS: Final = 15
_MAX_DIGITS: Final = 18
_MORE_DIGITS: Final = 10
_MAX_SUM: Final = 2**62
_LOOKED_AT: Final = 1024


@dataclass(frozen=True, slots=True)
class RunSum:
    """The sum of a column over the rows of a run, as a column of its own ``name``.

    With ``counts`` it is the number of its values that are not NULL.
    """

    column: str
    name: str
    data_type: pa.DataType
    counts: bool = False


@dataclass(frozen=True, slots=True)
class RunAggregates:
    """Columns that tell of runs of rows: how many there are, and sums.

    Who asks for some of them and for columns of the table gets one row for rows that are next to each other
    and equal in these columns, or several that add up to the same.
    """

    count_as: str
    sums: tuple[RunSum, ...] = ()

    @property
    def fields(self) -> list[pa.Field]:
        """The columns; no count is NULL, and a sum is that of no values."""
        sums = [pa.field(each.name, each.data_type) for each in self.sums]
        return [pa.field(self.count_as, pa.int64(), nullable=False), *sums]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of these columns."""
        return (self.count_as, *(each.name for each in self.sums))

    def among(self, names: Collection[str]) -> RunAggregates | None:
        """Return those that some names are of; None if none is."""
        sums = tuple(each for each in self.sums if each.name in names)
        return RunAggregates(self.count_as, sums) if sums or self.count_as in names else None

    def stored(self, names: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of the table that some names need."""
        summed = [each.column for each in self.sums if each.name in names]
        return tuple(dict.fromkeys([*(name for name in names if name not in self.names), *summed]))

    def apply(self, batch: pa.RecordBatch, keys: Sequence[str]) -> pa.RecordBatch:
        """Return the keys, the count and all sums of the runs of a batch."""
        arrays = [batch[name] for name in keys]
        columns = [_summed(batch[each.column], each) for each in self.sums]
        longest = min([_MAX_RUN_ROWS, *(column.max_rows for column in columns)])
        runs = _runs(arrays, batch.num_rows, longest)
        if runs is None:
            counts = pa.repeat(_ONE, batch.num_rows)
            sums = [column.each() for column in columns]
        else:
            arrays = runs.keys
            counts = pa.array(np.diff(runs.ends, prepend=0), pa.int64())
            sums = [column.of_runs(runs) for column in columns]
        return pa.RecordBatch.from_arrays([*arrays, counts, *sums], [*keys, *self.names])


_ONE: Final = pa.scalar(1, pa.int64())


def summed_type(data_type: pa.DataType) -> pa.DataType | None:
    """Return what sums of runs of a type are; None for a type of which there are none.

    They are what DataFusion makes of it: integers of 64 bits, which start anew from their least after their
    largest value, decimals of ten more digits, and floats of 64 bits.
    """
    if pa.types.is_decimal128(data_type) and data_type.precision <= _MAX_DIGITS:
        return pa.decimal128(data_type.precision + _MORE_DIGITS, data_type.scale)
    if pa.types.is_signed_integer(data_type):
        return pa.int64()
    if pa.types.is_unsigned_integer(data_type):
        return pa.uint64()
    return pa.float64() if data_type in (pa.float32(), pa.float64()) else None


def _summed(values: pa.Array, how: RunSum) -> _Summed:
    return _Summed(values.is_valid().cast(how.data_type) if how.counts else values, how.data_type)


class _Summed:
    """A column of which sums are wanted."""

    def __init__(self, values: pa.Array, data_type: pa.DataType) -> None:
        self._values = values
        self._type = data_type

    @property
    def max_rows(self) -> int:
        """Of how many rows sums may be made at once."""
        data_type = self._values.type
        if not pa.types.is_decimal128(data_type) or data_type.precision <= _SHORT_DIGITS:
            return _MAX_RUN_ROWS
        numbers, step = self._numbers()
        numbers = numbers[::step]
        largest = max(-int(numbers.min(initial=0)), int(numbers.max(initial=0)), 1)
        return max(1, _MAX_SUM // largest)

    def each(self) -> pa.Array:
        """Return the values as sums of a single row."""
        return self._values.cast(self._type)

    def of_runs(self, runs: _Runs) -> pa.Array:
        """Return the sums of runs."""
        numbers, step = self._numbers()
        width = 2 if pa.types.is_decimal128(self._type) else 1
        sums = _sums(numbers, step, runs, width)
        found = pa.Array.from_buffers(self._type, len(runs.ends), [None, pa.py_buffer(sums)])
        if not self._values.null_count:
            return found
        has_values = np.logical_or.reduceat(_valid(self._values), runs.starts)
        return pc.if_else(pa.array(has_values), found, pa.scalar(None, self._type))

    def _numbers(self) -> tuple[npt.NDArray[Any], int]:
        """Return the values as numbers of 64 bits, 0 for NULL, and how far one is from the next."""
        values = self._values
        if not pa.types.is_decimal128(values.type):
            filled = values.fill_null(0) if values.null_count else values
            return filled.cast(self._type).to_numpy(), 1
        # up to 18 digits are in the lower half
        words = np.frombuffer(values.buffers()[1], np.int64)
        words = words[2 * values.offset : 2 * (values.offset + len(values))]
        return (np.where(_valid(values), words[::2], 0), 1) if values.null_count else (words, 2)


def _sums(numbers: npt.NDArray[Any], step: int, runs: _Runs, width: int) -> npt.NDArray[Any]:
    if numbers.dtype.kind == "f" or not kernels.are_worth(len(runs.begins)):
        sums = np.add.reduceat(numbers[::step], runs.starts)
        return sums if width == 1 else np.column_stack((sums, sums >> 63))
    out = np.empty(len(runs.ends) * width, np.int64)
    words = kernels.frozen(numbers.view(np.int64))
    kernels.add_up_runs(words, step, kernels.frozen(runs.begins), out, width)
    return out


def _valid(values: pa.Array) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = values.is_valid().to_numpy(zero_copy_only=False)
    return found


@dataclass(frozen=True, slots=True)
class _Runs:
    """Runs of a batch: where they end, their keys, and for each row whether it begins one."""

    ends: npt.NDArray[np.int64]
    keys: list[pa.Array]
    begins: npt.NDArray[np.uint8]

    @property
    def starts(self) -> npt.NDArray[np.int64]:
        """Where they begin."""
        return np.append(0, self.ends[:-1])


def _runs(keys: Sequence[pa.Array], num_rows: int, longest: int) -> _Runs | None:
    """Return the runs of equal keys; None where there are nearly as many as rows.

    Parameters
    ----------
    longest
        How many rows a run may have.
    """
    most = int(num_rows / _MIN_RUN_ROWS)
    if not most:
        return None
    longest = 1 << (longest.bit_length() - 1)
    words = _words(keys[0]) if len(keys) == 1 and not keys[0].null_count else None
    if words is not None and words.ndim == 1 and words.itemsize >= 4 and kernels.are_worth(num_rows):
        # of memory that Arrow hands out each thread would keep some
        begins, ends = np.empty(num_rows, np.uint8), np.empty(num_rows, np.int64)
        own = np.empty(num_rows, words.dtype)
        count = kernels.find_runs(kernels.frozen(words), longest, begins, own, ends)
        array = pa.Array.from_buffers(keys[0].type, count, [None, pa.py_buffer(own)])
        return None if count > most else _Runs(ends[:count], [array], begins)
    marks = _begins(keys, num_rows, longest)
    starts = np.flatnonzero(marks)
    if len(starts) > most:
        return None
    places = pa.array(starts)
    return _Runs(np.append(starts[1:], num_rows), [each.take(places) for each in keys], marks.view(np.uint8))


def _begins(keys: Sequence[pa.Array], num_rows: int, longest: int) -> npt.NDArray[np.bool_]:
    """Return for each row whether a run begins there."""
    begins = np.zeros(num_rows, np.bool_)
    begins[::longest] = True
    for values in keys:
        begins[1:] |= _changes(values)
    return begins


def _changes(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Return for each value but the first whether it differs from the one before. NULL is like NULL."""
    words = _words(values)
    if words is None:
        different = pc.not_equal(values.slice(1), values.slice(0, max(0, len(values) - 1)))
        found = different.fill_null(False).to_numpy(zero_copy_only=False)
    else:
        found = words[1:] != words[:-1]
        if found.ndim > 1:
            found = found.any(axis=1)
    if values.null_count:
        valid = _valid(values)
        found = found & valid[1:] & valid[:-1] | (valid[1:] != valid[:-1])
    changes: npt.NDArray[np.bool_] = found
    return changes


def _words(values: pa.Array) -> npt.NDArray[Any] | None:
    """Return values of a fixed width of whole bytes by their bits; None for others."""
    data_type = values.type
    if pa.types.is_decimal128(data_type):
        words = np.frombuffer(values.buffers()[1], np.uint64).reshape(-1, 2)
    elif pa.types.is_primitive(data_type) and data_type.bit_width % 8 == 0:
        # floats as well: NaN is like NaN, and 0.0 and -0.0 are told apart
        words = np.frombuffer(values.buffers()[1], f"u{data_type.bit_width // 8}")
    else:
        return None
    return words[values.offset : values.offset + len(values)]


def are_compared(data_type: pa.DataType) -> bool:
    """Whether runs can be made of equal values of a type."""
    is_fixed = pa.types.is_primitive(data_type) or pa.types.is_decimal128(data_type)
    return is_fixed or any(data_type == each for each in _COMPARED)


_COMPARED: Final = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())


def look_at_runs(table: Table, names: Sequence[str]) -> float:
    """Return how many rows a run of equal values of some top-level columns has, by a look at a few rows.

    1.0 where nothing can be read, as who scans them tells.
    """
    fragments = table.fragments
    if not (fragments.physical_rows > 0).any():
        return 1.0
    reader = table.fragment_reader(int(np.argmax(fragments.physical_rows)))

    def look() -> float:
        fields = [table.schema.field(name) for name in names]
        places = {0, max(0, reader.num_rows // 2 - _LOOKED_AT)}
        rows = runs = 0
        for start in places:
            found = RowRange(start, min(start + _LOOKED_AT, reader.num_rows))
            rows += len(found)
            begins = _begins(reader.read(fields, found), len(found), _LOOKED_AT)
            runs += int(np.count_nonzero(begins))
        return rows / max(1, runs)

    try:
        return table.shared.observed.sample("runs", reader, names, look)
    except LanceError:
        return 1.0
