"""Loads modules where Spark's Python workers are forked from, once for all workers of a kind.

Spark forks a worker from a bare process for each task, unless one is idle, and forks another after each
error: what a worker imports, it imports anew.
"""

import os
import sys

if "pyspark.daemon" in sys.orig_argv and not sys.orig_argv[-1].endswith("lookup_data_sources"):
    import importlib

    for name in (sys.orig_argv[-1], *os.environ.get("PRELOAD_IN_WORKERS", "").split()):
        importlib.import_module(name)
