"""Run SQL in sessions over Lance tables and in DataFusion over the same rows in memory, and compare."""
