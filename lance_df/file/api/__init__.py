"""Single files, with the names of pylance."""
