"""Pages of 2.1 and 2.2 files: `page` decodes rows of one, `nested` and `merge` join leaves into arrays."""
