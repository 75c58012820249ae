"""Decoders of 0.1 pages. Only the position and the count of a page are stored; nothing is aligned."""
