"""List the entries of a folder with their modification times."""

from __future__ import annotations

import datetime as dt
import os
import posixpath
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from lance_df.errors import NotFoundError
from lance_df.records import dataclass
from lance_df.storage.translate import translate_errors

if TYPE_CHECKING:
    from lance_df.storage.location import Location

# the keys of the modification time in fsspec: local, S3, Azure and GCS, memory
_TIME_KEYS = ("mtime", "LastModified", "last_modified", "updated", "created")


@dataclass(frozen=True, slots=True)
class ListedFile:
    """An entry of a folder.

    Attributes
    ----------
    modified
        The time of the last write in seconds since the epoch; ``None`` if the store does not report it.
    """

    name: str
    size: int
    is_directory: bool
    modified: float | None


def scan_folder(folder: Location) -> Iterator[ListedFile]:
    """Yield the entries of a folder, in any order; nothing if it does not exist.

    A local folder is read incrementally, so it may have any number of files, which may be removed meanwhile.

    Raises
    ------
    StorageError
        The store failed.
    """
    try:
        with translate_errors(folder.uri):
            yield from _scan_local(folder.path) if folder.is_local else _scan_store(folder)
    except NotFoundError:
        return


def _scan_local(path: str) -> Iterator[ListedFile]:
    with os.scandir(path) as entries:
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # removed since it was listed
            yield ListedFile(entry.name, status.st_size, entry.is_dir(follow_symlinks=False), status.st_mtime)


def _scan_store(folder: Location) -> Iterator[ListedFile]:
    folder.check_listable()
    prefix = folder.path.rstrip("/")
    for info in folder.fs.ls(folder.path, detail=True, refresh=True):
        path = str(info["name"]).rstrip("/")
        if path != prefix:
            yield ListedFile(
                posixpath.basename(path),
                int(info.get("size") or 0),
                info["type"] == "directory",
                _modified(info),
            )


def _modified(info: Mapping[str, Any]) -> float | None:
    value = next((info[key] for key in _TIME_KEYS if info.get(key) is not None), None)
    if isinstance(value, str):
        try:
            value = dt.datetime.fromisoformat(value)
        except ValueError:
            return None
    if isinstance(value, dt.datetime):
        # stores that omit the time zone mean UTC
        return (value if value.tzinfo is not None else value.replace(tzinfo=dt.UTC)).timestamp()
    return float(value) if isinstance(value, int | float) else None
