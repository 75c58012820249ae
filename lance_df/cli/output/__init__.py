"""The formats in which results are printed, and where they go."""
