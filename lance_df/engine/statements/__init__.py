"""Statements that change tables, run on them: each is one commit."""
