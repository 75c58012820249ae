"""Evaluate expressions over rows in memory with DataFusion, and make UDFs for the types of arguments."""
