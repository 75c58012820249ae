"""Publish versions: apply operations to manifests, check conflicts, and run the commit loop."""
