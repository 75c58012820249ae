"""Verify and repair a partitioned namespace."""
