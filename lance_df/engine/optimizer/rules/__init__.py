"""The optimizer rules. Each module has a function from a planned statement to another one, or to None."""
