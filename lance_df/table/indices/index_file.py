"""Read a file of an index, an ordinary 2.x file, by column name; errors name the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_df.cache import Footprint
from lance_df.encodings.plan import RowRange, Rows
from lance_df.errors import CorruptDataError, NotFoundError, StorageError
from lance_df.file.open import open_file
from lance_df.file.tail import with_tail
from lance_df.file.v2.container import Container
from lance_df.records import dataclass
from lance_df.table.indices.row_address_map import parse_row_address_map, read_row_sets
from lance_df.table.reading.selection import RowRanges

if TYPE_CHECKING:
    from pyroaring import BitMap

    from lance_df.file.reader import FileReader
    from lance_df.storage import ByteSource, Location


# Memory of columns that are read whole: the arrays, and data derived from them.
_NUM_COPIES = 2


@dataclass(frozen=True, slots=True)
class IndexFolder:
    """The folder of an index, and its file sizes, as far as the manifest records them.

    ``footprint`` counts the memory that the open index takes.
    """

    location: Location
    sizes: Mapping[str, int]
    footprint: Footprint = field(default_factory=Footprint, repr=False, compare=False)

    def open(self, name: str) -> IndexFile:
        """Open one of the files. Raises the same errors as `IndexFile`."""
        return IndexFile(self.location / name, self.sizes.get(name), self.footprint)


class IndexFile:
    """An open index file. Safe to share between threads.

    Parameters
    ----------
    size
        The size in the manifest, which saves a request on remote stores; it may be wrong.
    footprint
        Counts the open file, and columns that are read whole.

    Raises
    ------
    CorruptDataError
        The file is missing or damaged, or is not a Lance file.
    """

    def __init__(
        self, location: Location, size: int | None = None, footprint: Footprint | None = None
    ) -> None:
        self.name = location.uri
        try:
            self._source, self._reader = _opened(location, size)
        except NotFoundError as err:
            raise CorruptDataError(
                f"{self.name}: this index file is missing, although the manifest lists the index"
            ) from err
        if footprint is not None:
            footprint.add(self._reader.footprint.num_bytes)
            self._reader.footprint = footprint
        self.num_rows = self._reader.num_rows
        self._fields = {field.name: field for field in self._reader.schema.fields}

    @property
    def metadata(self) -> Mapping[str, bytes]:
        """The metadata of the file's schema."""
        return self._reader.schema.metadata

    def type_of(self, name: str) -> pa.DataType:
        """Return the type of a column."""
        return self._field(name).arrow_type()

    def read(
        self, names: Sequence[str], rows: Rows | None = None, types: Sequence[pa.DataType | None] = ()
    ) -> list[pa.Array]:
        """Read columns.

        Parameters
        ----------
        rows
            The rows to read; ``None`` for all.
        types
            The required type of each column, which then must not have nulls; ``None`` for any type.
        """
        fields = [self._field(name) for name in names]
        arrays = self._reader.read(fields, RowRange(0, self.num_rows) if rows is None else rows)
        if rows is None:
            self._reader.footprint.add(sum(_NUM_COPIES * array.nbytes for array in arrays))
        for name, array, expected in zip(names, arrays, types or [None] * len(names), strict=True):
            if expected is None:
                continue
            if array.type != expected:
                raise CorruptDataError(
                    f"{self.name}: column {name!r} has type {array.type}, expected {expected}"
                )
            if array.null_count:
                raise CorruptDataError(f"{self.name}: column {name!r} holds nulls")
        return arrays

    def read_counts(self, names: Sequence[str]) -> list[npt.NDArray[np.int64]]:
        """Read columns of row counts, offsets or ids as int64; stored are unsigned numbers below 2**32."""
        counts = []
        for name, array in zip(names, self.read(names), strict=True):
            if not pa.types.is_unsigned_integer(array.type) or array.null_count:
                raise CorruptDataError(
                    f"{self.name}: column {name!r} of type {array.type} must be unsigned integers without "
                    "nulls"
                )
            values = np.asarray(array)
            if values.size and values.max() > 2**32:
                raise CorruptDataError(
                    f"{self.name}: column {name!r} contains {values.max()}, which is greater than 2**32"
                )
            counts.append(values.astype(np.int64))
        return counts

    def number(self, key: str) -> int:
        """Return an integer from the metadata."""
        text = self.metadata.get(key)
        if text is None or not text.isdigit() or len(text) > 18:
            raise CorruptDataError(f"{self.name}: metadata {key!r} is {text!r}, expected a number")
        return int(text)

    @cached_property
    def null_rows(self) -> RowRanges | None:
        """The addresses of the NULL rows; ``None`` if the file lacks them, or they are too scattered."""
        data = self._null_bitmap()
        if data is None:
            return None
        self._reader.footprint.add(_NUM_COPIES * data.size)
        return parse_row_address_map(data, source=self.name)

    def null_row_sets(self) -> dict[int, BitMap] | None:
        """Return the offsets of NULL rows by fragment; ``None`` if the file lacks them."""
        data = self._null_bitmap()
        return None if data is None else dict(read_row_sets(data, source=self.name))

    def _null_bitmap(self) -> pa.Buffer | None:
        if "null_bitmap" not in self.metadata:
            return None
        return Container(self._source).global_buffer(self.number("null_bitmap"))

    def _field(self, name: str):  # type: ignore[no-untyped-def]
        if name not in self._fields:
            names = ", ".join(self._fields) or "none"
            raise CorruptDataError(
                f"{self.name}: this index file has no column {name!r}; the columns are {names}"
            )
        return self._fields[name]


def _opened(location: Location, size: int | None) -> tuple[ByteSource, FileReader]:
    if size and not location.is_local:
        try:
            return _read_end(location.open_sized(size))
        except (CorruptDataError, StorageError):
            pass  # the file may have another size: the store decides
    return _read_end(location.open())


def _read_end(source: ByteSource) -> tuple[ByteSource, FileReader]:
    source = with_tail(source)
    return source, open_file(source)
