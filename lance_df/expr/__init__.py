"""Predicates: a typed tree, where it comes from, how it is evaluated, and what bounds say about it."""
