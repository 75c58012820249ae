"""Fixed-size lists: as many items for each row, back to back."""
