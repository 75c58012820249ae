"""Which partitions of several namespaces join with each other."""
