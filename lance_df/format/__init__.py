"""The immutable model of the Lance table and file formats; only this package converts protobuf."""
