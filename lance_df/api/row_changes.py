"""Change rows: delete, update, merge-insert, insert."""

from __future__ import annotations

from lance_df.api.base import DatasetBase


class RowChanges(DatasetBase):
    """Change rows: delete, update, merge-insert, insert."""
