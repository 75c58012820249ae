"""Change rows: delete, update, merge-insert. A change computes an operation; the commit applies it.

Callers pass functions that find the rows of an SQL expression, as these modules know no SQL.
"""
