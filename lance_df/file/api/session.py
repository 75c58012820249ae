"""`LanceFileSession`: the files below a folder of a store, with the names of pylance."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lance_df.arguments import checked_integer, checked_text
from lance_df.errors import CorruptDataError, InvalidInputError, NotFoundError
from lance_df.file.api.reader import LanceFileReader
from lance_df.file.api.writer import LanceFileWriter
from lance_df.records import dataclass
from lance_df.storage import open_location
from lance_df.storage.sink import ByteSink

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.storage import Location

__all__ = ["LanceFileSession", "ListResult"]

_COPY_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ListResult:
    """The direct contents of a folder, as paths relative to the folder of the session.

    Attributes
    ----------
    common_prefixes
        The folders.
    objects
        The files.
    """

    common_prefixes: list[str]
    objects: list[str]


class LanceFileSession:
    """A session that opens, writes, lists and copies files by their paths below one folder.

    Parameters
    ----------
    base_path
        A path or URL. The folder need not exist.
    storage_options
        Options for the fsspec filesystem. They never appear in messages.
    """

    def __init__(
        self, base_path: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
    ) -> None:
        self._base = open_location(base_path, storage_options)
        self._storage_options = storage_options

    def open_reader(self, path: str, columns: Sequence[str] | None = None) -> LanceFileReader:
        """Open a file for reading; see :class:`LanceFileReader`."""
        return LanceFileReader(self._at(path).uri, self._storage_options, columns)

    def open_writer(
        self,
        path: str,
        *,
        schema: pa.Schema | None = None,
        data_cache_bytes: int | None = None,
        version: str | None = None,
        keep_original_array: bool | None = None,
        max_page_bytes: int | None = None,
    ) -> LanceFileWriter:
        """Open a new file for writing; see :class:`LanceFileWriter`."""
        return LanceFileWriter(
            self._at(path).uri,
            schema,
            data_cache_bytes=data_cache_bytes,
            version=version,
            storage_options=self._storage_options,
            keep_original_array=keep_original_array,
            max_page_bytes=max_page_bytes,
        )

    def contains(self, path: str) -> bool:
        """Return whether a file with this path exists."""
        return self._at(path).is_file()

    def list(self, path: str | None = None) -> list[str]:
        """Return the paths of all files in a folder and its sub-folders; none if there is no such folder."""
        return [name for name, is_folder in self._walk(self._at(path), _prefix(path)) if not is_folder]

    def list_with_delimiter(self, path: str | None = None) -> ListResult:
        """Return the direct contents of a folder, which need not exist."""
        prefix = _prefix(path)
        entries = list(self._at(path).list())
        return ListResult(
            [prefix + entry.name for entry in entries if entry.is_directory],
            [prefix + entry.name for entry in entries if not entry.is_directory],
        )

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Return a range of bytes of a file.

        Raises
        ------
        NotFoundError
            There is no such file.
        InvalidInputError
            The range is not within the file.
        """
        source = self._file(path).open()
        offset, length = checked_integer(offset, "offset"), checked_integer(length, "length")
        if offset < 0 or length < 0 or offset + length > source.size:
            raise InvalidInputError(
                f"{source.path}: bytes {offset} to {offset + length} are out of range, the file has "
                f"{source.size} bytes"
            )
        return source.read_range(offset, offset + length).to_pybytes()

    def delete_file(self, path: str) -> None:
        """Remove a file.

        Raises
        ------
        NotFoundError
            There is no such file.
        """
        self._file(path).remove()

    def upload_file(self, local_path: str | os.PathLike[str], remote_path: str) -> None:
        """Copy a local file to the folder of the session. An existing file with the same path is replaced.

        Raises
        ------
        NotFoundError
            There is no such local file.
        InvalidInputError
            The local path is a folder.
        """
        _copy(_existing(open_location(local_path)), self._at(remote_path))

    def download_file(self, remote_path: str, local_path: str | os.PathLike[str]) -> None:
        """Copy a file from the folder of the session to a local path. An existing local file is replaced."""
        _copy(self._file(remote_path), open_location(local_path))

    def _at(self, path: str | None) -> Location:
        relative = _prefix(path).rstrip("/")
        try:
            return self._base.child(relative) if relative else self._base
        except CorruptDataError as err:
            raise InvalidInputError(f"{path!r} is not a valid path below {self._base.uri}") from err

    def _file(self, path: str) -> Location:
        return _existing(self._at(path))

    def _walk(self, folder: Location, prefix: str) -> Iterator[tuple[str, bool]]:
        for entry in folder.list():
            yield prefix + entry.name, entry.is_directory
            if entry.is_directory:
                yield from self._walk(folder / entry.name, f"{prefix}{entry.name}/")


def _prefix(path: str | None) -> str:
    stripped = ("" if path is None else checked_text(path, "path")).strip("/")
    return f"{stripped}/" if stripped else ""


def _existing(location: Location) -> Location:
    if not location.is_file():
        if location.is_local and os.path.isdir(location.path):
            raise InvalidInputError(f"{location.uri}: path must be a file, got a folder")
        raise NotFoundError(f"{location.uri}: no such file")
    return location


def _copy(source: Location, target: Location) -> None:
    content = source.open()
    sink = ByteSink(target, replaces=True)
    try:
        for start in range(0, content.size, _COPY_BYTES):
            sink.write(memoryview(content.read_range(start, min(start + _COPY_BYTES, content.size))))
        sink.close()
    except BaseException:
        sink.abort()
        raise
