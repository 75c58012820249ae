"""General-purpose compression around another encoding: LZ4 and Zstandard."""
