"""Ingest: named sources, a query over them, checked rows, one commit to a table or a namespace.

`job` and `job_file` say what is to be done, and need no Spark; `running` does it.
"""
