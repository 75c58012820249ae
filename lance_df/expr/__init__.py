"""Predicates: their tree, their translation, their evaluation, and their pruning with bounds."""
