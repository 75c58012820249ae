"""Translate the predicates of statements between DataFusion plans and scans, which use them to prune."""
