"""Keep a table in shape: compaction, indices, clean-up."""

from __future__ import annotations

from lance_df.api.base import DatasetBase


class Maintenance(DatasetBase):
    """Keep a table in shape: compaction, indices, clean-up."""
