"""Blobs, with the names of pylance: large values that are read like files, and columns of them."""

from __future__ import annotations

import io
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from lance_df.arguments import (
    checked_flag,
    checked_integer,
    checked_items,
    checked_text,
    checked_type,
)
from lance_df.errors import InvalidInputError
from lance_df.format.schema import BLOB_EXTENSION
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    from lance_df.storage import ByteSource
    from lance_df.table.blobs.columns import BlobLocation

__all__ = ["Blob", "BlobArray", "BlobColumn", "BlobFile", "BlobType", "blob_array", "blob_field"]

_STORAGE = pa.struct(
    [
        pa.field("data", pa.large_binary()),
        pa.field("uri", pa.string()),
        pa.field("position", pa.uint64()),
        pa.field("size", pa.uint64()),
    ]
)
_THRESHOLDS = {
    "inline_size_threshold": "lance-encoding:blob-inline-size-threshold",
    "dedicated_size_threshold": "lance-encoding:blob-dedicated-size-threshold",
    "pack_file_size_threshold": "lance-encoding:blob-pack-file-size-threshold",
}


@dataclass(frozen=True)
class Blob:
    """A value of a blob column: bytes, or a reference to a file or a part of it.

    ``position`` and ``size`` select a part of the file.

    Raises
    ------
    InvalidInputError
        Both bytes and a reference are given, or neither; a part of bytes is given; or the range is incomplete
        or empty.
    """

    data: bytes | None = None
    uri: str | None = None
    position: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        if self.data is not None:
            checked_type(self.data, "data", bytes, "bytes")
        if self.uri is not None:
            checked_text(self.uri, "uri")
        for name in ("position", "size"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, checked_integer(getattr(self, name), name, 0))
        if (self.data is None) == (self.uri is None):
            raise InvalidInputError("a blob needs either bytes or a URI; use None for a null blob")
        if self.uri == "":
            raise InvalidInputError("the URI of a blob must not be empty")
        if (self.position is None) != (self.size is None) or (self.uri is None and self.size is not None):
            raise InvalidInputError("position and size must be given together, and only for a URI")
        if self.size == 0:
            raise InvalidInputError("size must be at least 1, got 0")

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> Self:
        """Return a blob with these bytes."""
        # of an integer, bytes() would make as many zeros
        kinds = (bytes, bytearray, memoryview)
        return cls(data=bytes(checked_type(data, "data", kinds, "bytes, a bytearray or a memoryview")))

    @classmethod
    def from_uri(cls, uri: str, position: int | None = None, size: int | None = None) -> Self:
        """Return a reference to a file, or to a part of it."""
        return cls(uri=uri, position=position, size=size)

    @classmethod
    def empty(cls) -> Self:
        """Return a blob without bytes."""
        return cls(data=b"")


class BlobType(pa.ExtensionType):  # type: ignore[misc]
    """The Arrow type of blobs to write: bytes or references.

    It is not registered with pyarrow, because pylance may have registered a type with the same name. Data
    that passes through Arrow's C interface has the registered type of pylance, or is a struct whose field
    metadata names the type.
    """

    def __init__(self) -> None:
        super().__init__(_STORAGE, BLOB_EXTENSION.decode())

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Self:
        return cls()

    def __arrow_ext_class__(self) -> type[BlobArray]:
        return BlobArray

    def __reduce__(self) -> tuple[Any, ...]:
        return BlobType, ()


class BlobArray(pa.ExtensionArray):  # type: ignore[misc]
    """An array of blobs to write, as `blob_array` returns it."""

    @classmethod
    def from_pylist(cls, values: Sequence[Any]) -> BlobArray:
        """Return the result of `blob_array` for these values."""
        return blob_array(values)


def blob_array(values: Sequence[Any]) -> BlobArray:
    """Return an array for a :func:`blob_field`. Values are bytes, URIs as text, `Blob`, or None.

    Raises
    ------
    InvalidInputError
        A value is none of these.
    """
    given = checked_items(values, "values", "a list of blobs")
    storage = pa.array([_as_struct(value) for value in given], _STORAGE)
    array: BlobArray = pa.ExtensionArray.from_storage(BlobType(), storage)
    return array


def _as_struct(value: object) -> dict[str, object] | None:
    if value is None:
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        value = Blob.from_bytes(value)
    elif isinstance(value, str):
        value = Blob.from_uri(value)
    if not isinstance(value, Blob):
        raise InvalidInputError(f"a blob must be bytes, a URI, a Blob or None, got {type(value).__name__}")
    return {"data": value.data, "uri": value.uri, "position": value.position, "size": value.size}


def blob_field(
    name: str,
    *,
    nullable: bool = True,
    inline_size_threshold: int | None = None,
    dedicated_size_threshold: int | None = None,
    pack_file_size_threshold: int | None = None,
) -> pa.Field:
    """Return the field of a blob column of a 2.2 table.

    Parameters
    ----------
    inline_size_threshold, dedicated_size_threshold, pack_file_size_threshold
        Where blobs are stored. Blobs up to the first size are in the data file, blobs from the second size on
        are in files of their own, and blobs of other sizes share files of up to the third size. The defaults
        are 64 KiB, 4 MiB and 1 GiB. The thresholds are stored with the column.

    Raises
    ------
    InvalidInputError
        A threshold is not an integer, or is too small.
    """
    metadata = {}
    given = (inline_size_threshold, dedicated_size_threshold, pack_file_size_threshold)
    for (argument, key), value in zip(_THRESHOLDS.items(), given, strict=True):
        if value is None:
            continue
        least = 0 if argument.startswith("inline") else 1
        if type(value) is not int or value < least:
            raise InvalidInputError(f"{argument} must be an integer of at least {least}, got {value!r:.60}")
        metadata[key.encode()] = str(value).encode()
    nullable = checked_flag(nullable, "nullable")
    return pa.field(checked_text(name, "name"), BlobType(), nullable, metadata or None)


class BlobFile(io.RawIOBase):
    """A read-only file with the bytes of a blob. Bytes are fetched when they are requested."""

    def __init__(self, location: BlobLocation) -> None:
        super().__init__()
        self._location = location
        self._opened: tuple[ByteSource, int, int] | None = None
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def size(self) -> int:
        """Return the size of the blob in bytes."""
        if self._location.size is not None:
            return self._location.size
        _, start, stop = self._open()
        return stop - start

    def tell(self) -> int:
        """Return the position of the next read."""
        self._check_open()
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to a position, and return the new position."""
        self._check_open()
        bases = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size()}
        if whence not in bases:
            raise InvalidInputError(f"whence must be 0, 1 or 2, got {whence!r}")
        position = bases[whence] + operator.index(offset)
        if position < 0:
            raise InvalidInputError(f"cannot seek to {position}, before the start of the blob")
        self._position = position
        return position

    def read(self, size: int | None = -1) -> bytes:
        """Return the next ``size`` bytes, or by default all remaining bytes."""
        self._check_open()
        left = max(0, self.size() - self._position)
        size = -1 if size is None else operator.index(size)
        length = left if size < 0 else min(size, left)
        data = self.read_range(self._position, length) if length else b""
        self._position += length
        return data

    def read1(self, size: int | None = -1) -> bytes:
        """Return at most ``size`` of the next bytes, by default `io.DEFAULT_BUFFER_SIZE`."""
        return self.read(io.DEFAULT_BUFFER_SIZE if size is None or size < 0 else size)

    def readall(self) -> bytes:
        """Return all remaining bytes."""
        return self.read()

    def readinto(self, buffer: Any) -> int:
        """Read bytes into a buffer, and return their number."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def readinto1(self, buffer: Any) -> int:
        """Read bytes into a buffer; see `readinto`."""
        return self.readinto(buffer)

    def write(self, data: Any) -> int:
        """Raise `io.UnsupportedOperation`; the file is read-only."""
        del data
        raise io.UnsupportedOperation("write")

    def read_range(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes, beginning at ``offset``, without changing the position."""
        return self.read_ranges([(offset, length)])[0]

    def read_ranges(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of several ranges (offset, length), without changing the position.

        Raises
        ------
        InvalidInputError
            A range ends after the end of the blob.
        """
        self._check_open()
        source, start, stop = self._open()
        wanted = []
        for offset, length in ranges:
            if offset < 0 or length < 0 or offset + length > stop - start:
                raise InvalidInputError(
                    f"bytes {offset} to {offset + length} are out of range, the blob has {stop - start} bytes"
                )
            wanted.append(ByteRange(start + offset, start + offset + length))
        return [buffer.to_pybytes() for buffer in source.read_ranges(wanted)]

    def __repr__(self) -> str:
        return f"<BlobFile size={self.size()}>"

    def _open(self) -> tuple[ByteSource, int, int]:
        if self._opened is None:
            self._opened = self._location.open()
        return self._opened

    def _check_open(self) -> None:
        if self.closed:
            raise InvalidInputError("the blob is closed")


class BlobColumn:
    """The values of a binary column in memory, as an iterator of files. Nulls are None.

    Raises
    ------
    InvalidInputError
        The argument is not an array of binary values.
    """

    def __init__(self, blob_column: pa.Array | pa.ChunkedArray) -> None:
        if not isinstance(blob_column, pa.Array | pa.ChunkedArray):
            raise InvalidInputError(f"expected a pyarrow array, got {type(blob_column).__name__}")
        if blob_column.type not in (pa.binary(), pa.large_binary()):
            raise InvalidInputError(f"Expected a binary array, got one of type {blob_column.type}")
        self.blob_column = blob_column

    def __iter__(self) -> Iterator[io.BytesIO | None]:
        for value in self.blob_column:
            yield io.BytesIO(value.as_py()) if value.is_valid else None
