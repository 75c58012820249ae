"""Shares of a group of partitions that is too large to be joined at once: its rows by a hash of the key.

A share is what finer buckets would be: rows with equal keys are in the same one, whatever the join is. Each
reads the partitions of the group again, and keeps only its own rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.engine.provider import LanceTableProvider, PlannedScan
from lance_df.hashing.arrays import murmur3
from lance_df.records import dataclass

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.engine.provider import BatchFilter

# Rows of a bucket have hashes with equal remainders: the product's upper bits depend on all bits.
_MIXER: Final = np.uint32(0x9E3779B1)
_UPPER_BITS: Final = np.uint32(16)


@dataclass(frozen=True, slots=True)
class Share:
    """The rows whose keys have one of ``count`` numbers; those without a key have the first."""

    number: int
    count: int

    def holds(self, keys: pa.Array) -> npt.NDArray[np.bool_]:
        """Return for each key whether its rows are in this share."""
        hashes = np.asarray(pc.fill_null(murmur3(keys), 0)).view(np.uint32)
        found: npt.NDArray[np.bool_] = (hashes * _MIXER >> _UPPER_BITS) % np.uint32(self.count) == self.number
        return found


class SharedTableProvider(LanceTableProvider):
    """Rows of one share of a table.

    Parameters
    ----------
    key
        The column that shares are made by.
    """

    def __init__(self, *arguments: Any, key: str, share: Share, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._key = key
        self._share = share

    def _plan_anew(self, columns: tuple[str, ...] | None, expression: pc.Expression | None) -> PlannedScan:
        output = tuple(self.schema.names) if columns is None else columns
        planned = super()._plan_anew(tuple(dict.fromkeys((*output, self._key))), expression)
        left = _ShareFilter(self._key, self._share, planned.residual)
        return replace(planned, residual=left, output=output, counts_only=False)


@dataclass(frozen=True, slots=True)
class _ShareFilter:
    key: str
    share: Share
    other: BatchFilter | None

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of the share for which the other filter is true, too."""
        own = batch.filter(pa.array(self.share.holds(batch[self.key])))
        return own if self.other is None or not own.num_rows else self.other.apply(own)
