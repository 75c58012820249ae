"""Metadata of a namespace:properties, and tables of its partitions, specs, files and history."""
