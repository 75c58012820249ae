"""Read the pages of one column of a 2.0 file as one sequence of values."""

from __future__ import annotations

from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from lance_df.encodings.decoder import BufferTable
from lance_df.errors import CorruptDataError
from lance_df.file.io import named_errors
from lance_df.format.encodings_v2_0 import parse_array_encoding, parse_column_encoding

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from lance_df.file.v2.container import Container
    from lance_df.file.v2.joined_files import JoinedContainer
    from lance_df.format.column_metadata import PageInfo
    from lance_df.format.encodings_v2_0 import ColumnEncoding, Encoding

_MAX_ROWS = 2**62


class ColumnPages:
    """The first rows and the encodings of the pages of a column; encodings are parsed on first access.

    Attributes
    ----------
    label
        The file and the column, for error messages.
    source
        The file.
    """

    def __init__(self, container: Container | JoinedContainer, index: int, name: str) -> None:
        self.label = f"{container.path}: column {index} ({name})"
        self._container = container
        self.source = container.source
        self._info = container.column(index)
        self._encodings: dict[tuple[str, bytes], Encoding] = {}
        total = sum(self._info.page_rows())
        if total > _MAX_ROWS:
            raise CorruptDataError(f"{self.label}: the pages have {total} rows, expected at most {_MAX_ROWS}")

    def __len__(self) -> int:
        return len(self._info.pages)

    @cached_property
    def starts(self) -> npt.NDArray[np.int64]:
        """The first row of each page, followed by the total number of rows."""
        return np.fromiter(accumulate(self._info.page_rows(), initial=0), np.int64, len(self) + 1)

    @property
    def num_rows(self) -> int:
        return int(self.starts[-1])

    @cached_property
    def column_encoding(self) -> ColumnEncoding:
        with named_errors(self.label):
            return parse_column_encoding(self._info.encoding_url, self._info.encoding)

    @property
    def infos(self) -> Sequence[PageInfo]:
        """The metadata of all pages."""
        return self._info.pages

    def page(self, number: int) -> PageInfo:
        return self._info.pages[number]

    def page_label(self, number: int) -> str:
        """Return the name of a page in messages."""
        return f"{self.label}, page {number}"

    def encoding(self, number: int) -> Encoding:
        """Return the encoding of a page. Raises as `parse_array_encoding`, with the label."""
        page = self.page(number)
        key = page.encoding_url, page.encoding
        if (known := self._encodings.get(key)) is None:
            with named_errors(self.page_label(number)):
                known = self._encodings[key] = parse_array_encoding(*key)
        return known

    def buffers(self, number: int) -> BufferTable:
        """Return the buffers that the encoding of a page can refer to."""
        return BufferTable(
            self.page(number).buffers,
            self._info.buffers,
            self._container.num_global_buffers,
            self._container.global_buffer_range,
        )

    def stored_bytes(self) -> list[tuple[int, int]]:
        """Return (first row, stored bytes) of each page."""
        return list(zip(self.starts.tolist(), self._info.page_bytes(), strict=False))
