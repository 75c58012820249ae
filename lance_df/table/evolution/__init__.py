"""Change the columns of a table, its metadata, and check that it is whole."""
