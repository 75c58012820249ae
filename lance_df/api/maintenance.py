"""Keep a table in shape: compaction, indices, clean-up."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from lance_df.api.base import DatasetBase
from lance_df.api.optimizer import DatasetOptimizer

if TYPE_CHECKING:
    from lance_df.dataset import LanceDataset


class Maintenance(DatasetBase):
    """Keep a table in shape: compaction, indices, clean-up."""

    @property
    def optimize(self) -> DatasetOptimizer:
        """What makes later reads of the table faster."""
        return DatasetOptimizer(cast("LanceDataset", self))
