"""Var-binary pages: strings and binaries.

::

    bytes of value 0, 1, ...
    i64 offset 0 | ... | i64 offset n           absolute positions in the file; the page starts here

Spec: file format 0.1, 5.2. In a nullable column a value without bytes is null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.encodings.arrays import variable_array
from lance_df.encodings.fetch import fetch_spans, pack_bits
from lance_df.encodings.legacy.offsets import read_bounds
from lance_df.encodings.legacy.page import join
from lance_df.encodings.plan import RowRange, together
from lance_df.errors import CorruptDataError
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lance_df.encodings.legacy.page import Stretch
    from lance_df.encodings.plan import IoPlan


def read_var_binary(
    data_type: pa.DataType, stretches: Sequence[Stretch], *, nullable: bool
) -> IoPlan[pa.Array]:
    """Plan to read strings or binaries. A single range of rows views the bytes."""
    parts = yield from together([_read_page(stretch) for stretch in stretches])
    ends = np.zeros(sum(len(lengths) for lengths, _ in parts) + 1, np.int64)
    if parts:
        np.cumsum(np.concatenate([lengths for lengths, _ in parts]), out=ends[1:])
    valid = None
    if nullable:
        filled = ends[1:] > ends[:-1]
        valid = None if filled.all() else pack_bits(filled)
    return variable_array(data_type, ends, join([data for _, data in parts]), valid)


def _read_page(stretch: Stretch) -> IoPlan[tuple[npt.NDArray[np.int64], pa.Buffer]]:
    """Plan to read the lengths and the bytes of the wanted rows of a page."""
    starts, ends = yield from read_bounds(stretch, 8)
    if not len(starts):
        return ends - starts, pa.py_buffer(b"")
    if starts[0] < 0 or ends[-1] > stretch.stop:
        raise CorruptDataError(
            f"values are said to lie in bytes {starts[0]} to {ends[-1]}, the file has {stretch.stop}"
        )
    if isinstance(stretch.rows, RowRange):
        (data,) = yield [ByteRange(int(starts[0]), int(ends[-1]))]
    else:
        _, data = yield from fetch_spans(ByteRange(0, stretch.stop), starts, ends)
    return ends - starts, data
