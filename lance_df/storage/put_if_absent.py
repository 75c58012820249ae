"""Create a file only if its name is free, on which concurrent commits to a table rely.

Each kind of store has its own primitive. fsspec's generic exclusive mode checks first and then writes, so
several writers may win a race. A store without a primitive, or behind a wrapper, is refused.
"""

from __future__ import annotations

import inspect
import random
import time
from typing import TYPE_CHECKING, Any

from lance_df.errors import (
    CommitStateUnknownError,
    MissingDependencyError,
    NotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from lance_df.forks import new_lock
from lance_df.storage.local_files import create_if_absent
from lance_df.storage.translate import http_status, translate_errors, was_refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from fsspec import AbstractFileSystem

    from lance_df.storage.location import Location

_memory_lock = new_lock()
_TAKEN = 412
_BUSY = 409  # S3: another conditional request for this name is in progress
_ATTEMPTS_WHILE_BUSY = 6


def put_if_absent(location: Location, data: bytes, *, is_locked: bool = False) -> bool:
    """Write a complete file durably, unless the name exists.

    Parameters
    ----------
    is_locked
        The caller excludes other writers, so that stores without a primitive can be used.

    Returns
    -------
    Whether this call wrote the file. On remote stores, False can also mean that an earlier attempt of this
    call succeeded but its response was lost; compare the content.

    Raises
    ------
    CommitStateUnknownError
        The store failed; the file may have been written, or may still be written.
    StorageError, NotFoundError
        The store refused, and the file was not written. `NotFoundError` means that the bucket does not exist.
    UnsupportedFeatureError
        The store has no primitive that is safe with concurrent writers.
    """
    if location.is_local:
        with translate_errors(location.uri):
            return create_if_absent(location.path, data)
    put = _primitive(location.fs) or (_put_alone if is_locked else None)
    if put is None:
        raise UnsupportedFeatureError(
            f"{location.uri}: this store cannot create a file only if it does not exist yet, so concurrent "
            "commits could overwrite each other. Use a local path, memory://, s3://, gs:// or az:// "
            "directly, or pass an external manifest store as external_store, or a commit_lock"
        )
    for attempt in range(_ATTEMPTS_WHILE_BUSY):
        try:
            put(location.fs, location.path, data)
        except FileExistsError:
            return False
        except (MissingDependencyError, UnsupportedFeatureError):
            raise
        except Exception as err:  # noqa: BLE001 - the errors of the libraries have no common base
            if http_status(err) == _TAKEN:
                return False
            if http_status(err) != _BUSY:
                raise _failure(location, err) from None
        else:
            return True
        time.sleep(random.uniform(0, 0.02 * 2**attempt))
    raise StorageError(f"{location.uri}: too many concurrent requests of other writers for this file")


def _failure(location: Location, err: Exception) -> StorageError | NotFoundError | CommitStateUnknownError:
    """Return the error for a failed request, without the store's text, which may contain credentials."""
    if not was_refused(err):
        return CommitStateUnknownError(
            f"{location.uri}: the store failed while this file was written ({type(err).__name__}), so it "
            "is unknown whether the file exists"
        )
    if isinstance(err, FileNotFoundError) or http_status(err) == 404:
        return NotFoundError(f"{location.uri}: no such bucket")
    return StorageError(f"{location.uri}: the store refused the request ({type(err).__name__})")


def _primitive(fs: AbstractFileSystem) -> Callable[[Any, str, bytes], None] | None:
    """Return the function with which a filesystem creates a file only if it is absent, or None."""
    protocols = {fs.protocol} if isinstance(fs.protocol, str) else set(fs.protocol)
    if "memory" in protocols:
        return _put_in_memory
    if protocols & {"s3", "s3a"} and hasattr(fs, "get_s3"):
        return _put_s3
    if protocols & {"gs", "gcs"} and "mode" in inspect.signature(fs._pipe_file).parameters:
        return _put_gcs
    if protocols & {"az", "abfs"} and "overwrite" in inspect.signature(fs._pipe_file).parameters:
        return _put_azure
    return None


def _put_alone(fs: AbstractFileSystem, path: str, data: bytes) -> None:
    if fs.exists(path):
        raise FileExistsError(path)
    fs.pipe_file(path, data)


def _put_in_memory(fs: AbstractFileSystem, path: str, data: bytes) -> None:
    with _memory_lock:
        if fs.exists(path):
            raise FileExistsError(path)
        fs.pipe_file(path, data)


def _put_s3(fs: Any, path: str, data: bytes) -> None:
    """Send one conditional request without the retries of s3fs, which hide a lost response."""
    from fsspec.asyn import sync

    bucket, key, _ = fs.split_path(path)

    async def put() -> None:
        await fs.set_session()
        client = await fs.get_s3(bucket)
        if "IfNoneMatch" not in client.meta.service_model.operation_model("PutObject").input_shape.members:
            raise MissingDependencyError("s3:// requires a newer botocore for commits: pip install -U s3fs")
        arguments = fs._get_s3_method_kwargs(
            client.put_object, Bucket=bucket, Key=key, Body=data, IfNoneMatch="*"
        )
        await client.put_object(**arguments)

    sync(fs.loop, put)
    fs.invalidate_cache(path)


def _put_gcs(fs: Any, path: str, data: bytes) -> None:
    # in one part, so that the request that creates the file has the precondition
    fs.pipe_file(path, data, mode="create", chunksize=max(len(data) + 1, 1 << 26))


def _put_azure(fs: Any, path: str, data: bytes) -> None:
    fs.pipe_file(path, data, overwrite=False)
