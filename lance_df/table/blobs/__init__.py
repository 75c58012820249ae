"""Read and write blob columns: their files, references and moves."""
