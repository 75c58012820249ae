"""Changes of many members that become visible in one commit."""
