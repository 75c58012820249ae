"""Ingest: run a query over named sources, check its rows, and commit them once to a table or a namespace.

`job` and `job_file` describe an ingest, and need no Spark; `running` runs it.
"""
