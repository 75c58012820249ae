"""The directory namespace: folders and tables under one root."""
