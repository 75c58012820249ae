"""Release the pages of mapped files, which count as memory of this process once they are read.

Released pages stay in the page cache of the system, so later reads are fast.
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

# On Linux, the only effect on file maps is that pages are fetched again.
_DONTNEED: Final = 4

_mapped: WeakValueDictionary[str, ByteSource] = WeakValueDictionary()


def note_mapped(source: ByteSource) -> None:
    """Register an open file that is mapped as a whole."""
    _mapped.setdefault(source.path, source)


def release_pages(paths: Iterable[str]) -> None:
    """Release the pages of files that are mapped. Views of them stay valid."""
    advise = _advise()
    if advise is None:
        return
    for path in paths:
        source = _mapped.get(path)
        if source is not None and source.size:
            whole = source.read_range(0, source.size)
            advise(whole.address, whole.size, _DONTNEED)


def has_room_to_map(path: str) -> bool:
    """Whether the address space, if limited, has room for a map of a file and as much again.

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
