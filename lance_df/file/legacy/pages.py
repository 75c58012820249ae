"""The page table of a 0.1 file: position and length of the page of each field in each batch.

::

    i64 position | i64 length       for each field id from the smallest to the largest, for each batch

The smallest id is not stored; a table knows it as the first of `DataFile.fields`. Spec: file format 0.1,
section 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lance_df.errors import CorruptDataError
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_df.storage import ByteSource

_ENTRY_BYTES = 16

FieldPages = npt.NDArray[np.int64]
"""The position and length of the page of each batch, of shape (batches, 2)."""


@dataclass(slots=True)
class PageTable:
    """Reads rows of the table on first access.

    Attributes
    ----------
    source, position
        The file, and the position of the table in it.
    min_id, max_id
        The smallest and largest field id that the table has a row for.
    num_batches
        The number of entries of a row.
    """

    source: ByteSource
    position: int
    min_id: int
    max_id: int
    num_batches: int
    _rows: dict[int, FieldPages] = field(default_factory=dict)

    def load(self, field_ids: Iterable[int]) -> None:
        """Read the rows of several fields together, with shared requests.

        Raises
        ------
        CorruptDataError
            A row lies outside the file, or a page has a negative position or length.
        """
        missing = [
            each for each in dict.fromkeys(field_ids) if each not in self._rows and self._contains(each)
        ]
        row_bytes = self.num_batches * _ENTRY_BYTES
        starts = [self.position + (each - self.min_id) * row_bytes for each in missing]
        buffers = self.source.read_ranges([ByteRange(start, start + row_bytes) for start in starts])
        for each, buffer in zip(missing, buffers, strict=True):
            pages = np.frombuffer(buffer, "<i8").reshape(-1, 2)
            if (pages < 0).any():
                raise CorruptDataError(
                    f"{self.source.path}: the page table of field {each} has negative entries"
                )
            self._rows[each] = pages

    def pages(self, field_id: int) -> FieldPages:
        """Return the row of one field, or zeros if the table has none for it."""
        if not self._contains(field_id):
            return np.zeros((self.num_batches, 2), np.int64)
        if field_id not in self._rows:
            self.load([field_id])
        return self._rows[field_id]

    def _contains(self, field_id: int) -> bool:
        return self.min_id <= field_id <= self.max_id
