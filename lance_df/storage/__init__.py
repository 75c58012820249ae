"""Storage: fsspec filesystems, ranged and coalesced reads, and memory maps. Independent of Lance."""

from lance_df.storage.location import Entry, Location, open_location
from lance_df.storage.ranges import ByteRange, coalesce
from lance_df.storage.source import ByteSource, MappedSource, RemoteSource

__all__ = [
    "ByteRange",
    "ByteSource",
    "Entry",
    "Location",
    "MappedSource",
    "RemoteSource",
    "coalesce",
    "open_location",
]
