"""Read and write blobs: in a data file, in files beside it, and copied from other files."""
