"""Tables in ``memory://``: a name may be created again while readers keep the older table open.

Each created table gets its own filesystem object over the shared files. Before a table of the same name
replaces it, the files of the older one are moved to its own filesystem.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from fsspec.implementations.memory import MemoryFileSystem

from lance_df.forks import new_lock

if TYPE_CHECKING:
    from lance_df.storage.location import Location

_stores: dict[str, MemoryFileSystem] = {}
_changing = new_lock()


def separate_store(location: Location, *, is_taken: bool) -> Location:
    """Return the location of a table to create, in a new filesystem.

    Parameters
    ----------
    is_taken
        Whether there is a table of that name. If so, the new one is invisible until `publish_store`.
    """
    shared = {"store": MemoryFileSystem.store, "pseudo_dirs": MemoryFileSystem.pseudo_dirs}
    files: dict[str, Any] = {"store": {}, "pseudo_dirs": [""]} if is_taken else shared
    # a new type, by which caches distinguish filesystems
    kind = type("MemoryStore", (MemoryFileSystem,), {**files, "cachable": False})
    return dataclasses.replace(location, fs=kind())


def publish_store(location: Location) -> None:
    """Make a name refer to the table that was created in a filesystem of `separate_store`."""
    kind: Any = type(location.fs)
    with _changing:
        if kind.store is not MemoryFileSystem.store:
            older: Any = type(_stores[_key(location)]) if _key(location) in _stores else None
            replaced = {path: MemoryFileSystem.store.pop(path) for path in _files_of(location)}
            if older is not None:
                older.store, older.pseudo_dirs = replaced, ["", *MemoryFileSystem.pseudo_dirs]
            MemoryFileSystem.store.update(kind.store)
            MemoryFileSystem.pseudo_dirs += kind.pseudo_dirs
            kind.store, kind.pseudo_dirs = MemoryFileSystem.store, MemoryFileSystem.pseudo_dirs
        _stores[_key(location)] = location.fs


def store_of(path: str) -> MemoryFileSystem | None:
    """Return the filesystem of the table at or above a path, if it was created with one."""
    key = path.strip("/")
    if not _stores or not key:
        return _stores.get(key)
    while key and key not in _stores:
        key = key.rpartition("/")[0]
    return _stores.get(key) if key else None  # a path in the root need not belong to a table in the root


def _key(location: Location) -> str:
    return location.path.strip("/")


def _files_of(location: Location) -> list[str]:
    """Return the files of a table; those of a table in the root are recognized by their names."""
    key = _key(location)
    if key:
        return [path for path in MemoryFileSystem.store if path.startswith(f"/{key}/")]
    return [path for path in MemoryFileSystem.store if path[1:].startswith(("_", "data/", "tree/"))]
