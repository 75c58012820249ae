"""Cache the latest manifests that this process has read or written, by the bytes of their files.

A manifest whose file has not changed is not parsed again; this helps writers of many small changes, and
readers that check for new versions. The bytes are always compared; nothing is assumed about a file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_df.cache import PROCESS, CacheKind
from lance_df.table.metadata.manifest_io import read_manifest

if TYPE_CHECKING:
    from lance_df.cache import Entries, TableCache
    from lance_df.storage import ByteSource
    from lance_df.table.metadata.manifest_io import ManifestFile

# Size of a parsed manifest, in multiples of the size of its file.
_PARSED_COPIES: Final = 3
_FILE_BYTES: Final = 4 * 1024


class ManifestCache:
    """Caches one manifest for each folder of manifests.

    Parameters
    ----------
    cache
        The cache that holds the manifests.
    """

    def __init__(self, cache: TableCache) -> None:
        self._files: Entries[ManifestFile] = cache.entries(CacheKind.MANIFESTS)

    def read(self, source: ByteSource) -> ManifestFile:
        """Return the manifest of a file; see :func:`lance_df.table.metadata.manifest_io.read_manifest`.

        Files that are read in parts are not cached.
        """
        if not source.is_memory_mapped:
            return read_manifest(source)
        known = self._files.find(_folder(source))
        if known is not None and _is_same(known.source, source):
            known.source.mark = source.mark
            return known
        file = read_manifest(source)
        self.keep(file)
        return file

    def keep(self, file: ManifestFile) -> None:
        """Cache a manifest whose file was just read or written."""
        self._files.replace(_folder(file.source), file, _FILE_BYTES + _PARSED_COPIES * file.source.size)


def _folder(source: ByteSource) -> str:
    return source.path.rpartition("/")[0]


def _is_same(left: ByteSource, right: ByteSource) -> bool:
    if left.path != right.path or left.size != right.size:
        return False
    return bool(left.read_range(0, left.size).equals(right.read_range(0, right.size)))


LATEST: Final = ManifestCache(PROCESS)
"""The cache that all tables of this process share."""
