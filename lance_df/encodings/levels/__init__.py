"""Repetition and definition levels: lists, structs and nulls above the values of a leaf."""
