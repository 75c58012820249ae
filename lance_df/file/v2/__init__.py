"""Read and write 2.0, 2.1 and 2.2 files: one container format, two kinds of pages."""
