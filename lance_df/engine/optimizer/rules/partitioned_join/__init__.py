"""Join namespaces with the same partitioning, one group of partitions at a time."""

from lance_df.engine.optimizer.rules.partitioned_join.rule import partitioned_join

__all__ = ["partitioned_join"]
