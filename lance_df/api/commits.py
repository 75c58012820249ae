"""Commit what others computed, go back to older versions, check a table."""

from __future__ import annotations

from lance_df.api.base import DatasetBase


class Commits(DatasetBase):
    """Commit what others computed, go back to older versions, check a table."""
