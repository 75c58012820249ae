"""Determine which partitions of several namespaces can be joined with one another."""
