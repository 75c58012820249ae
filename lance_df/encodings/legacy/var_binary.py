"""Read var-binary pages: strings and binaries.

::

    bytes of value 0, 1, ...
    i64 offset 0 | ... | i64 offset n           absolute positions in the file; the page starts here

Spec: file format 0.1, 5.2. In a nullable column, an empty value is null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.encodings.arrays import variable_array
from lance_df.encodings.buffers import bitmap
from lance_df.encodings.legacy.offsets import read_bounds, read_point_bounds
from lance_df.encodings.legacy.page import Points, fetch_anywhere, join
from lance_df.encodings.plan import together
from lance_df.errors import CorruptDataError
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    from lance_df.encodings.legacy.page import RowSlice, Wanted
    from lance_df.encodings.plan import IoPlan


def read_var_binary(data_type: pa.DataType, wanted: Wanted, *, nullable: bool) -> IoPlan[pa.Array]:
    """Plan to read strings or binaries. For a single range of rows, the bytes are views."""
    if isinstance(wanted, Points):
        starts, stops = yield from read_point_bounds(wanted, 8)
        data = yield from fetch_anywhere(wanted.stop, starts, stops)
        lengths = stops - starts
    else:
        parts = yield from together([_read_page(row_slice) for row_slice in wanted])
        lengths = np.concatenate([np.zeros(0, np.int64), *(length for length, _ in parts)])
        data = join([content for _, content in parts])
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    valid = bitmap(lengths > 0) if nullable and not lengths.all() else None
    return variable_array(data_type, ends, data, valid)


def _read_page(row_slice: RowSlice) -> IoPlan[tuple[npt.NDArray[np.int64], pa.Buffer]]:
    """Plan to read the lengths and the bytes of the wanted rows of a page."""
    starts, ends = yield from read_bounds(row_slice, 8)
    if not len(starts):
        return ends, pa.py_buffer(b"")
    if starts[0] < 0 or ends[-1] > row_slice.stop:
        raise CorruptDataError(
            f"values at bytes {starts[0]} to {ends[-1]} are out of range, the file has {row_slice.stop} bytes"
        )
    (data,) = yield [ByteRange(int(starts[0]), int(ends[-1]))]
    return ends - starts, data
