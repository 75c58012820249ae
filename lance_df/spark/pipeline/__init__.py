"""Maintenance and join jobs over tables and namespaces: Spark tasks do the work, the driver commits."""
