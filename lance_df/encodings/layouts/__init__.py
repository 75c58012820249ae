"""Layouts of 2.1 and 2.2 pages: which buffers a page has, and where its rows lie in them."""
