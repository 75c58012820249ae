"""Flat: values of equal width back to back, bits packed into bytes."""
