"""Logical plans of DataFusion: the one place that inspects them."""
