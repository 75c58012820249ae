"""Large binaries: in a data file, in files beside it, and where they are copied from."""
