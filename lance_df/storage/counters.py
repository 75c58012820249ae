"""How often this process has read files, and how many bytes."""

from __future__ import annotations

from lance_df.forks import new_lock


class ReadCounters:
    """Counts reads of files by all threads.

    A read is a range of a file that is mapped, or one request to a store, which may be of several ranges.
    """

    def __init__(self) -> None:
        self.reads = 0
        self.num_bytes = 0
        self._lock = new_lock()

    def add(self, num_bytes: int, reads: int = 1) -> None:
        """Count reads."""
        with self._lock:
            self.reads += reads
            self.num_bytes += num_bytes


READ = ReadCounters()
"""What this process has read."""


def iops_counter() -> int:
    """Return how often this process has read files so far: ranges of mapped files, and requests to stores."""
    return READ.reads


def bytes_read_counter() -> int:
    """Return how many bytes this process has read of files so far; of mapped files, those it asked for."""
    return READ.num_bytes
