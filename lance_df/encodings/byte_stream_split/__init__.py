"""Byte stream split: the first bytes of all values, then the second bytes, and so on."""
