"""Jobs that keep tables and namespaces in shape: the work in Spark's tasks, the commits on the driver."""
