"""Branches, clones and base paths."""

from __future__ import annotations

from lance_df.api.base import DatasetBase


class Clones(DatasetBase):
    """Branches, clones and base paths."""
