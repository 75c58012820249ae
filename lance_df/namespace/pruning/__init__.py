"""Partition pruning: select the partitions that may match a predicate."""
