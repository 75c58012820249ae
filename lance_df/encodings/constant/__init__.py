"""Constant: one value for all rows."""
