"""Unpublished local files that are synced together, which is faster than one by one."""

from __future__ import annotations

import ctypes
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from lance_df.errors import LanceError, NotFoundError, StorageError
from lance_df.forks import new_lock
from lance_df.storage.local_files import create, sync_folder, write_all
from lance_df.storage.translate import translate_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_df.storage.location import Location

_NUM_THREADS: Final = 8
# With this many files or more, the whole file system is synced, or these files if that is not possible.
_MANY: Final = 512


class Unsynced:
    """Files and folders that were written but would not survive a crash of the machine.

    Call `sync` before publishing the name of such a file. May be shared by threads that do not remove the
    files.
    """

    def __init__(self) -> None:
        self._files: set[str] = set()
        self._folders: set[str] = set()
        self._systems: dict[int, str] = {}
        self._lock = new_lock()
        self._syncing = new_lock()

    def make_folders(self, folder: str) -> None:
        """Create a folder and those above it."""
        made = _made_folders(folder)
        with self._lock:
            self._folders.update(os.path.dirname(each) for each in made)

    def add(self, path: str) -> None:
        """Record a file that was just written completely."""
        with self._lock:
            self._files.add(path)
            self._folders.add(os.path.dirname(path))
            is_many = len(self._files) >= _MANY
        if is_many:
            self._put_off()

    def create(self, location: Location, data: bytes) -> bool:
        """Write a complete file unless the name exists; return whether it was written."""
        with translate_errors(location.uri):
            self.make_folders(os.path.dirname(location.path))
            try:
                descriptor = create(location.path)
            except FileExistsError:
                return False
            try:
                write_all(descriptor, data)
            finally:
                os.close(descriptor)
            self.add(location.path)
        return True

    def put_new(self, location: Location, data: bytes) -> None:
        """Write a complete new file to a store of any kind; if that fails, nothing is left.

        Raises
        ------
        StorageError
            The store refused.
        """
        if not location.is_local:
            location.put(data)
            return
        try:
            is_new = self.create(location, data)
        except NotFoundError as err:
            raise StorageError(f"{location.uri}: cannot create a file here") from err
        except BaseException:
            with suppress(LanceError):
                location.remove()
            raise
        if not is_new:
            raise StorageError(f"{location.uri}: file already exists")

    def sync(self) -> None:
        """Sync everything written so far, including files that another thread is about to sync.

        Raises
        ------
        StorageError
            The disk failed.
        """
        with self._syncing:
            self._sync()

    def _sync(self) -> None:
        with self._lock:
            paths, self._files, self._folders = [*self._files, *self._folders], set(), set()
            systems, self._systems = self._systems, {}
        sync_system = _sync_system()
        for path in systems.values():
            if sync_system is not None:
                sync_system(path)
        if paths:
            with ThreadPoolExecutor(_NUM_THREADS) as pool:
                list(pool.map(_sync, paths))

    def _put_off(self) -> None:
        """Replace the recorded paths by their file systems, or sync them now, to limit their number."""
        if _sync_system() is None:
            self.sync()
            return
        with self._syncing:
            with self._lock:
                paths, self._files, self._folders = [*self._files, *self._folders], set(), set()
            systems = {os.stat(path).st_dev: path for path in paths}
            with self._lock:
                self._systems |= systems


def _made_folders(folder: str) -> list[str]:
    """Create a folder and those above it, and return the created ones."""
    try:
        os.mkdir(folder)  # usually no other writer creates it
    except FileNotFoundError:
        above = _made_folders(os.path.dirname(folder))
        os.makedirs(folder, exist_ok=True)
        return [*above, folder]
    except FileExistsError:
        if not os.path.isdir(folder):
            raise
        return []
    return [folder]


def _sync(path: str) -> None:
    with translate_errors(path):
        if os.path.isdir(path):
            sync_folder(path)
            return
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _sync_system() -> Callable[[str], None] | None:
    """Return a function that syncs the file system of a path, or None except on Linux."""
    function = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None) if sys.platform == "linux" else None
    if function is None:
        return None

    def sync(path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if function(descriptor):
                number = ctypes.get_errno()
                raise StorageError(f"{path}: cannot sync its file system: {os.strerror(number)}")
        finally:
            os.close(descriptor)

    return sync
