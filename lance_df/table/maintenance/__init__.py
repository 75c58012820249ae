"""Maintain a table: compaction, scalar indices, and clean-up of versions and files that are not needed."""
