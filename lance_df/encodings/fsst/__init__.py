"""FSST: strings encoded as codes of symbols of up to 8 bytes."""
