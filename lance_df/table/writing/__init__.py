"""Rows to new fragments: schemas that fit, data files, zone maps, files that are not committed yet."""
