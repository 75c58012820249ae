"""Change the columns and the metadata of a table, and validate tables."""
