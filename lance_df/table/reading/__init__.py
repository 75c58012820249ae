"""Read rows of fragments: columns of data files, deletion vectors, row ids, takes."""
