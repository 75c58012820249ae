"""The methods of `LanceDataset` that change a table, one module for each theme, with the names of pylance."""
