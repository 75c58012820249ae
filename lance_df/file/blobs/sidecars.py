"""Write the files of blobs beside a data file. Spec: file format 2.x, 5.6.

The files are in a folder named after the data file, and each is named by its id.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from lance_df.errors import LanceError
from lance_df.storage.sink import ByteSink

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lance_df.storage import Location
    from lance_df.storage.unsynced import Unsynced

BLOB_SUFFIX: Final = ".blob"

_ID_BITS = 32


def sidecar_path(data_file_path: str, blob_id: int) -> str:
    """Return the path of a file of blobs beside a data file, named by the bits of its id in reverse order."""
    bits = f"{blob_id:0{_ID_BITS}b}"
    return f"{data_file_path.removesuffix('.lance')}/{bits[::-1]}{BLOB_SUFFIX}"


def sidecar_folder(data_file: Location) -> Location | None:
    """Return the folder of the blob files beside a data file, or None if the file cannot have one."""
    folder = data_file.ancestor(data_file.name)
    stem = data_file.name.removesuffix(".lance")
    return None if folder is None or stem == data_file.name else folder / stem


def remove_sidecars(data_file: Location) -> None:
    """Remove the blob files beside a data file; errors of the store are ignored."""
    folder = sidecar_folder(data_file)
    if folder is None:
        return
    with suppress(LanceError):
        for name in folder.names():
            (folder / name).remove()
    folder.remove_empty_folder()


class Sidecars:
    """Writes the blob files beside one data file.

    At most one file is open at a time: the one that holds several blobs.
    """

    def __init__(self, folder: Location, *, unsynced: Unsynced | None = None) -> None:
        self._folder = folder
        self._unsynced = unsynced
        self._last_id = 0
        self._pack: ByteSink | None = None
        self._pack_id = 0

    def add_dedicated(self, pieces: Iterable[memoryview]) -> int:
        """Write a blob into a file of its own and return the id of the file.

        Raises
        ------
        StorageError
            The store failed.
        """
        blob_id, sink = self._begin()
        try:
            for piece in pieces:
                sink.write(piece)
            sink.close()
        except BaseException:
            sink.abort()
            raise
        return blob_id

    def add_packed(self, pieces: Iterable[memoryview], size: int, *, pack_bytes: int) -> tuple[int, int]:
        """Append a blob to a shared file; return the id of the file and the blob's position in it.

        Parameters
        ----------
        size
            The number of bytes of the blob.
        pack_bytes
            The maximum size of a file that holds several blobs.
        """
        if self._pack is not None and self._pack.position + size > pack_bytes:
            self.close()
        if self._pack is None:
            self._pack_id, self._pack = self._begin()
        start = self._pack.position
        for piece in pieces:
            self._pack.write(piece)
        return self._pack_id, start

    def close(self) -> None:
        """Make all files durable. More blobs can be written afterwards."""
        pack, self._pack = self._pack, None
        if pack is not None:
            try:
                pack.close()
            except BaseException:
                pack.abort()
                raise

    def abort(self) -> None:
        """Remove all files; errors of the store are ignored."""
        if self._pack is not None:
            self._pack.abort()
            self._pack = None
        for blob_id in range(1, self._last_id + 1):
            with suppress(LanceError):
                (self._folder / sidecar_path("", blob_id).removeprefix("/")).remove()
        if self._last_id:
            self._folder.remove_empty_folder()

    def _begin(self) -> tuple[int, ByteSink]:
        self._last_id += 1
        location = self._folder / sidecar_path("", self._last_id).removeprefix("/")
        return self._last_id, ByteSink(location, unsynced=self._unsynced)
