"""Pages of mapped files: memory of this process from when they are read until it gives them back.

They stay in the cache of the system, from which whoever needs them again has them at once.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lance_df.storage.source import ByteSource

# Of Linux, where it changes nothing about maps of files but that pages are fetched again.
_DONTNEED: Final = 4

_mapped: WeakValueDictionary[str, ByteSource] = WeakValueDictionary()


def note_mapped(source: ByteSource) -> None:
    """Take note of an open file that is mapped as a whole."""
    _mapped.setdefault(source.path, source)


def release_pages(paths: Iterable[str]) -> None:
    """Give back the pages of files, as far as these are mapped. Views of them stay valid."""
    advise = _advise()
    if advise is None:
        return
    for path in paths:
        source = _mapped.get(path)
        if source is not None and source.size:
            whole = source.read_range(0, source.size)
            advise(whole.address, whole.size, _DONTNEED)


def has_room_to_map(path: str) -> bool:
    """Whether a process whose address space is limited has room for a map of a file, and as much besides.

    Raises
    ------
    OSError
        There is no such file.
    """
    if not sys.platform.startswith("linux"):
        return True
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return True
    with open("/proc/self/statm", "rb") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    return used + os.stat(path).st_size <= limit // 2


@cache
def _advise() -> Callable[[int, int, int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return advise
