"""Rules that change how a statement's rows are computed, and nothing that a reader of these sees."""
