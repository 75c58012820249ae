"""Changes of many members that show at once."""
