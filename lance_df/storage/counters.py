"""Counters of the reads of this process, and of the bytes that it has read."""

from __future__ import annotations

from lance_df.forks import new_lock


class ReadCounters:
    """A counter of the file reads of all threads.

    A read is a range of a memory-mapped file, or one request to a store, which may cover several ranges.
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
"""The reads of this process."""


def iops_counter() -> int:
    """Return the number of reads of this process so far: ranges of mapped files, and requests to stores."""
    return READ.reads


def bytes_read_counter() -> int:
    """Return the number of bytes that this process has read from files so far.

    For mapped files, this is the number of requested bytes.
    """
    return READ.num_bytes
