"""The interactive SQL shell."""
