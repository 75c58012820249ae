"""The immutable model of what the spec says; protobuf is converted here and nowhere else."""
