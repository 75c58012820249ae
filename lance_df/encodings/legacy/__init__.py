"""Decoders of 0.1 pages. A page is a position and a count; its size is implied, and nothing is aligned."""
