"""Push the conditions and columns of a Spark query down to options of its scans.

`plans` handles the plans of Spark's JVM, `conditions` translates conditions, `joins` and `keys` derive
conditions from joins, and `pruned` rebuilds the query over scans that read less.
"""
