"""Read small files of one layout, which are in one piece of memory, as one file, to pay costs per file once.

Column i of the whole has the pages of column i of every file, file by file. If a file is damaged or differs
from the others, the error does not name it; the caller then reads the files one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lance_df.errors import CorruptDataError, UnsupportedFeatureError
from lance_df.file.v2.reader_2_0 import V2_0FileReader
from lance_df.file.v2.reader_2_1 import V2_1FileReader
from lance_df.format.column_metadata import join_columns
from lance_df.format.file_metadata import ALIGNMENT_BYTES, Footer, parse_descriptor
from lance_df.storage import ByteRange
from lance_df.storage.source import BytesSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from lance_df.file.reader import FileReader
    from lance_df.format.column_metadata import ColumnInfo
    from lance_df.format.schema import Schema

    Offsets = npt.NDArray[np.int64]

_FOOTER = np.dtype(
    [
        ("columns_start", "<u8"),
        ("column_table", "<u8"),
        ("global_table", "<u8"),
        ("num_global", "<u4"),
        ("num_columns", "<u4"),
        ("ending", "V8"),
    ]
)


def open_joined(
    path: str, files: Sequence[bytes], num_rows: Sequence[int], column_of: Mapping[int, int]
) -> FileReader:
    """Open several 2.x files as one. See `JoinedContainer`; ``column_of`` is that of each file."""
    container = JoinedContainer(path, files, num_rows)
    return (V2_0FileReader if container.version == "2.0" else V2_1FileReader)(container, column_of)


class JoinedContainer:
    """Several 2.x files as one `Container`.

    Parameters
    ----------
    path
        The name of the files in messages.
    files
        The whole content of each file; at least one.
    num_rows
        The number of rows of each file, used instead of that in the files.

    Raises
    ------
    CorruptDataError, UnsupportedFeatureError
        As `Container`, for any of the files.
    UnsupportedFeatureError
        The files are of different versions, or have different numbers of columns.
    """

    __slots__ = (
        *("_columns", "_metadata", "_spans", "_whole"),
        *("footer", "num_rows", "path", "schema", "source"),
    )

    def __init__(self, path: str, files: Sequence[bytes], num_rows: Sequence[int]) -> None:
        self.path = path
        sizes = np.fromiter(map(len, files), np.int64, len(files))
        if int(sizes.min()) < Footer.NUM_BYTES:
            raise CorruptDataError(f"{path}: a file is truncated, expected at least {Footer.NUM_BYTES} bytes")
        padded = (sizes + ALIGNMENT_BYTES - 1) // ALIGNMENT_BYTES * ALIGNMENT_BYTES
        starts = np.cumsum(padded) - padded
        padding = [bytes(number) for number in (padded - sizes).tolist()]
        whole = b"".join(part for pair in zip(files, padding, strict=True) for part in pair)
        self._whole = whole
        self.source = BytesSource(path, whole)
        self.footer = Footer.parse(files[0][-Footer.NUM_BYTES :], file_size=int(sizes[0]), source=path)
        self.num_rows = sum(num_rows)
        data = np.frombuffer(whole, np.uint8)
        footers = _gathered(data, starts + sizes - Footer.NUM_BYTES, Footer.NUM_BYTES).view(_FOOTER)[:, 0]
        if (footers["ending"] != footers["ending"][0]).any() or len(np.unique(footers["num_columns"])) > 1:
            raise UnsupportedFeatureError(f"{path}: the files differ in version or number of columns")
        if (footers["columns_start"] > (sizes - Footer.NUM_BYTES).astype(np.uint64)).any():
            raise CorruptDataError(f"{path}: column metadata starts beyond the end of its file")
        self._spans = list(zip(starts.tolist(), (starts + sizes).tolist(), strict=True))
        self._metadata = self._table(data, footers["column_table"], self.num_columns, starts, sizes)
        self._columns: dict[int, ColumnInfo] = {}
        self.schema = self._checked_schema(data, footers, starts, sizes, num_rows)

    @property
    def version(self) -> str:
        """``"2.0"``, ``"2.1"`` or ``"2.2"``."""
        return self.footer.version

    @property
    def num_columns(self) -> int:
        """The number of columns of each file."""
        return self.footer.num_columns

    @property
    def num_global_buffers(self) -> int:
        """0: there are no global buffers that pages could refer to."""
        return 0

    def global_buffer_range(self, index: int) -> ByteRange:
        """Raise an error, since each file has its own global buffers."""
        raise UnsupportedFeatureError(
            f"{self.path}: a page refers to global buffer {index}, which is not supported for files that "
            "are read together"
        )

    def column(self, index: int) -> ColumnInfo:
        """Return the pages of one column of all files."""
        if index not in self._columns:
            self.load_columns([index])
        return self._columns[index]

    def load_columns(self, indices: Iterable[int]) -> None:
        """Parse the metadata of columns. Raises as `Container.load_columns`."""
        for index in indices:
            if index in self._columns:
                continue
            if not 0 <= index < self.num_columns:
                raise CorruptDataError(
                    f"{self.path}: column {index} is out of range, the files have {self.num_columns} columns"
                )
            messages = [self._whole[start:stop] for start, stop in self._metadata[:, index].tolist()]
            info = join_columns(messages, self._spans, source=self.path, column=index)
            if self.version != "2.0" and any(
                buffer.start % ALIGNMENT_BYTES for page in info.distinct for buffer in page.buffers
            ):
                raise CorruptDataError(
                    f"{self.path}: column {index}: a buffer does not start at a multiple of {ALIGNMENT_BYTES}"
                )
            self._columns[index] = info

    def _checked_schema(
        self,
        data: npt.NDArray[np.uint8],
        footers: np.ndarray[tuple[int], np.dtype[np.void]],
        starts: Offsets,
        sizes: Offsets,
        num_rows: Sequence[int],
    ) -> Schema:
        if not footers["num_global"].all():
            raise CorruptDataError(f"{self.path}: a file has no file descriptor")
        spans = self._table(data, footers["global_table"], 1, starts, sizes)[:, 0].tolist()
        schemas: dict[bytes, tuple[Schema, int]] = {}
        for (start, stop), expected in zip(spans, num_rows, strict=True):
            descriptor = data[start:stop].tobytes()
            if descriptor not in schemas:
                schemas[descriptor] = parse_descriptor(descriptor, source=self.path)
            if schemas[descriptor][1] != expected:
                raise CorruptDataError(
                    f"{self.path}: a file has {schemas[descriptor][1]} rows, expected {expected}"
                )
        first, *others = {schema for schema, _ in schemas.values()}
        if others:
            raise UnsupportedFeatureError(f"{self.path}: the files have different schemas")
        return first

    def _table(
        self,
        data: npt.NDArray[np.uint8],
        positions: npt.NDArray[np.uint64],
        length: int,
        starts: Offsets,
        sizes: Offsets,
    ) -> npt.NDArray[np.int64]:
        """Return (start, stop) of the first ``length`` entries of the offset table of each file."""
        last = (sizes - Footer.NUM_BYTES - length * Footer.TABLE_ENTRY_BYTES).clip(0).astype(np.uint64)
        if (positions > last).any():
            raise CorruptDataError(f"{self.path}: an offset table lies outside its file")
        at = starts + positions.astype(np.int64)
        entries = _gathered(data, at, length * Footer.TABLE_ENTRY_BYTES).view("<u8").reshape(-1, length, 2)
        limit = sizes.astype(np.uint64)[:, None]
        offsets, lengths = entries[:, :, 0], entries[:, :, 1]
        if (offsets > limit).any() or (lengths > limit - np.minimum(offsets, limit)).any():
            raise CorruptDataError(f"{self.path}: an entry of an offset table lies outside its file")
        first = offsets.astype(np.int64) + starts[:, None]
        return np.stack([first, first + lengths.astype(np.int64)], axis=2)


def _gathered(data: npt.NDArray[np.uint8], starts: Offsets, length: int) -> npt.NDArray[np.uint8]:
    """Return ``length`` bytes from each start on, as the rows of an array."""
    return np.ascontiguousarray(data[starts[:, None] + np.arange(length)])
