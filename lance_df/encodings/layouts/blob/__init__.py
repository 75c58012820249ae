"""Blob pages: the positions and sizes of values that are stored elsewhere in the file."""
