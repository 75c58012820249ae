"""The methods of the namespace of a directory: many tables below one root."""
