"""`lance-df inspect`: what is in a table, a data file, a namespace or a folder."""
