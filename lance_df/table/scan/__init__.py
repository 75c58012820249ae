"""Scan one version of a table: prune it, plan tasks, and read rows."""
