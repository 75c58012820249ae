"""Decode buffers into arrays and encode arrays into buffers, without IO, paths or tables.

Each encoding has a folder, and a page in docs/format. In a folder, `decode` and `encode` handle the chunks
and blocks of 2.1 and 2.2, `values` reads chunks in memory, `page` loads rows of a 2.0 page, and `loaded`
reads the loaded rows. `layouts` and `levels` are for 2.1 and 2.2 pages. `codecs` selects the codec for an
encoding. `v2_1`, `v2_0` and `legacy` (0.1) combine the decoders of a page, and encode pages.
"""
