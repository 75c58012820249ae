"""The corpus for implementers: answers to its protocol, and `python -m lance_df.conformance`, which runs it.

The cases, and what they mean, are in the folder ``conformance`` of the source distribution.
"""
