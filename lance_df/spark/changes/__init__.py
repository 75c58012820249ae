"""MERGE, UPDATE and DELETE in Spark tasks, with one commit for each call."""
