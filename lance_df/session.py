"""`Session`: the cache of the process, with the names of pylance."""

from __future__ import annotations

from lance_df.cache import cache_statistics

__all__ = ["Session"]


class Session:
    """The cache of this process, which all tables share; see `lance_df.set_cache_bytes`.

    Parameters
    ----------
    index_cache_size_bytes, metadata_cache_size_bytes
        Accepted for compatibility with pylance; they have no effect.
    """

    def __init__(
        self, index_cache_size_bytes: int | None = None, metadata_cache_size_bytes: int | None = None
    ) -> None:
        del index_cache_size_bytes, metadata_cache_size_bytes

    def __repr__(self) -> str:
        return f"Session(size_bytes={self.size_bytes()})"

    def size_bytes(self) -> int:
        """Return the number of bytes that the cache entries use."""
        return cache_statistics().num_bytes

    def index_cache_size_bytes(self) -> int:
        """Return the result of `size_bytes`: indices have no separate cache."""
        return self.size_bytes()

    def is_same_as(self, other: Session) -> bool:
        """Return whether two sessions share their cache. All sessions of a process do."""
        return isinstance(other, Session)
