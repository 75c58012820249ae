"""Which codec reads and writes what a 2.1 or 2.2 page describes."""
