"""Bit-packing: integers in as few bits as they need, FastLanes blocks of 1,024 values."""
