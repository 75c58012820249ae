"""Read and write 0.1 files. Spec: file format 0.1."""
