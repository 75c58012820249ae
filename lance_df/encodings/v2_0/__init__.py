"""Decoders of 2.0 pages: one array encoding, one module. `build` puts them together."""
