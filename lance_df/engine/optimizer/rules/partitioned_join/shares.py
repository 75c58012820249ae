"""Shares of a group of partitions that is too large to join at once, by a hash of the key.

A share acts like a finer bucket: rows with equal keys are in the same share, for all kinds of joins. Each
share reads the partitions of the group again, and keeps only its own rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.hashing.arrays import murmur3
from lance_df.records import dataclass
from lance_df.sliced_lists import unsliced

if TYPE_CHECKING:
    import numpy.typing as npt

# The hashes of a bucket's rows have equal remainders. The upper bits of the product depend on all bits.
_MIXER: Final = np.uint32(0x9E3779B1)
_UPPER_BITS: Final = np.uint32(16)


@dataclass(frozen=True, slots=True)
class Share:
    """One of ``count`` sets of rows, by a hash of their keys. Rows without a key are in the first set."""

    number: int
    count: int

    def holds(self, keys: pa.Array) -> npt.NDArray[np.bool_]:
        """Return for each key whether its rows are in this share."""
        hashes = np.asarray(pc.fill_null(murmur3(keys), 0)).view(np.uint32)
        matches: npt.NDArray[np.bool_] = (hashes * _MIXER >> _UPPER_BITS) % np.uint32(
            self.count
        ) == self.number
        return matches


@dataclass(frozen=True, slots=True)
class ShareFilter:
    """A `RowFilter` that keeps the rows of one share of a table.

    Attributes
    ----------
    key
        The column whose hash determines the share.
    """

    key: str
    share: Share

    @property
    def columns(self) -> set[str]:
        """The key column."""
        return {self.key}

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of the share."""
        return unsliced(batch).filter(pa.array(self.share.holds(batch[self.key])))
