"""HTML and SVG for notebooks: without scripts, with all text escaped, and of bounded size.

Colours are those of the page's text, so that pages may be dark or light.
"""
