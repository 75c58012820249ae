"""Copy files within a store or between stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_df.errors import NotFoundError
from lance_df.storage.location import translate_errors
from lance_df.storage.sink import ByteSink, cannot_be_written

if TYPE_CHECKING:
    from lance_df.errors import NotFoundError
from lance_df.storage.location import Location

_CHUNK_BYTES = 8 * 1024 * 1024


def copy_file(source: Location, target: Location) -> None:
    """Copy a file to a new name. Within one remote store, the store itself copies it.

    Raises
    ------
    NotFoundError
        There is no such file.
    StorageError
        One of the stores failed; the written data is removed as far as the store allows.
    """
    if not source.is_local and source.fs == target.fs:
        try:
            with translate_errors(source.uri):
                source.fs.cp_file(source.path, target.path)
        except NotFoundError as err:
            if not source.exists():
                raise
            raise cannot_be_written(target) from err
        return
    content = source.open()
    sink = ByteSink(target)
    try:
        for start in range(0, content.size, _CHUNK_BYTES):
            sink.write(memoryview(content.read_range(start, min(start + _CHUNK_BYTES, content.size))))
        sink.close()
    except BaseException:
        sink.abort()
        raise
