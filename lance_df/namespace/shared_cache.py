"""The cache that the versions of a namespace share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.cache import TableCache
from lance_df.forks import new_lock
from lance_df.table.metadata.manifest_io import identity
from lance_df.table.metadata.versions import DETACHED

if TYPE_CHECKING:
    from lance_df.table.table import Table


class SharedCache:
    """The cache that the versions of one history of a namespace share.

    Members are cached by folder and version. The folder of a namespace may be replaced, for example by a
    backup, and reach the same numbers again. Versions of that other history get a cache of their own.

    Parameters
    ----------
    version
        The first version, as a version of ``__manifest``.

    Attributes
    ----------
    entries
        The entries.
    """

    def __init__(self, version: Table) -> None:
        self.entries = TableCache()
        # while it exists, so do all others that use the cache, as far as they were not cleaned up
        self._newest = version
        self._lock = new_lock()

    def for_read(self, version: Table) -> SharedCache:
        """Return the cache for a version that was just read: this one, or a new one for another history.

        This takes a request if the version is not the newest that uses the cache. If that one was cleaned up,
        histories cannot be compared.
        """
        newest = self._newest
        if version.version == newest.version:
            is_same = identity(version.manifest_file) == identity(newest.manifest_file)
        else:
            is_same = newest.is_stored()
        return self._extended(version) if is_same else SharedCache(version)

    def for_commit(self, version: Table, *, base: Table) -> SharedCache:
        """Return the cache for a version that was just committed.

        Parameters
        ----------
        base
            The version from which the changes were computed. It uses this cache.
        """
        if base.version == self._newest.version or version.version & DETACHED:
            return self._extended(version)
        return self.for_read(version)

    def _extended(self, version: Table) -> SharedCache:
        with self._lock:
            if self._newest.version < version.version < DETACHED:
                self._newest = version
        return self
