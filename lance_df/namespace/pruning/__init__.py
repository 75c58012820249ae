"""Which partitions a predicate leaves."""
