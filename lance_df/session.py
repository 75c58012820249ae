"""`Session`: what open tables keep in memory, with pylance's names."""

from __future__ import annotations

from lance_df.cache import cache_statistics

__all__ = ["Session"]


class Session:
    """The cache of this process, which all tables share; see `lance_df.set_cache_bytes`.

    Parameters
    ----------
    index_cache_size_bytes, metadata_cache_size_bytes
        Taken so that calls written for pylance work; they have no effect.
    """

    def __init__(
        self, index_cache_size_bytes: int | None = None, metadata_cache_size_bytes: int | None = None
    ) -> None:
        del index_cache_size_bytes, metadata_cache_size_bytes

    def __repr__(self) -> str:
        return f"Session(size_bytes={self.size_bytes()})"

    def size_bytes(self) -> int:
        """Return the bytes that the entries of the cache take."""
        return cache_statistics().num_bytes

    def index_cache_size_bytes(self) -> int:
        """Return what `size_bytes` returns: indices have no cache of their own."""
        return self.size_bytes()

    def is_same_as(self, other: Session) -> bool:
        """Whether two sessions share their cache, as all of a process do."""
        return isinstance(other, Session)
