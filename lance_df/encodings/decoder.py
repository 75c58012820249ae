"""The interface of decoders of (parts of) 2.0 pages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from lance_df.encodings.loaded_array import LoadedArray
from lance_df.encodings.plan import RowRange
from lance_df.errors import CorruptDataError
from lance_df.format.encodings_v2_0 import BufferKind
from lance_df.records import dataclass
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.encodings.loaded_page import LoadedPage
    from lance_df.encodings.plan import IoPlan, Rows
    from lance_df.format.encodings_v2_0 import BufferRef


class Decoder(ABC):
    """Reads rows of a page.

    Attributes
    ----------
    data_type
        The type of the arrays that the decoder returns.
    num_values
        The number of rows of the page.
    """

    __slots__ = ()

    data_type: pa.DataType
    num_values: int

    @abstractmethod
    def read(self, rows: Rows) -> IoPlan[pa.Array]:
        """Plan to read ``rows``, all within the page, as an array that starts at offset 0.

        Raises
        ------
        CorruptDataError
            When the plan runs: the stored data are invalid. The message names neither file nor column.
        """

    def load(self, rows: Rows) -> IoPlan[tuple[LoadedPage, Rows]]:
        """Plan to load the bytes that ``rows`` need.

        Returns
        -------
        A reader of the loaded rows, and ``rows`` as the reader numbers them.
        """
        return LoadedArray((yield from self.read(rows))), RowRange(0, len(rows))

    def whole(self) -> IoPlan[LoadedPage | None]:
        """Plan to load a page of a plain column of a file in memory; None if only rows can be loaded."""
        yield from ()
        return None


@dataclass(frozen=True, slots=True)
class BufferTable:
    """The buffers that an encoding can refer to."""

    page: tuple[ByteRange, ...]
    column: tuple[ByteRange, ...]
    num_file_buffers: int
    file_buffer: Callable[[int], ByteRange]

    def resolve(self, ref: BufferRef) -> ByteRange:
        """Return the byte range of ``ref``; raises CorruptDataError if the buffer does not exist."""
        match ref.kind:
            case BufferKind.PAGE:
                return _pick(self.page, ref)
            case BufferKind.COLUMN:
                return _pick(self.column, ref)
            case BufferKind.FILE:
                if ref.index < self.num_file_buffers:
                    return self.file_buffer(ref.index)
                raise _missing(ref, self.num_file_buffers)


def _pick(buffers: tuple[ByteRange, ...], ref: BufferRef) -> ByteRange:
    if ref.index >= len(buffers):
        raise _missing(ref, len(buffers))
    return buffers[ref.index]


def _missing(ref: BufferRef, count: int) -> CorruptDataError:
    return CorruptDataError(
        f"{ref.kind.name.lower()} buffer {ref.index} is out of range, there are {count} buffers"
    )
