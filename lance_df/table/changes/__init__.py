"""Change rows: delete, update, merge-insert. What a change computes is an operation; the commit applies it.

Which rows an SQL expression means is asked of functions that are handed in: this room knows no SQL.
"""
