"""DataFusion as a calculator: expressions over rows in memory, and UDFs for the types at hand."""
