"""Nullable values of 2.0: a bitmap beside the values."""
