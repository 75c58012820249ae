"""Dictionaries: indices into values that a page stores once."""
