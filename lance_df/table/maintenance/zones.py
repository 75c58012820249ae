"""Collect zones in row order: bounds of a column over runs of live rows of one fragment.

Spec: table format, 14.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings import kernels
from lance_df.encodings.kernels.compare import extreme_strings

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.format.schema import Field

ROWS_PER_ZONE = 8192
_OFFSET_BYTES = {pa.string(): 4, pa.binary(): 4, pa.large_string(): 8, pa.large_binary(): 8}


class _Zone(NamedTuple):
    """A zone; its fields are in the order of the columns of the file."""

    minimum: pa.Scalar
    maximum: pa.Scalar
    null_count: int
    nan_count: int
    fragment: int
    start: int
    length: int


class ZoneCollector:
    """Splits the values of a column into zones, and computes their bounds.

    Parameters
    ----------
    rows_per_zone
        Live rows of a zone; the last one of a fragment may have fewer.
    max_bound_bytes
        Give up if a bound is longer: such a column is text to read, not to search by value.
    """

    def __init__(
        self, field: Field, *, rows_per_zone: int = ROWS_PER_ZONE, max_bound_bytes: int | None = None
    ) -> None:
        self.field = field
        self.is_worthwhile = True
        self._rows_per_zone = rows_per_zone
        self._max_bound_bytes = max_bound_bytes
        self._zones: list[_Zone] = []
        self._values: list[pa.Array] = []
        self._num_values = 0
        self._start = self._last = 0
        self._fragment = -1

    def add(self, fragment: int, values: pa.Array, offsets: npt.NDArray[np.int64]) -> None:
        """Add rows.

        Parameters
        ----------
        fragment
            Any number that identifies the fragment; zones never span two fragments.
        values
            Values of Arrow storage type.
        offsets
            The offset of each value in the fragment, ascending from call to call.
        """
        if fragment != self._fragment:
            self._close_zone()
            self._fragment = fragment
        start = 0
        while start < len(values) and self.is_worthwhile:
            stop = min(len(values), start + self._rows_per_zone - self._num_values)
            if not self._num_values:
                self._start = int(offsets[start])
            self._last = int(offsets[stop - 1])
            self._values.append(values.slice(start, stop - start))
            self._num_values += stop - start
            start = stop
            if self._num_values == self._rows_per_zone:
                self._close_zone()

    def finish(self, ids: Mapping[int, int] | None = None) -> pa.RecordBatch:
        """Return the zones as columns of an index file.

        Parameters
        ----------
        ids
            Fragment ids by the numbers that were given for them; zones of other fragments are left out. By
            default the numbers are the ids.
        """
        self._close_zone()
        zones = self._zones
        if ids is not None:
            zones = [each._replace(fragment=ids[each.fragment]) for each in zones if each.fragment in ids]
        data_type = self.field.arrow_type()
        schema = zone_schema(data_type)
        columns = zip(*zones, strict=True) if zones else [()] * len(schema)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def extend(self, other: ZoneCollector, first: int) -> None:
        """Append the zones of another collector of the column, whose fragment 0 is ``first`` here.

        All fragments of both collectors must have ended.
        """
        self._zones += [each._replace(fragment=each.fragment + first) for each in other._zones]
        self.is_worthwhile = self.is_worthwhile and other.is_worthwhile

    def copy_pending(self) -> None:
        """Copy the values of the incomplete zone, which are slices of larger arrays."""
        if self._num_values:
            values = pa.concat_arrays(self._values)
            self._values = [values.take(pa.array(np.arange(len(values))))]

    def end_fragment(self) -> None:
        """End the fragment, so that its values can be released."""
        self._close_zone()

    def _close_zone(self) -> None:
        if not self._num_values or not self.is_worthwhile:
            return
        values = pa.chunked_array(self._values)
        minimum, maximum, nan_count = bounds_of(values)
        length = self._last - self._start + 1
        self._zones.append(
            _Zone(minimum, maximum, values.null_count, nan_count, self._fragment, self._start, length)
        )
        self._values, self._num_values = [], 0
        if self._max_bound_bytes is not None:
            self.is_worthwhile = max(_size(minimum), _size(maximum)) <= self._max_bound_bytes


@lru_cache(maxsize=256)
def zone_schema(data_type: pa.DataType) -> pa.Schema:
    """Return the columns of a zone map for values of a type."""
    counts = (
        ("null_count", pa.uint32()),
        ("nan_count", pa.uint32()),
        ("fragment_id", pa.uint64()),
        ("zone_start", pa.uint64()),
        ("zone_length", pa.uint64()),
    )
    bounds = [pa.field("min", data_type), pa.field("max", data_type)]
    return pa.schema([*bounds, *(pa.field(name, kind, nullable=False) for name, kind in counts)])


def has_bounds(field: Field) -> bool:
    """Whether values of a field have an order, and thus bounds."""
    if field.children or field.is_blob:
        return False
    data_type = field.arrow_type()
    types = pa.types
    return bool(
        types.is_integer(data_type)
        or types.is_floating(data_type)
        or types.is_boolean(data_type)
        or types.is_decimal(data_type)
        or types.is_temporal(data_type)
        or types.is_string(data_type)
        or types.is_large_string(data_type)
        or types.is_binary(data_type)
        or types.is_large_binary(data_type)
    )


def bounds_of(values: pa.ChunkedArray) -> tuple[pa.Scalar, pa.Scalar, int]:
    """Return the smallest and the largest value, null if there is none, and the number of NaNs.

    If there is a NaN, it is the largest value. Bounds that are zero include both signs, which readers
    distinguish.
    """
    data_type = values.type
    # one array of texts may not be able to hold several chunks
    is_one_array = values.num_chunks == 1 and len(values) and not values.null_count
    if data_type in _OFFSET_BYTES and is_one_array and kernels.COMPILED:
        smallest, largest = _bounds_of_strings(values.chunk(0))
        return smallest, largest, 0
    if not pa.types.is_floating(data_type):
        is_duration = pa.types.is_duration(data_type)
        extremes = pc.min_max(values.cast(pa.int64()) if is_duration else values)
        smallest, largest = extremes["min"], extremes["max"]
        return (
            *((smallest.cast(data_type), largest.cast(data_type)) if is_duration else (smallest, largest)),
            0,
        )
    floats = values.drop_null().to_numpy()
    numbers = floats[~np.isnan(floats)]
    nan_count = len(floats) - len(numbers)
    smallest = largest = None
    if len(numbers):
        smallest, largest = numbers.min(), numbers.max()
        smallest = numbers.dtype.type(-0.0) if smallest == 0 else smallest
        largest = numbers.dtype.type(0.0) if largest == 0 else largest
    if nan_count:
        largest = floats.dtype.type(np.nan)
    return pa.scalar(smallest, data_type), pa.scalar(largest, data_type), nan_count


def _bounds_of_strings(values: pa.Array) -> tuple[pa.Scalar, pa.Scalar]:
    width = _OFFSET_BYTES[values.type]
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.uint8, (len(values) + 1) * width, values.offset * width)
    positions = np.zeros(2, np.int64)
    extreme_strings(ends, width, np.frombuffer(data or b"", np.uint8), positions)
    return values[int(positions[0])], values[int(positions[1])]


def _size(bound: pa.Scalar) -> int:
    has_bytes = isinstance(
        bound, pa.StringScalar | pa.BinaryScalar | pa.LargeStringScalar | pa.LargeBinaryScalar
    )
    return bound.as_buffer().size if has_bytes and bound.is_valid else 0
