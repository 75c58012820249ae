"""Partition specs and the schema of a namespace: fields, transforms, values, their JSON."""
