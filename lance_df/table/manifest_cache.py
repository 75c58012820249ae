"""The latest manifests that this process has read or made, by the bytes of their files.

A manifest that is found again as it was is not parsed again: a writer of many small changes, or a reader that
looks for news, pays for what is new. Nothing is ever assumed of a file: its bytes are compared.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from lance_df.forks import new_lock
from lance_df.table.manifest_io import read_manifest

if TYPE_CHECKING:
    from lance_df.storage import ByteSource
    from lance_df.table.manifest_io import ManifestFile

# of the files; what is made of them takes several times as much
_MAX_BYTES = 16 * 1024 * 1024


class ManifestCache:
    """Keeps one manifest for each folder of manifests, those that were used most recently.

    Parameters
    ----------
    max_bytes
        Of the files that are kept together.
    """

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._files: OrderedDict[str, ManifestFile] = OrderedDict()
        self._num_bytes = 0
        self._lock = new_lock()

    def read(self, source: ByteSource) -> ManifestFile:
        """Return the manifest of a file; see :func:`lance_df.table.manifest_io.read_manifest`.

        Of files that are read in parts nothing is kept.
        """
        if not source.is_memory_mapped:
            return read_manifest(source)
        with self._lock:
            known = self._files.get(folder := _folder(source))
            if known is not None:
                self._files.move_to_end(folder)
        if known is not None and _is_same(known.source, source):
            known.source.mark = source.mark
            return known
        file = read_manifest(source)
        self.keep(file)
        return file

    def keep(self, file: ManifestFile) -> None:
        """Take note of a manifest whose file was just read or written."""
        if file.source.size > self._max_bytes:
            return
        folder = _folder(file.source)
        with self._lock:
            former = self._files.pop(folder, None)
            self._files[folder] = file
            self._num_bytes += file.source.size - (0 if former is None else former.source.size)
            while self._num_bytes > self._max_bytes:
                _, dropped = self._files.popitem(last=False)
                self._num_bytes -= dropped.source.size


def _folder(source: ByteSource) -> str:
    return source.path.rpartition("/")[0]


def _is_same(left: ByteSource, right: ByteSource) -> bool:
    if left.path != right.path or left.size != right.size:
        return False
    return bool(left.read_range(0, left.size).equals(right.read_range(0, right.size)))


LATEST = ManifestCache()
"""What all tables of this process share."""
