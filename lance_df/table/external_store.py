"""External manifest stores: which manifest object holds a version, for stores without put-if-absent."""

from typing import Protocol


class ExternalManifestStore(Protocol):
    """A key-value store of (table, version) to manifest path."""
