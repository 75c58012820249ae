"""Blob columns of 2.0 files: the pages hold descriptions, and the bytes are elsewhere in the file.

::

    u64 position | u64 size         of each value; (0, 0) is empty, (1, 0) is null

Spec: file format 2.x, 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.file.blobs.reader import fetch_blobs
from lance_df.file.io import named

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.file.read_options import ReadOptions
    from lance_df.file.v2.columns_2_0 import LeafColumn

DESCRIPTION_TYPE = pa.struct({"position": pa.uint64(), "size": pa.uint64()})


@dataclass(slots=True)
class BlobColumn:
    """Reads the bytes that the descriptions refer to."""

    descriptions: LeafColumn
    file_size: int

    @property
    def num_rows(self) -> int:
        return self.descriptions.num_rows

    def read(self, rows: Rows, options: ReadOptions) -> IoPlan[pa.Array]:
        described = yield from self.descriptions.read(rows, options)
        return (yield from named(self.descriptions.pages.label, fetch_blobs(described, self.file_size)))

    def page_starts(self) -> npt.NDArray[np.int64]:
        return self.descriptions.page_starts()

    def page_bytes(self) -> list[tuple[int, int]]:
        return self.descriptions.page_bytes()
