"""Read the container of 2.x files: the positions of columns, pages and global buffers.

Spec: file format 2.x, chapter 1. Everything needed to open a file is at its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.errors import CorruptDataError
from lance_df.file.tail import with_tail
from lance_df.format.column_metadata import ColumnInfo
from lance_df.format.file_metadata import ALIGNMENT_BYTES, Footer, parse_descriptor
from lance_df.storage import ByteRange

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

    from lance_df.storage import ByteSource


class Container:
    """An open 2.x file; the metadata of columns is parsed on first access.

    Attributes
    ----------
    source
        The file; its tail is in memory.
    footer
        The footer, checked against the size of the file.
    schema, num_rows
        The schema and the number of rows that are stored in the file.

    Raises
    ------
    CorruptDataError
        The file is not a Lance file, is truncated, or has offset tables that contradict each other.
    UnsupportedFeatureError
        This release cannot read the version as 2.x.
    """

    __slots__ = ("_columns", "_global_buffers", "_metadata", "footer", "num_rows", "schema", "source")

    def __init__(self, source: ByteSource) -> None:
        self.source = with_tail(source)
        self.footer = Footer.parse(
            self.source.read_tail(Footer.NUM_BYTES).to_pybytes(), file_size=source.size, source=source.path
        )
        columns, buffers = self.source.read_ranges(
            [self.footer.column_table, self.footer.global_buffer_table]
        )
        self._metadata = self._ranges(columns, "the metadata of column")
        self._global_buffers = self._ranges(buffers, "global buffer")
        self._check_alignment(self._global_buffers, "global buffer")
        self.schema, self.num_rows = parse_descriptor(self.global_buffer(0), source=source.path)
        self._columns: dict[int, ColumnInfo] = {}

    @property
    def path(self) -> str:
        """The name of the file in messages."""
        return self.source.path

    @property
    def version(self) -> str:
        """``"2.0"``, ``"2.1"`` or ``"2.2"``."""
        return self.footer.version

    @property
    def num_columns(self) -> int:
        return self.footer.num_columns

    @property
    def num_global_buffers(self) -> int:
        return self.footer.num_global_buffers

    def global_buffer(self, index: int) -> pa.Buffer:
        """Return the bytes of a global buffer; number 0 is the descriptor."""
        if not 0 <= index < self.num_global_buffers:
            raise CorruptDataError(
                f"{self.path}: global buffer {index} is out of range, the file has "
                f"{self.num_global_buffers} global buffers"
            )
        return self.source.read_ranges([self.global_buffer_range(index)])[0]

    def global_buffer_range(self, index: int) -> ByteRange:
        """Return the range of a global buffer. ``index`` must exist."""
        start, stop = self._global_buffers[index].tolist()
        return ByteRange(start, stop)

    def column(self, index: int) -> ColumnInfo:
        """Return the pages of one column. For several columns, see :meth:`load_columns`."""
        if index not in self._columns:
            self.load_columns([index])
        return self._columns[index]

    def load_columns(self, indices: Iterable[int]) -> None:
        """Read and parse the metadata of several columns with shared requests.

        Raises
        ------
        CorruptDataError
            A column does not exist, its metadata is broken, or its buffers are not aligned (2.1 and later).
        """
        missing = [index for index in dict.fromkeys(indices) if index not in self._columns]
        for index in missing:
            if not 0 <= index < self.num_columns:
                raise CorruptDataError(
                    f"{self.path}: column {index} is out of range, the file has {self.num_columns} columns"
                )
        ranges = [ByteRange(*self._metadata[index].tolist()) for index in missing]
        for index, data in zip(missing, self.source.read_ranges(ranges), strict=True):
            info = ColumnInfo.from_proto(data, file_size=self.source.size, source=self.path, column=index)
            self._check_pages(info, index)
            self._columns[index] = info

    def _ranges(self, table: pa.Buffer, what: str) -> np.ndarray[tuple[int, int], np.dtype[np.uint64]]:
        """Return (start, stop) for each entry of an offset table, all of them within the file."""
        entries = np.frombuffer(table, "<u8").reshape(-1, 2)
        sizes = np.uint64(self.source.size)
        wrong = (entries > sizes).any(axis=1) | (entries[:, 0] > sizes - np.minimum(entries[:, 1], sizes))
        if wrong.any():
            index = int(wrong.argmax())
            start, size = entries[index].tolist()
            raise CorruptDataError(
                f"{self.path}: {what} {index} takes {size} bytes from byte {start}, "
                f"but the file has {self.source.size} bytes"
            )
        ranges = entries.copy()
        ranges[:, 1] += entries[:, 0]
        return ranges

    def _check_alignment(self, starts: np.ndarray[tuple[int, int], np.dtype[np.uint64]], what: str) -> None:
        if self.version == "2.0":  # early writers wrote them at any alignment
            return
        wrong = np.flatnonzero(starts[:, 0] % np.uint64(ALIGNMENT_BYTES))
        if len(wrong):
            raise CorruptDataError(
                f"{self.path}: {what} {wrong[0]} starts at byte {starts[wrong[0], 0]}, "
                f"expected a multiple of {ALIGNMENT_BYTES}"
            )

    def _check_pages(self, info: ColumnInfo, index: int) -> None:
        if self.version == "2.0":
            return
        for number, page in enumerate(info.pages):
            if any(buffer.start % ALIGNMENT_BYTES for buffer in page.buffers):
                raise CorruptDataError(
                    f"{self.path}: column {index}, page {number}: a buffer does not start "
                    f"at a multiple of {ALIGNMENT_BYTES}"
                )
