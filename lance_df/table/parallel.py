"""Read many small files at once: a store answers slowly, but many requests as fast as one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

from lance_df.errors import LanceError
from lance_df.storage.together import fetch_together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lance_df.storage import Location

T = TypeVar("T")
R = TypeVar("R")

# many, as each thread mostly waits, and what it reads is small
_NUM_THREADS = 64


def map_reads(function: Callable[[T], R], items: Iterable[T], *, where: Location) -> list[R]:
    """Apply a function that reads small files to each item, in threads unless ``where`` is local."""
    if where.is_local:
        return [function(item) for item in items]
    listed = list(items)
    if len(listed) < 2:
        return [function(item) for item in listed]
    with ThreadPoolExecutor(min(_NUM_THREADS, len(listed))) as pool:
        return list(pool.map(function, listed))


def read_files(files: Sequence[Location], sizes: Sequence[int] | None = None) -> list[bytes | LanceError]:
    """Return the content of each of many small files, or the error if it could not be read.

    Parameters
    ----------
    sizes
        How many bytes of each file to read from its start; all if ``None``.
    """
    if len(files) > 1 and (contents := fetch_together(files, sizes)) is not None:
        return contents

    def read(request: tuple[Location, int | None]) -> bytes | LanceError:
        file, size = request
        try:
            return file.read() if size is None else file.read_start(size)
        except LanceError as err:
            return err

    wanted = [(file, None) for file in files] if sizes is None else list(zip(files, sizes, strict=True))
    return map_reads(read, wanted, where=files[0]) if files else []
