"""Makes the tables and files of `conformance/`; the cases beside them are written by hand."""
