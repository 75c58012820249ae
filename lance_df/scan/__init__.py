"""The seam of scans: what engines request of a table, a namespace or a table about one, and get."""
