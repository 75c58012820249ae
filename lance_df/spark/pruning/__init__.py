"""Conditions and columns of a query of Spark become options of the scans below it.

`plans` knows the plans of Spark's JVM, `conditions` what they say, `joins` and `keys` what a join says, and
`pruned` makes the same query over scans that read less.
"""
