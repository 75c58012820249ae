"""Predicates of statements, as scans use them to skip data: from plans of DataFusion and back."""
