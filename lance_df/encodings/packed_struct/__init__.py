"""Packed structs: the values of all fields of a row beside each other."""
