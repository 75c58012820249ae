"""Parse, rewrite and generate SQL text."""
