"""Read and write files of 2.0, 2.1 and 2.2: one container, two kinds of pages."""
