"""Prune scans with scalar indices, as pylance builds them: zone maps, B-trees, bitmaps, Bloom filters."""

from lance_df.table.indices.prune import PruneResult, prune

__all__ = ["PruneResult", "prune"]
