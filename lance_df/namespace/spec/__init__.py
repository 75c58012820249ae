"""Partition specs and the schema of a namespace: partition fields, transforms, partition values and JSON."""
