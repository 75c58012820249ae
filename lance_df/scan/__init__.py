"""The interface between engines and scans of a table, a namespace or a metadata table."""
