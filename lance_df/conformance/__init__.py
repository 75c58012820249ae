"""The conformance corpus: lance_df's answers to its protocol, and the command that runs it.

The command is `python -m lance_df.conformance`. The cases and their documentation are in the folder
``conformance`` of the source distribution.
"""
