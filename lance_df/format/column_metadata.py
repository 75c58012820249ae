"""The metadata of the columns and pages of a 2.x file, also for several files with the same columns.

Spec: file format 2.x, `ColumnMetadata`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, overload

import numpy as np
from google.protobuf.any_pb2 import Any

from lance_df._pb import file_pb2
from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.format.messages import parse_message
from lance_df.records import dataclass
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self

    import numpy.typing as npt
    import pyarrow as pa

COLUMN_ENCODING_URL = "/lance.encodings.ColumnEncoding"
ARRAY_ENCODING_URL = "/lance.encodings.ArrayEncoding"
PAGE_LAYOUT_URL = "/lance.encodings21.PageLayout"

# Short encodings are shared: pages of a column, and columns of small files, mostly have the same ones.
_COMMON_BYTES = 256
_MAX_ENCODINGS = 1024
_encodings: dict[bytes, tuple[str, bytes]] = {}


@dataclass(frozen=True, slots=True)
class PageInfo:
    """The position and encoding of one page.

    Attributes
    ----------
    buffers
        Exact, unpadded ranges; they may be empty.
    num_rows
        2.1 and later: the top-level rows. 2.0: the values of this column, for example list items.
    priority
        Number of the first row, if the writer sets it (2.0 writers leave it 0).
    encoding_url
        The type URL of ``encoding``.
    encoding
        A serialized `ArrayEncoding` (2.0) or `PageLayout` (2.1 and later).
    """

    buffers: tuple[ByteRange, ...]
    num_rows: int
    priority: int
    encoding_url: str
    encoding: bytes


class JoinedPages(Sequence[PageInfo]):
    """The pages of a column across several files; identical pages are stored once.

    Parameters
    ----------
    distinct
        The distinct pages; offsets of their buffers count from the start of their file.
    kinds
        For each page, the index into ``distinct``.
    shifts
        For each page, the offset of its file within the concatenated files.
    """

    def __init__(self, distinct: Sequence[PageInfo], kinds: Sequence[int], shifts: Sequence[int]) -> None:
        self.distinct = distinct
        self.kinds = kinds
        self.shifts = shifts

    def __len__(self) -> int:
        return len(self.kinds)

    @overload
    def __getitem__(self, index: int) -> PageInfo: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[PageInfo, ...]: ...
    def __getitem__(self, index: int | slice) -> PageInfo | tuple[PageInfo, ...]:
        if isinstance(index, slice):
            return tuple(self[number] for number in range(len(self))[index])
        page, shift = self.distinct[self.kinds[index]], self.shifts[index]
        buffers = tuple([ByteRange(shift + each.start, shift + each.stop) for each in page.buffers])
        return PageInfo(buffers, page.num_rows, page.priority, page.encoding_url, page.encoding)


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """The pages of one column in row order, the column's own encoding and buffers."""

    pages: tuple[PageInfo, ...] | JoinedPages
    encoding_url: str
    encoding: bytes
    buffers: tuple[ByteRange, ...]

    @property
    def distinct(self) -> Sequence[PageInfo]:
        """The pages, in which those that differ only in position may occur once."""
        return self.pages.distinct if isinstance(self.pages, JoinedPages) else self.pages

    @property
    def kinds(self) -> Sequence[int]:
        """For each page, its index into ``distinct``."""
        return self.pages.kinds if isinstance(self.pages, JoinedPages) else range(len(self.pages))

    def page_rows(self) -> list[int]:
        """Return the number of rows of each page."""
        rows = [page.num_rows for page in self.distinct]
        return [rows[kind] for kind in self.kinds] if isinstance(self.pages, JoinedPages) else rows

    def page_bytes(self) -> list[int]:
        """Return the number of stored bytes of each page."""
        sizes = [sum(buffer.num_bytes for buffer in page.buffers) for page in self.distinct]
        return [sizes[kind] for kind in self.kinds] if isinstance(self.pages, JoinedPages) else sizes

    def spans(self, numbers: Iterable[int]) -> npt.NDArray[np.int64]:
        """Return (start, stop) of all buffers of some pages, page by page."""
        pages, kinds, distinct = self.pages, self.kinds, self.distinct
        shifts = pages.shifts if isinstance(pages, JoinedPages) else None
        ranges: list[tuple[int, int]] = []
        for number in numbers:
            shift = 0 if shifts is None else shifts[number]
            buffers = distinct[kinds[number]].buffers
            ranges += [(shift + buffer.start, shift + buffer.stop) for buffer in buffers]
        return np.array(ranges, np.int64).reshape(-1, 2)

    @classmethod
    def from_proto(cls, data: bytes | pa.Buffer, *, file_size: int, source: str, column: int) -> Self:
        """Parse a serialized `ColumnMetadata`.

        Parameters
        ----------
        data
            The message's bytes.
        file_size
            All buffers must lie within this size.
        source, column
            The file and the number of the column, for error messages.

        Raises
        ------
        CorruptDataError
            The bytes are not such a message, or a buffer lies outside the file.
        UnsupportedFeatureError
            An encoding is stored outside the metadata, which no known writer does.
        """
        what = f"the metadata of column {column}"
        message = parse_message(file_pb2.ColumnMetadata, data, source=source, what=what)
        label = f"{source}: column {column}"
        encoding_url, encoding = _direct_encoding(message.encoding, label, required=False)
        return cls(
            pages=tuple(
                _page(page, f"{label}, page {number}", file_size) for number, page in enumerate(message.pages)
            ),
            encoding_url=encoding_url,
            encoding=encoding,
            buffers=_buffers(message.buffer_offsets, message.buffer_sizes, file_size, label),
        )


def join_columns(
    messages: Iterable[bytes], spans: Iterable[tuple[int, int]], *, source: str, column: int
) -> ColumnInfo:
    """Join the pages of a column of several files as if they were one file.

    Parameters
    ----------
    messages
        The serialized `ColumnMetadata` of each file.
    spans
        Where each file starts and stops in the concatenated files. Offsets of buffers in the messages count
        from the start of their own file; those of the result count from the start of the whole.
    source, column
        A name for the files together, and the number of the column, for error messages.

    Raises
    ------
    CorruptDataError, UnsupportedFeatureError
        As :meth:`ColumnInfo.from_proto`.
    UnsupportedFeatureError
        The column itself has buffers, or is encoded in different ways.
    """
    label = f"{source}: column {column}"
    encodings: set[bytes] = set()
    # files with equal row counts mostly have identical messages: the same pages, ending at the same offset
    known: dict[bytes, tuple[Sequence[int], int]] = {}
    distinct: list[PageInfo] = []
    kinds: list[int] = []
    shifts: list[int] = []
    for data, (start, stop) in zip(messages, spans, strict=True):
        said = known.get(data)
        if said is None:
            message = parse_message(file_pb2.ColumnMetadata, data, source=label, what="the metadata")
            encodings.add(message.encoding.SerializeToString())
            if message.buffer_offsets or message.buffer_sizes or len(encodings) > 1:
                raise UnsupportedFeatureError(
                    f"{label}: the metadata cannot be joined with that of other files"
                )
            first = len(distinct)
            distinct += [_page(page, label, stop - start) for page in message.pages]
            ends = [buffer.stop for page in distinct[first:] for buffer in page.buffers]
            said = known[data] = range(first, len(distinct)), max(ends, default=0)
        numbers, end = said
        if end > stop - start:
            raise CorruptDataError(
                f"{label}: a buffer ends at byte {end}, but the file has {stop - start} bytes"
            )
        kinds += numbers
        shifts += [start] * len(numbers)
    encoding_url, encoding = "", b""
    for data in encodings:
        wrapped = file_pb2.Encoding.FromString(data)
        encoding_url, encoding = _direct_encoding(wrapped, label, required=False)
    return ColumnInfo(JoinedPages(distinct, kinds, shifts), encoding_url, encoding, ())


def _page(message: file_pb2.ColumnMetadata.Page, label: str, file_size: int) -> PageInfo:
    url, encoding = _direct_encoding(message.encoding, label, required=True)
    return PageInfo(
        buffers=_buffers(message.buffer_offsets, message.buffer_sizes, file_size, label),
        num_rows=message.length,
        priority=message.priority,
        encoding_url=url,
        encoding=encoding,
    )


def _buffers(
    offsets: Sequence[int], sizes: Sequence[int], file_size: int, label: str
) -> tuple[ByteRange, ...]:
    if len(offsets) != len(sizes):
        raise CorruptDataError(f"{label}: {len(offsets)} buffer offsets, but {len(sizes)} buffer sizes")
    buffers: list[ByteRange] = []
    for number in range(len(offsets)):
        offset = offsets[number]
        if (end := offset + sizes[number]) > file_size:
            raise CorruptDataError(
                f"{label}: buffer {number} takes bytes {offset} to {end}, but the file has {file_size} bytes"
            )
        buffers.append(ByteRange(offset, end))
    return tuple(buffers)


def _direct_encoding(message: file_pb2.Encoding, label: str, *, required: bool) -> tuple[str, bytes]:
    location = message.WhichOneof("location")
    if location == "direct":
        return _unwrapped(message.direct.encoding, label)
    if required or location == "indirect":
        raise UnsupportedFeatureError(
            f"{label}: the encoding must be stored in the metadata, but is {location or 'absent'}"
        )
    return "", b""


def _unwrapped(data: bytes, label: str) -> tuple[str, bytes]:
    if len(data) <= _COMMON_BYTES and (known := _encodings.get(data)) is not None:
        return known
    wrapped = parse_message(Any, data, source=label, what="the encoding")
    unwrapped = wrapped.type_url, wrapped.value
    if len(data) <= _COMMON_BYTES:
        if len(_encodings) >= _MAX_ENCODINGS:
            _encodings.clear()
        _encodings[data] = unwrapped
    return unwrapped
