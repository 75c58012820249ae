"""Optimizer rules, which change how the rows of a statement are computed but not its visible result."""
