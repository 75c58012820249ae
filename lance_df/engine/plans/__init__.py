"""Inspect and rebuild DataFusion's logical plans. No other package inspects them."""
