"""The commands of `lance-df`, one module each."""
