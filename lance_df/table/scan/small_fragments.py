"""Read small neighbouring fragments as one: most of a small fragment's cost is that of the calls.

This works if each fragment is one small 2.x file and all files have the same columns. If the files differ in
format, or one is damaged, the fragments are read one by one, which also raises the right error.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.rows import as_positions, split_rows
from lance_df.errors import LanceError
from lance_df.interrupts import imports_finished
from lance_df.records import dataclass
from lance_df.table.parallel import read_files
from lance_df.table.reading.batches import sliced
from lance_df.table.reading.deletions import deleted_offsets
from lance_df.table.reading.fragment_reader import FragmentReader
from lance_df.table.reading.system_columns import system_column
from lance_df.table.scan.limits import SCAN_LIMITS
from lance_df.table.scan.row_slice import RowSlice
from lance_df.table.scan.task import FragmentTask

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.encodings.plan import Rows
    from lance_df.file.reader import FileReader
    from lance_df.format.fragments import DataFile
    from lance_df.table.scan.task import Scan
    from lance_df.table.table import Table

# Reading this many bytes takes less time than the calls for a file, which several threads do not speed up.
_CALLS_BYTES = 4 * 1024
_VERSIONS = ("2.0", "2.1", "2.2")


@dataclass(frozen=True, slots=True)
class SmallFragmentsTask:
    """All rows of the fragments at some positions of the table's list. A `ScanTask`."""

    scan: Scan = field(repr=False)
    positions: tuple[int, ...]

    @property
    def num_rows(self) -> int:
        return int(self.scan.table.fragments.physical_rows[np.array(self.positions)].sum())

    @property
    def num_bytes(self) -> int:
        num_bytes = int(self.scan.table.fragments.file_bytes[np.array(self.positions)].sum())
        is_calls = self.scan.table.location.is_local and num_bytes < len(self.positions) * _CALLS_BYTES
        return 0 if is_calls else num_bytes

    def read(self) -> Iterator[pa.RecordBatch]:
        """Yield batches of the scan's schema, in row order. See `ScanTask`."""
        try:
            batch = self._joined()
        except LanceError:
            batch = None  # an actual error is raised again below
        if batch is not None:
            yield from sliced((each for each in (batch,)), self.scan.batch_rows, None)
            return
        for task in self._tasks():
            yield from task.read()

    def _tasks(self) -> Iterator[FragmentTask]:
        rows = self.scan.table.fragments.physical_rows
        return (FragmentTask(self.scan, position, 0, int(rows[position])) for position in self.positions)

    def _joined(self) -> pa.RecordBatch | None:
        """Return the batch of all rows; None if files differ in format, or not all rows are needed."""
        scan = self.scan
        fragments = scan.table.fragments
        positions = np.array(self.positions)
        num_rows = self.num_rows
        if scan.row_bytes * num_rows > SCAN_LIMITS.current.max_window_bytes or any(
            scan.pruning.rows_by_index(fragment_id) is not None
            for fragment_id in fragments.ids[positions].tolist()
        ):
            return None
        files = joined_files(scan.table, self.positions)
        if files is None:
            return None
        rows = JoinedRows(scan.table, self.positions, files)
        # observed bounds are recorded by data file
        return RowSlice(dataclasses.replace(scan, learns_bounds=False, ruled_out=None), rows).read_whole(
            num_rows
        )


@dataclass(frozen=True, slots=True)
class JoinedFiles:
    """The data files of several fragments, read as one; ``starts`` has the first row of each, and the end."""

    reader: FileReader
    starts: npt.NDArray[np.int64]


def joined_files(table: Table, positions: tuple[int, ...]) -> JoinedFiles | None:
    """Return the data files of fragments at some positions of the list; None if they differ in format.

    Raises
    ------
    LanceError
        A file is missing or damaged.
    """
    fragments = table.fragments

    def opened() -> JoinedFiles | None:
        files_of = [fragments.files_at(position) for position in positions]
        files = [of_one[0] for of_one in files_of if len(of_one) == 1]
        counts = fragments.physical_rows[np.array(positions)]
        if len(files) < len(positions) or not counts.all() or not _have_same_format(files):
            return None
        with imports_finished():
            from lance_df.file.v2.joined_files import open_joined

        contents = _contents(table, files)
        name = _name(table, positions)
        reader = open_joined(name, contents, counts.tolist(), files[0].column_of())
        return JoinedFiles(reader, np.append(0, np.cumsum(counts)))

    key = table.uri, table.manifest.base_paths, fragments.serialized_at(positions)
    return table.shared.joined_files.get(key, opened, lambda made: made.reader.footprint if made else 0)


def _contents(table: Table, files: Sequence[DataFile]) -> list[bytes]:
    locations = [table.data_file_location(file) for file in files]
    contents = []
    for content in read_files(locations, [file.size_bytes for file in files]):
        if isinstance(content, LanceError):
            table.check_not_gone(content)
            raise content
        contents.append(content)
    return contents


def _name(table: Table, positions: Sequence[int]) -> str:
    ids = table.fragments.ids
    return f"{table.uri}: fragments {ids[positions[0]]} to {ids[positions[-1]]}"


class JoinedRows:
    """The physical rows of several fragments in sequence. A `RowSource`."""

    def __init__(self, table: Table, positions: Sequence[int], files: JoinedFiles) -> None:
        self._table = table
        self._positions = positions
        self._starts = files.starts
        self.deleted = self._deleted()
        self.reader: FragmentReader = _JoinedReader(table, positions, files, self.deleted)

    def system_values(self, name: str, rows: Rows) -> pa.Array:
        """Return the values of a system column."""
        parts = [
            system_column(self._table, self._positions[number], name, within)
            for number, within in split_rows(rows, self._starts)
        ]
        return pa.concat_arrays(parts) if parts else pa.array([], pa.uint64())

    def _deleted(self) -> npt.NDArray[np.int64]:
        parts = [np.empty(0, np.int64)]
        fragments = self._table.fragments
        for number in np.flatnonzero(fragments.has_deletions[np.array(self._positions)]).tolist():
            vector = self._table.deletion_vector(fragments[self._positions[number]])
            parts.append(deleted_offsets(vector) + self._starts[number])
        return np.concatenate(parts)


class _JoinedReader(FragmentReader):
    """Reads the columns of several fragments with one data file each."""

    def __init__(
        self, table: Table, positions: Sequence[int], files: JoinedFiles, deleted: npt.NDArray[np.int64]
    ) -> None:
        super().__init__(table, table.fragments[positions[0]])
        self.num_rows = int(files.starts[-1])
        self._all_deleted = deleted
        self._positions = positions
        self._readers[0] = files.reader

    @property
    def name(self) -> str:
        return _name(self._table, self._positions)

    def _has_live_nulls(self, array: pa.Array, rows: Rows) -> bool:
        nulls = array.is_null().to_numpy(zero_copy_only=False)
        return not np.isin(as_positions(rows)[nulls], self._all_deleted).all()


def _have_same_format(files: Sequence[DataFile]) -> bool:
    most = SCAN_LIMITS.current.max_small_file_bytes
    if not all(0 < file.size_bytes <= most for file in files):
        return False
    kinds = {(file.fields, file.column_indices, file.version) for file in files}
    return len(kinds) == 1 and kinds.pop()[2] in _VERSIONS
