"""One file, open for ranged reads."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from contextlib import contextmanager
from io import FileIO
from time import monotonic
from typing import TYPE_CHECKING

import pyarrow as pa

from lance_df.errors import CorruptDataError, NotFoundError, StorageError
from lance_df.storage.counters import READ
from lance_df.storage.local_files import open_regular, read_start, regular_size
from lance_df.storage.mapped_pages import has_room_to_map, note_mapped
from lance_df.storage.ranges import ByteRange, coalesce
from lance_df.storage.translate import translate_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fsspec import AbstractFileSystem

# One round trip to an object store costs about as much as streaming this many bytes.
MAX_GAP_BYTES = 256 * 1024
MAX_REQUEST_BYTES = 16 * 1024 * 1024
# A file of up to this many bytes is read completely, as requesting its end first would take longer.
SMALL_FILE_BYTES = MAX_GAP_BYTES
_MAX_READ_BYTES = 128 * 1024
# Reading this many bytes of a local file is faster than requesting another range.
_LOCAL_GAP_BYTES = 16 * 1024
_SIZE_HOLDS_SECONDS = 0.1


class ByteSource(ABC):
    """A file of known size whose byte ranges can be read.

    Attributes
    ----------
    path
        The name of the file in error messages. Never contains credentials.
    size
        The size of the file in bytes.
    mark
        The mark of the listing that led to the file (see `Entry`); empty without a listing.
    held_bytes
        The bytes of the file that this object keeps in memory, without those of a memory map.
    """

    path: str
    size: int
    mark: str = ""
    held_bytes: int = 0

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        """Return one buffer for each range, in the order of ``ranges``.

        Raises
        ------
        CorruptDataError
            A range is outside the file. Nothing is read or allocated then.
        """
        for wanted in ranges:
            if not 0 <= wanted.start <= wanted.stop <= self.size:
                raise self._outside(wanted.start, wanted.stop)
        return self._read_ranges(ranges)

    def read_range(self, start: int, stop: int) -> pa.Buffer:
        """Return the bytes from ``start`` (inclusive) to ``stop`` (exclusive)."""
        if not 0 <= start <= stop <= self.size:
            raise self._outside(start, stop)
        return self._read_range(start, stop)

    def read_tail(self, num_bytes: int) -> pa.Buffer:
        """Return the last ``num_bytes`` bytes, or the whole file if it is shorter."""
        return self.read_range(max(0, self.size - num_bytes), self.size)

    @property
    @abstractmethod
    def is_memory_mapped(self) -> bool:
        """Whether ranges cost nothing and always stay valid, so that they need no coalescing."""

    @abstractmethod
    def _read_ranges(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]: ...

    def _read_range(self, start: int, stop: int) -> pa.Buffer:
        return self._read_ranges([ByteRange(start, stop)])[0]

    def _outside(self, start: int, stop: int) -> CorruptDataError:
        return CorruptDataError(
            f"{self.path}: bytes {start} to {stop} are out of range, the file has {self.size} bytes"
        )


class _InMemory(ByteSource):
    """All bytes of a file, in memory or memory-mapped."""

    _buffer: pa.Buffer

    @property
    def is_memory_mapped(self) -> bool:
        return True

    def _read_ranges(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        READ.add(sum(wanted.num_bytes for wanted in ranges), len(ranges))
        return [self._buffer.slice(wanted.start, wanted.num_bytes) for wanted in ranges]

    def _read_range(self, start: int, stop: int) -> pa.Buffer:
        READ.add(stop - start)
        return self._buffer.slice(start, stop - start)


class MappedSource(_InMemory):
    """A local file, memory-mapped: buffers are views of the page cache.

    Reading a truncated part of a mapped file would kill the process. So each read checks the size again,
    unless it was checked a moment ago. A file that was removed or replaced stays mapped unchanged.

    Raises
    ------
    NotFoundError
        There is no such file.
    CorruptDataError
        It is something else than a regular file.
    StorageError
        It cannot be read.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with _reading(path):
            descriptor = open_regular(path)
            try:
                status = os.fstat(descriptor)
                size = regular_size(path, status)
            finally:
                os.close(descriptor)
            self._buffer = _mapped(path) if size else pa.py_buffer(b"")
        self.size = self._buffer.size
        self._file = status.st_dev, status.st_ino
        self._checked = -math.inf
        note_mapped(self)

    def _read_ranges(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        self._check_size()
        return super()._read_ranges(ranges)

    def _read_range(self, start: int, stop: int) -> pa.Buffer:
        self._check_size()
        return super()._read_range(start, stop)

    def _check_size(self) -> None:
        now = monotonic()
        if now - self._checked < _SIZE_HOLDS_SECONDS:
            return
        self._checked = now
        try:
            status = os.stat(self.path)
        except OSError:  # removed
            return
        if (status.st_dev, status.st_ino) == self._file and status.st_size < self.size:
            self._checked = -math.inf
            raise CorruptDataError(
                f"{self.path}: the file has {status.st_size} bytes, but had {self.size} when it was opened"
            )


class UnmappedSource(ByteSource):
    """A local file that is not mapped; ranges are read on request.

    No file descriptor stays open, because scans have thousands of files open. A removed file can no longer be
    read. Raises the errors of `MappedSource`.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        with _reading(path), self._opened() as (_, status):
            self.size = status.st_size
            self._file = status.st_dev, status.st_ino

    @property
    def is_memory_mapped(self) -> bool:
        return False

    def _read_ranges(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        requests = coalesce(ranges, max_gap_bytes=_LOCAL_GAP_BYTES, max_request_bytes=MAX_REQUEST_BYTES)
        buffers = [pa.py_buffer(b"")] * len(ranges)
        with _reading(self.path), self._opened() as (descriptor, status):
            if (status.st_dev, status.st_ino) != self._file:
                raise CorruptDataError(f"{self.path}: the file was replaced since it was opened")
            for request, members in requests:
                data = self._read(descriptor, request)
                for index in members:
                    wanted = ranges[index]
                    buffers[index] = data.slice(wanted.start - request.start, wanted.num_bytes)
        return buffers

    def _read(self, descriptor: int, wanted: ByteRange) -> pa.Buffer:
        data = pa.allocate_buffer(wanted.num_bytes)
        left = memoryview(data)
        with FileIO(descriptor, closefd=False) as file:
            file.seek(wanted.start)
            while left:
                num_bytes = file.readinto(left)
                if not num_bytes:
                    raise CorruptDataError(
                        f"{self.path}: the file ends at byte {file.tell()}, but had {self.size} bytes when "
                        "it was opened"
                    )
                left = left[num_bytes:]
        READ.add(wanted.num_bytes)
        return data

    @contextmanager
    def _opened(self) -> Iterator[tuple[int, os.stat_result]]:
        descriptor = open_regular(self.path)
        try:
            status = os.fstat(descriptor)
            regular_size(self.path, status)
            yield descriptor, status
        finally:
            os.close(descriptor)


def open_local(path: str) -> ByteSource:
    """Open a local file, mapped unless there is no room for a map or it cannot be mapped.

    Raises the errors of `MappedSource`.
    """
    with _reading(path):
        has_room = has_room_to_map(path)
    if has_room:
        try:
            return MappedSource(path)
        except StorageError:  # if the file cannot be read at all, the code below raises the error
            pass
    return UnmappedSource(path)


@contextmanager
def _reading(path: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as err:
        raise NotFoundError(f"{path}: no such file") from err
    except OSError as err:
        raise StorageError(f"{path}: cannot be read: {err.strerror or err}") from err


def _mapped(path: str) -> pa.Buffer:
    """Return a view of a whole file without a file descriptor, as scans have thousands of files open."""
    with pa.memory_map(path) as file:
        size = file.size()
        first = file.read_buffer(1)  # keeps the mapping; read() would make the system fetch all
    return pa.foreign_buffer(first.address, size, base=first)


def read_whole(path: str) -> ByteSource:
    """Open a local file of which all bytes are needed; a small one is read, as a map would take longer.

    Raises
    ------
    NotFoundError
        There is no such file.
    CorruptDataError
        It is something else than a regular file.
    StorageError
        It cannot be read.
    """
    with _reading(path):
        data = read_start(path, _MAX_READ_BYTES)
    return BytesSource(path, data) if len(data) < _MAX_READ_BYTES else open_local(path)


class BytesSource(_InMemory):
    """A file that was read completely."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path = path
        self.size = self.held_bytes = len(data)
        self._buffer = pa.py_buffer(data)


class RemoteSource(ByteSource):
    """A file of an fsspec filesystem; neighbouring ranges share a request."""

    def __init__(self, fs: AbstractFileSystem, path: str, *, name: str, size: int) -> None:
        self.path = name
        self.size = size
        self._fs = fs
        self._path = path

    @property
    def is_memory_mapped(self) -> bool:
        return False

    def _read_ranges(self, ranges: Sequence[ByteRange]) -> list[pa.Buffer]:
        requests = coalesce(ranges, max_gap_bytes=MAX_GAP_BYTES, max_request_bytes=MAX_REQUEST_BYTES)
        blobs = self._fetch([request for request, _ in requests if request.num_bytes])
        buffers = [pa.py_buffer(b"")] * len(ranges)
        fetched = iter(blobs)
        for request, members in requests:
            if not request.num_bytes:
                continue
            blob = pa.py_buffer(next(fetched))
            for index in members:
                wanted = ranges[index]
                buffers[index] = blob.slice(wanted.start - request.start, wanted.num_bytes)
        return buffers

    def _fetch(self, requests: Sequence[ByteRange]) -> list[bytes]:
        if not requests:
            return []
        with translate_errors(self.path):
            blobs: list[bytes] = self._fs.cat_ranges(
                [self._path] * len(requests),
                [request.start for request in requests],
                [request.stop for request in requests],
                on_error="raise",
            )
        for number, (request, blob) in enumerate(zip(requests, blobs, strict=True)):
            READ.add(len(blob))
            if len(blob) == request.num_bytes:
                continue
            if len(blob) != self.size:
                raise StorageError(
                    f"{self.path}: bytes {request.start} to {request.stop} were requested, but the store "
                    f"returned {len(blob)} bytes"
                )
            # some web servers ignore ranges and return the file
            blobs[number] = blob[request.start : request.stop]
        return blobs
