"""The interface of file readers: what `lance_df.table` may request of a data file of any version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from lance_df.file.read_options import ALL

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from lance_df.cache import Footprint
    from lance_df.encodings.plan import Rows
    from lance_df.file.read_options import ReadOptions
    from lance_df.file.v2.resident_column import ResidentColumn
    from lance_df.format.schema import Field, Schema


class FileReader(Protocol):
    """One open data file.

    Attributes
    ----------
    path
        The name of the file in messages.
    version
        ``"0.1"``, ``"2.0"``, ``"2.1"`` or ``"2.2"``.
    num_rows
        The number of rows in the file, deleted ones included.
    schema
        The schema that is stored in the file.
    column_of
        Field id to column number of this file; 0.1 files map every field id they hold to itself.
    footprint
        Counts the memory of the open file, which grows with the columns and pages that are read.
    """

    path: str
    version: str
    num_rows: int
    footprint: Footprint

    @property
    def schema(self) -> Schema: ...

    @property
    def column_of(self) -> Mapping[int, int]: ...

    def read(
        self,
        fields: Sequence[Field],
        rows: Rows,
        *,
        keep_dictionaries: bool = False,
        views: Collection[Field] = (),
        options: ReadOptions = ALL,
    ) -> list[pa.Array]:
        """Return one array of Arrow storage type for each field, with ``len(rows)`` values.

        Every leaf below ``fields`` must be a column of this file. Only the bytes that the rows need are read;
        the ranges of all fields are coalesced.

        Parameters
        ----------
        fields
            The fields to read.
        rows
            A range of rows, or ascending positions.
        keep_dictionaries
            Whether plain columns (those whose type is not a dictionary type) may be returned as a
            `pa.DictionaryArray` whose values have the column's type. This happens if the rows are a range
            within one page that is stored as a dictionary, in a file in memory. The indices are unsigned, of
            any width, and checked; nulls are nulls of the indices. All arrays of a page share one dictionary;
            while one of them lives, ``array.dictionary.buffers()[-1].address`` identifies it. In 2.0 files,
            its first value is null, and no valid index refers to it.
        views
            Those of ``fields`` whose strings may be returned as string views if that is cheaper.
        options
            The fast paths that may be used.

        Raises
        ------
        CorruptDataError
            Bytes contradict the format. The message names the file and the column.
        UnsupportedFeatureError
            This release does not know an encoding.
        """
        ...

    def resident_column(self, field: Field) -> ResidentColumn | None:
        """Return a reusable reader of a leaf that needs no plans, if the file is in memory.

        Returns None for a field that only :meth:`read` can read.
        """
        ...

    def page_starts(self, fields: Sequence[Field]) -> npt.NDArray[np.int64]:
        """Return the ascending row numbers at which a page (or 0.1 batch) of a leaf of ``fields`` starts."""
        ...

    def column_bytes(self, column: int) -> int:
        """Return the stored bytes of the pages of a column, given its number; 0 in 0.1 files."""
        ...

    def page_bytes(self, field: Field) -> list[tuple[int, int]]:
        """Return (first row, stored bytes) of every page of the leaves of ``field``, for reports."""
        ...
