"""Select the codec that reads or writes the encoding of a 2.1 or 2.2 page."""
