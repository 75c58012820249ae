"""How one version of a table is scanned: what is pruned, and how rows are read."""
