"""Change columns, and the metadata of table, schema and fields."""

from __future__ import annotations

from lance_df.api.base import DatasetBase


class SchemaChanges(DatasetBase):
    """Change columns, and the metadata of table, schema and fields."""
