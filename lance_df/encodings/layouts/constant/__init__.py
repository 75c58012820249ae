"""Constant pages: all values are null, or equal."""
