"""The bytes of blobs to be written: given with the rows, or copied from a URI."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from lance_df.errors import InvalidInputError
from lance_df.records import dataclass
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.storage import ByteSource

    _Flags: TypeAlias = npt.NDArray[np.bool_]

OpenSource: TypeAlias = "Callable[[str, int | None], ByteSource]"
"""Opens the file at a URI; the second argument is the id of the base path whose options to use, or None."""

_GROUP_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of the blob of one row; read ``pieces`` once, before taking the next row."""

    row: int
    size: int
    pieces: Iterable[memoryview]


class BlobContents:
    """The parts of a `MOVED_BLOB` array.

    Attributes
    ----------
    is_null
        Rows without a blob.
    is_reference
        Rows that are stored as references.
    """

    def __init__(self, blobs: pa.StructArray, name: str) -> None:
        """Split an array into its parts.

        Raises
        ------
        InvalidInputError
            A blob has both bytes and a URI, or neither. The message calls the column ``name``.
        """
        self.is_null: _Flags = blobs.is_null().to_numpy(zero_copy_only=False)
        data, uri, position, size, base_id, is_copied = (blobs.field(i) for i in range(6))
        has_uri = _valid(uri) & ~self.is_null
        if (~self.is_null & (_valid(data) == has_uri)).any():
            raise InvalidInputError(f"column {name!r}: a blob must have either bytes or a URI")
        copied = is_copied.fill_null(False).to_numpy(zero_copy_only=False)
        self.is_reference: _Flags = has_uri & ~copied
        self.uris: pa.StringArray = uri
        self.positions, self.sizes = (each.fill_null(0).to_numpy() for each in (position, size))
        self.base_ids: npt.NDArray[np.uint32] = base_id.fill_null(0).to_numpy()
        self._base_ids = base_id
        self._has_size = _valid(size)
        self._copied: _Flags = has_uri & copied
        self._starts, self._lengths = _extents(data, ~self.is_null)
        self._data = memoryview(data.buffers()[2] or b"")

    def stored(self, open_source: OpenSource | None) -> Iterator[Content]:
        """Yield the bytes of all rows that are neither null nor a reference, in order.

        Bytes to copy are read a few mebibytes at a time; ranges close to each other share a request.

        Raises
        ------
        NotFoundError, CorruptDataError
            The file to copy from does not exist, or ends before the blob does.
        """
        group = _Group(open_source)
        for row in np.flatnonzero(~self.is_null & ~self.is_reference).tolist():
            if not self._copied[row]:
                start, size = int(self._starts[row]), int(self._lengths[row])
                group.add(row, size, [self._data[start : start + size]])
            else:
                base_id = self._base_ids[row].as_py()
                uri = self.uris[row].as_py()
                part = (int(self.positions[row]), int(self.sizes[row])) if self._has_size[row] else None
                group.add_copied(row, uri, base_id, part)
            if group.is_full:
                yield from group.take()
        yield from group.take()


class _Group:
    """Blobs whose bytes are fetched together."""

    def __init__(self, open_source: OpenSource | None) -> None:
        self._open_source = open_source
        self._contents: list[Content] = []
        self._wanted: dict[str, tuple[ByteSource, list[tuple[int, ByteRange]]]] = {}
        self._num_bytes = 0

    @property
    def is_full(self) -> bool:
        return self._num_bytes >= _GROUP_BYTES or len(self._contents) >= _GROUP_BYTES // 64

    def add(self, row: int, size: int, pieces: Iterable[memoryview]) -> None:
        self._contents.append(Content(row, size, pieces))

    def add_copied(self, row: int, uri: str, base_id: int | None, part: tuple[int, int] | None) -> None:
        if self._open_source is None:
            raise InvalidInputError(f"{uri}: blobs cannot be copied into a single file")
        key = f"{base_id} {uri}"
        if key not in self._wanted:
            self._wanted[key] = self._open_source(uri, base_id), []
        source, ranges = self._wanted[key]
        start, size = (0, source.size) if part is None else part
        if size > _GROUP_BYTES:
            # raises if the file is too short, before anything is written
            source.read_ranges([ByteRange(start + size, start + size)])
            self.add(row, size, _pieces(source, start, start + size))
            return
        ranges.append((len(self._contents), ByteRange(start, start + size)))
        self.add(row, size, ())
        self._num_bytes += size

    def take(self) -> Iterator[Content]:
        contents, self._contents, self._num_bytes = self._contents, [], 0
        wanted, self._wanted = self._wanted, {}
        for source, ranges in wanted.values():
            buffers = source.read_ranges([each for _, each in ranges])
            for (index, _), buffer in zip(ranges, buffers, strict=True):
                before = contents[index]
                contents[index] = Content(before.row, before.size, [memoryview(buffer)])
        yield from contents


def _pieces(source: ByteSource, start: int, stop: int) -> Iterator[memoryview]:
    for first in range(start, stop, _GROUP_BYTES):
        yield memoryview(source.read_range(first, min(first + _GROUP_BYTES, stop)))


def _valid(array: pa.Array) -> _Flags:
    valid: _Flags = array.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _extents(data: pa.Array, wanted: _Flags) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the start of each value in the buffer, and its length, which is 0 for nulls."""
    if not len(data):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    offsets = np.frombuffer(data.buffers()[1], np.int64, len(data) + 1, data.offset * 8)
    return offsets[:-1], np.where(_valid(data) & wanted, np.diff(offsets), 0)
