"""Buffers to arrays and back: no IO, no paths, no tables. `v2_1` (2.1 and 2.2), `v2_0`, `legacy` (0.1)."""
