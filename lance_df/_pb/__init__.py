"""Generated from protos/ by tools/gen_protos.py. Imported by `format` alone."""
