"""Metadata of a namespace: its properties, and tables of its partitions, specs, files and history."""
