"""Recreate fsspec filesystems in forked children, which lack the thread that sends their requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import ref

# imported first, so that its fork hook runs first and new filesystems get a thread of the child
from fsspec.asyn import AsyncFileSystem

from lance_df.forks import after_fork_in_child

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_opened: dict[int, ref[Any]] = {}


def renewed_at_fork(fs: AbstractFileSystem) -> None:
    """Register a filesystem to be recreated in forked children, in place, so that references stay valid."""
    if isinstance(fs, AsyncFileSystem) and not fs.asynchronous:
        _opened[id(fs)] = ref(fs)


def _renew() -> None:
    for known in _opened.values():
        if (fs := known()) is not None:
            new = type(fs)(*fs.storage_args, **{**fs.storage_options, "skip_instance_cache": True})
            vars(fs).update(vars(new))


after_fork_in_child(_renew)
