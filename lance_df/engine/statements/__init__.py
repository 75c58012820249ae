"""Run statements that change tables. Each statement is one commit."""
