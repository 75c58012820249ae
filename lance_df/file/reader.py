"""The contract of file readers: what the table room may ask of one data file, whatever its version."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from lance_df.cache import Footprint
    from lance_df.encodings.plan import Rows
    from lance_df.file.v2.resident_column import ResidentColumn
    from lance_df.format.schema import Field, Schema


class FileReader(Protocol):
    """One open data file.

    Attributes
    ----------
    path
        The file's name in messages.
    version
        ``"0.1"``, ``"2.0"``, ``"2.1"`` or ``"2.2"``.
    num_rows
        Rows in the file, deleted ones included.
    schema
        The schema that the file describes itself with.
    column_of
        Field id to column number of this file; 0.1 files map every field id they hold to itself.
    footprint
        Counts the memory that the open file takes. It grows with the columns and pages that are read.
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
    ) -> list[pa.Array]:
        """Return one array of Arrow storage type for each field, with ``len(rows)`` values.

        Every leaf below ``fields`` must be a column of this file. Reads only the bytes that the rows need,
        coalesced over all the fields.

        Parameters
        ----------
        fields
            What to read.
        rows
            A range, or ascending positions.
        keep_dictionaries
            Plain columns (their type is no dictionary type) may then come as a `pa.DictionaryArray` whose
            values have the column's type: where a range of rows lies in one page that is stored as a
            dictionary, in a file in memory. Indices are unsigned, of any width, and have been checked;
            nulls are nulls of the indices. All arrays of one page share the memory of one
            dictionary, ``array.dictionary.buffers()[-1].address`` (while one of them lives) distinguishes it
            from all others. Of 2.0 files its first value is null and stands for nothing: no valid index
            means it.
        views
            Those of ``fields`` whose strings may come as string views, where that costs less.

        Raises
        ------
        CorruptDataError
            Bytes contradict the format. Names the file and the column.
        UnsupportedFeatureError
            An encoding that this release does not know.
        """
        ...

    def resident_column(self, field: Field) -> ResidentColumn | None:
        """Return what reads rows of a leaf of a file in memory without plans, to be asked for many of them.

        None for a field that only :meth:`read` reads.
        """
        ...

    def page_starts(self, fields: Sequence[Field]) -> npt.NDArray[np.int64]:
        """Return the ascending row numbers at which a page (or 0.1 batch) of a leaf of ``fields`` starts."""
        ...

    def column_bytes(self, column: int) -> int:
        """Return the stored bytes of the pages of a column, by its number; 0 in 0.1 files."""
        ...

    def page_bytes(self, field: Field) -> list[tuple[int, int]]:
        """Return (first row, stored bytes) of every page of the leaves of ``field``, for reports."""
        ...
