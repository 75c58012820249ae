"""Blob pages: where values lie elsewhere in the file."""
