"""Create a file only if its name is free: what commits of many writers to one table rest on.

Each kind of store has its own primitive. fsspec's generic exclusive mode looks first and writes then, so
races have several winners; a store without a primitive of its own is refused.
"""

from __future__ import annotations

import errno
import os
import tempfile
import threading
from typing import TYPE_CHECKING

from lance_df.errors import StorageError, UnsupportedFeatureError
from lance_df.storage.location import translate_errors

if TYPE_CHECKING:
    from lance_df.storage.location import Location

_memory_lock = threading.Lock()
# stores whose fsspec filesystem turns mode="create" of `pipe_file` into a conditional request
_CONDITIONAL_REQUESTS = frozenset({"s3", "s3a", "gs", "gcs"})
_LOST_RACE_CODES = frozenset({"PreconditionFailed", "ConditionalRequestConflict", "412", "409"})
_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


def put_if_absent(location: Location, data: bytes) -> bool:
    """Write a file whole, unless one of this name exists.

    Returns
    -------
    Whether the file was written by this call. A false answer after an unreliable connection can also mean
    that an earlier attempt of this very call arrived: compare the content.

    Raises
    ------
    UnsupportedFeatureError
        The store has no way to do so that holds against other writers.
    StorageError
        The store failed; whether the file was written is not known.
    """
    protocols = {location.fs.protocol} if isinstance(location.fs.protocol, str) else set(location.fs.protocol)
    with translate_errors(location.uri):
        if location.is_local:
            return _link_if_absent(location.path, data)
        if "memory" in protocols:
            return _put_in_memory(location, data)
        if protocols & _CONDITIONAL_REQUESTS:
            return _put_conditionally(location, data)
    raise UnsupportedFeatureError(
        f"{location.uri}: this store cannot create a file only if it is absent, so tables in it cannot be "
        "written safely; use a local path, memory://, s3:// or gs://"
    )


def _link_if_absent(path: str, data: bytes) -> bool:
    """Write beside the target, sync, then link: the link fails if the name is taken."""
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(prefix=".tmp_", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError as err:
            if err.errno in _NO_HARD_LINKS:
                raise StorageError(
                    f"{path}: the file system has no hard links, which a commit needs"
                ) from err
            raise
    finally:
        os.unlink(temporary)
    sync_folder(folder)
    return True


def sync_folder(folder: str) -> None:
    """Make the names in a local folder durable."""
    if os.name == "nt":  # folders cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _put_in_memory(location: Location, data: bytes) -> bool:
    with _memory_lock:
        if location.fs.exists(location.path):
            return False
        location.fs.pipe_file(location.path, data)
        return True


def _put_conditionally(location: Location, data: bytes) -> bool:
    try:
        location.fs.pipe_file(location.path, data, mode="create")
    except FileExistsError:
        return False
    except Exception as err:
        if _error_code(err) in _LOST_RACE_CODES:
            return False
        raise
    return True


def _error_code(error: BaseException | None) -> str | None:
    """Return the store's code for a failed request, wherever its client library put it."""
    while error is not None:
        response = getattr(error, "response", None)
        if isinstance(response, dict):
            return str(response.get("Error", {}).get("Code"))
        if (code := getattr(error, "code", None)) is not None:
            return str(code)
        error = error.__cause__
    return None
