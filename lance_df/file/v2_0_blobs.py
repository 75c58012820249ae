"""Blob columns of 2.0 files: pages of descriptions, and bytes elsewhere in the file.

::

    u64 position | u64 size         of each value; (0, 0) is empty, (1, 0) is null

Spec: file format 2.x, 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.encodings.arrays import variable_array, with_validity
from lance_df.encodings.fetch import fetch_spans, pack_bits
from lance_df.errors import CorruptDataError
from lance_df.file.io import named
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.file.v2_0_columns import LeafColumn

DESCRIPTION_TYPE = pa.struct({"position": pa.uint64(), "size": pa.uint64()})


@dataclass(slots=True)
class BlobColumn:
    """The bytes that the descriptions refer to."""

    descriptions: LeafColumn
    file_size: int

    @property
    def num_rows(self) -> int:
        return self.descriptions.num_rows

    def read(self, rows: Rows) -> IoPlan[pa.Array]:
        described = yield from self.descriptions.read(rows)
        return (yield from named(self.descriptions.pages.place, self._fetch(described)))

    def page_starts(self) -> npt.NDArray[np.int64]:
        return self.descriptions.page_starts()

    def page_bytes(self) -> list[tuple[int, int]]:
        return self.descriptions.page_bytes()

    def _fetch(self, described: pa.StructArray) -> IoPlan[pa.Array]:
        positions, sizes = (
            described.field(name).to_numpy(zero_copy_only=False) for name in ("position", "size")
        )
        self._check(positions, sizes)
        valid = (sizes > 0) | (positions != 1)
        if described.null_count:
            valid &= described.is_valid().to_numpy(zero_copy_only=False)
        lengths = np.where(valid, sizes, 0).astype(np.int64)
        filled = np.flatnonzero(lengths)
        starts, first, place = np.unique(
            positions[filled].astype(np.int64), return_index=True, return_inverse=True
        )
        ends = starts + lengths[filled][first]
        if (lengths[filled] != (ends - starts)[place]).any() or (starts[1:] < ends[:-1]).any():
            raise CorruptDataError("blobs overlap each other")
        bounds, data = yield from fetch_spans(ByteRange(0, self.file_size), starts, ends)
        blobs = variable_array(pa.large_binary(), bounds, data, None)
        return _spread(blobs, filled, place, valid)

    def _check(self, positions: npt.NDArray[np.uint64], sizes: npt.NDArray[np.uint64]) -> None:
        size = np.uint64(self.file_size)
        if (sizes > size).any() or (positions > size - np.minimum(sizes, size)).any():
            raise CorruptDataError(f"a blob lies outside the file of {self.file_size} bytes")
        if int(sizes.sum()) > self.file_size:
            raise CorruptDataError(f"the blobs claim to be larger than the file of {self.file_size} bytes")


def _spread(
    blobs: pa.Array, filled: npt.NDArray[np.int64], place: npt.NDArray[np.int64], valid: npt.NDArray[np.bool_]
) -> pa.Array:
    """Return one value for each row: the blob of the filled ones, else empty, or null where not valid."""
    source = np.full(len(valid), len(blobs), np.int64)
    source[filled] = place
    values = pa.concat_arrays([blobs, pa.array([b""], pa.large_binary())]).take(pa.array(source))
    return values if valid.all() else with_validity(values, pack_bits(valid))
