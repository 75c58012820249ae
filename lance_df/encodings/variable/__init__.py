"""Values of variable width: offsets or ends, and bytes."""
