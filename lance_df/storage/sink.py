"""Write one file sequentially."""

from __future__ import annotations

import io
import os
import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from lance_df.errors import NotFoundError, StorageError
from lance_df.storage.local_files import create, sync_folder
from lance_df.storage.schemes import OBJECT_STORES
from lance_df.storage.translate import translate_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lance_df.storage.location import Location
    from lance_df.storage.unsynced import Unsynced


class ByteSink:
    """Writes a new file, which nobody may refer to before :meth:`close` returns, unless it replaces one.

    Attributes
    ----------
    position
        Bytes written so far.
    """

    def __init__(
        self, location: Location, *, replaces: bool = False, unsynced: Unsynced | None = None
    ) -> None:
        """Create the file and, on a local filesystem, the folders above it.

        Parameters
        ----------
        location
            The location of the file.
        replaces
            Whether a file may exist there; it stays until :meth:`close` replaces it.
        unsynced
            Records a local file, which is then not durable when it is closed.

        Raises
        ------
        StorageError
            The store refused.
        """
        self.location = location
        self.position = 0
        self._path = location.path
        self._unsynced = unsynced if location.is_local else None
        if replaces and location.is_local:
            folder = os.path.dirname(location.path)
            self._path = os.path.join(folder, f".tmp_{uuid.uuid4().hex}")
        with _writing(location):
            if not location.is_local:
                location.make_parent()
            elif unsynced is not None:
                unsynced.make_folders(os.path.dirname(location.path))
            self._file: Any = _create(self._path) if location.is_local else location.fs.open(self._path, "wb")
        # in object stores, a file is invisible until it is closed; in memory, it is visible at once
        self._keeps_former = replaces and not location.is_local and not isinstance(self._file, io.BytesIO)

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes."""
        with _writing(self.location):
            self._file.write(data)
        self.position += memoryview(data).nbytes

    def close(self) -> None:
        """Make the file durable."""
        with _writing(self.location):
            if self._unsynced is not None and self._path == self.location.path:
                self._file.close()
                self._unsynced.add(self._path)
                return
            if self.location.is_local:
                self._file.flush()
                os.fsync(self._file.fileno())
                if self._path != self.location.path:
                    os.replace(self._path, self.location.path)
                sync_folder(os.path.dirname(self.location.path))
            self._file.close()

    def abort(self) -> None:
        """Give up and remove the written data, as far as the store allows."""
        with suppress(Exception):
            if self.location.is_local:
                self._file.close()
            else:
                self._file.discard()
                self._file.closed = True  # or the rest is uploaded when the object is collected
        if self._keeps_former:
            return
        with suppress(Exception):
            self.location.fs.rm_file(self._path)


def _create(path: str) -> Any:
    try:
        return os.fdopen(create(path), "wb")
    except (FileNotFoundError, NotADirectoryError) as err:
        # for a file being created, these errors mean that the location is invalid
        raise StorageError(f"{os.path.dirname(path)}: cannot create a file here") from err


@contextmanager
def _writing(location: Location) -> Iterator[None]:
    """Translate errors of a write."""
    try:
        with translate_errors(location.uri):
            yield
    except NotFoundError as err:
        if location.is_local:
            raise
        raise cannot_be_written(location) from err


def cannot_be_written(location: Location) -> NotFoundError:
    """Return the error for a file for which a store says, while it is written, that something is missing."""
    if location.uri.partition("://")[0] not in OBJECT_STORES:
        return NotFoundError(f"{location.uri}: cannot be written; its folder does not exist")
    bucket = location.path.lstrip("/").partition("/")[0]
    return NotFoundError(f"{location.uri}: cannot be written; {bucket!r} does not exist in the store")
