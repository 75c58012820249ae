"""The latest manifests that this process has read or made, by the bytes of their files.

A manifest that is found again as it was is not parsed again: a writer of many small changes, or a reader that
looks for news, pays for what is new. Nothing is ever assumed of a file: its bytes are compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lance_df.cache import PROCESS, CacheKind
from lance_df.table.metadata.manifest_io import read_manifest

if TYPE_CHECKING:
    from lance_df.cache import Entries, TableCache
    from lance_df.storage import ByteSource
    from lance_df.table.metadata.manifest_io import ManifestFile

# of the bytes of a file: what is made of them takes several times as much
_PARSED_COPIES: Final = 3
_FILE_BYTES: Final = 4 * 1024


class ManifestCache:
    """Keeps one manifest for each folder of manifests.

    Parameters
    ----------
    cache
        Where they are counted.
    """

    def __init__(self, cache: TableCache) -> None:
        self._files: Entries[ManifestFile] = cache.entries(CacheKind.MANIFESTS)

    def read(self, source: ByteSource) -> ManifestFile:
        """Return the manifest of a file; see :func:`lance_df.table.metadata.manifest_io.read_manifest`.

        Of files that are read in parts nothing is kept.
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
        """Take note of a manifest whose file was just read or written."""
        self._files.replace(_folder(file.source), file, _FILE_BYTES + _PARSED_COPIES * file.source.size)


def _folder(source: ByteSource) -> str:
    return source.path.rpartition("/")[0]


def _is_same(left: ByteSource, right: ByteSource) -> bool:
    if left.path != right.path or left.size != right.size:
        return False
    return bool(left.read_range(0, left.size).equals(right.read_range(0, right.size)))


LATEST: Final = ManifestCache(PROCESS)
"""What all tables of this process share."""
