"""Read the bytes of blobs in 2.0 and 2.1 files, given the positions and sizes that the pages hold.

Spec: file format 2.x, 3.3 and 4.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.encodings.arrays import variable_array, with_validity_bitmap
from lance_df.encodings.buffers import bitmap
from lance_df.encodings.fetch import fetch_spans
from lance_df.errors import CorruptDataError
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    from lance_df.encodings.plan import IoPlan


def fetch_blobs(described: pa.StructArray, file_size: int) -> IoPlan[pa.Array]:
    """Return the bytes of each value, as large binaries.

    Parameters
    ----------
    described
        ``position`` and ``size`` of each value: (0, 0) is empty; a null struct or, in 2.0, (1, 0) is null.
    file_size
        Blobs beyond the end of the file are refused.

    Raises
    ------
    CorruptDataError
        A blob lies outside the file, or blobs overlap.
    """
    positions, sizes = (described.field(name).to_numpy(zero_copy_only=False) for name in ("position", "size"))
    valid = (sizes > 0) | (positions != 1)
    if described.null_count:
        valid &= described.is_valid().to_numpy(zero_copy_only=False)
    positions, sizes = np.where(valid, positions, 0), np.where(valid, sizes, 0)
    _check(positions, sizes, file_size)
    lengths = sizes.astype(np.int64)
    filled = np.flatnonzero(lengths)
    starts, first, inverse = np.unique(
        positions[filled].astype(np.int64), return_index=True, return_inverse=True
    )
    ends = starts + lengths[filled][first]
    if (lengths[filled] != (ends - starts)[inverse]).any() or (starts[1:] < ends[:-1]).any():
        raise CorruptDataError("blobs overlap each other")
    bounds, data = yield from fetch_spans(ByteRange(0, file_size), starts, ends)
    blobs = variable_array(pa.large_binary(), bounds, data, None)
    return _spread(blobs, filled, inverse, valid)


def _check(positions: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64], file_size: int) -> None:
    size = np.uint64(file_size)
    if (sizes > size).any() or (positions > size - np.minimum(sizes, size)).any():
        raise CorruptDataError(f"a blob is out of range, the file has {file_size} bytes")
    if int(sizes.sum()) > file_size:
        raise CorruptDataError(
            f"the sizes of the blobs add up to more than the {file_size} bytes of the file"
        )


def _spread(
    blobs: pa.Array,
    filled: npt.NDArray[np.int64],
    inverse: npt.NDArray[np.int64],
    valid: npt.NDArray[np.bool_],
) -> pa.Array:
    """Return one value for each row: null if not valid, the blob if filled, otherwise empty."""
    source = np.full(len(valid), len(blobs), np.int64)
    source[filled] = inverse
    values = pa.concat_arrays([blobs, pa.array([b""], pa.large_binary())]).take(pa.array(source))
    return values if valid.all() else with_validity_bitmap(values, bitmap(valid))
