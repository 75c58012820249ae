"""Mini-block pages: chunks of a few KiB that are decoded whole."""
