"""Publish versions: what an operation makes of a manifest, what conflicts with what, and the commit loop."""
