"""Packed structs: the values of all fields of a row are stored together."""
