"""Run lengths: values, and how often each is repeated."""
