"""Constant pages: all values are null, or all values that are not null are equal."""
