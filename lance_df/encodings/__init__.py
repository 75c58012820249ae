"""Buffers to arrays and back: no IO, no paths, no tables.

Each encoding has a folder, and a page in docs/format. In it, `decode` and `encode` are what 2.1 and 2.2
store in chunks and blocks, `values` reads chunks in memory, `page` loads rows of a page of a 2.0 file, and
`loaded` reads them. `layouts` and `levels` are those of 2.1 and 2.2 pages. `codecs` selects what a
description asks for. `v2_1`, `v2_0` and `legacy` (0.1) put the decoders of a page together, and encode pages.
"""
