"""Fixed-size lists: an equal number of items for each row, back to back."""
