"""The layouts of 2.1 and 2.2 pages: the buffers of a page, and the position of its rows in them."""
