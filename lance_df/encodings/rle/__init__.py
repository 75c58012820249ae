"""Run-length encoding: values, and how often each is repeated."""
