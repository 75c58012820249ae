"""Scalar indices as pylance builds them, read to prune scans: zone maps, B-trees, bitmaps, Bloom filters."""

from lance_df.table.indices.prune import PruneResult, prune

__all__ = ["PruneResult", "prune"]
