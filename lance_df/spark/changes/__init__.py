"""MERGE, UPDATE and DELETE in tasks of Spark: each call is one commit."""
