"""HTML and SVG for notebooks: no script, nothing that is not escaped, and of bounded size.

Colours follow the text of the page, so that pages may be dark or light.
"""
