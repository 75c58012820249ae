"""The methods of `LanceDataset` that change a table, one module a theme, with pylance's names."""
