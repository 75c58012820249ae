"""What there is to know about a table: its files, its sizes, its changes; and SQL over it alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypedDict, cast

import numpy as np
import pyarrow as pa

from lance_df.api.base import DatasetBase
from lance_df.api.descriptions import sizes_text
from lance_df.api.reading import integer
from lance_df.errors import (
    DatasetNotFoundError,
    IndexNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from lance_df.exits import stoppable
from lance_df.interrupts import imports_finished
from lance_df.table.maintenance.index_report import index_statistics
from lance_df.table.metadata.file_lists import ALL_FILES, TRACKED_FILES, all_files, tracked_files
from lance_df.table.metadata.row_counts import live_rows, physical_rows
from lance_df.table.metadata.versions import NamingScheme
from lance_df.table.open import open_table
from lance_df.table.reading.fragment_reader import FragmentReader
from lance_df.table.scan.delta import changed_rows, deleted_row_ids

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from lance_df.dataset import LanceDataset
    from lance_df.file.api.session import LanceFileSession
    from lance_df.operations import Transaction
    from lance_df.table.table import Table

_REFUSED_INDICES = (
    "this release builds BTREE, BITMAP, ZONEMAP and BLOOMFILTER indices, with create_scalar_index, and joins "
    "their segments with optimize.optimize_indices; build other indices with pylance"
)


class DatasetStats(TypedDict):
    """Counts of a table."""

    num_deleted_rows: int
    num_fragments: int
    num_small_files: int


@dataclass(frozen=True)
class FieldStatistics:
    """Stored bytes of a field, those of its children not included."""

    id: int
    bytes_on_disk: int


@dataclass(frozen=True)
class DataStatistics:
    """Stored bytes of every field."""

    fields: list[FieldStatistics]


class LanceStats:
    """Statistics of one version of a table."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __repr__(self) -> str:
        table = self._table
        return f"<lance_df.LanceStats of {table.uri} version {table.version}: {sizes_text(table)}>"

    def dataset_stats(self, max_rows_per_group: int = 1024) -> DatasetStats:
        """Return counts; a small file is a fragment of fewer rows than ``max_rows_per_group``."""
        table, indices = self._table, np.arange(len(self._table.fragments))
        rows, live = physical_rows(table, indices), live_rows(table, indices)
        return DatasetStats(
            num_deleted_rows=int((rows - live).sum()),
            num_fragments=len(indices),
            num_small_files=int((rows < integer(max_rows_per_group, "max_rows_per_group")).sum()),
        )

    def index_stats(self, index_name: str) -> dict[str, Any]:
        """Return how much of the table an index covers.

        Raises
        ------
        IndexNotFoundError
            There is no such index.
        """
        return index_statistics(self._table, index_name)

    def data_stats(self) -> DataStatistics:
        """Return the stored bytes of every field; opens all data files. Fields of 0.1 files count nothing."""
        sizes = dict.fromkeys((field.id for field in self._table.schema.walk()), 0)
        for fragment in self._table.fragments:
            reader = FragmentReader(self._table, fragment)
            for number, file in enumerate(fragment.files):
                if file.version != "0.1":
                    for field_id, column in file.column_of().items():
                        if field_id in sizes:
                            sizes[field_id] += reader.open(number).column_bytes(column)
        return DataStatistics([FieldStatistics(*item) for item in sizes.items()])


class DatasetDelta:
    """What changed in a table after one version and up to another. Made by `LanceDataset.delta`."""

    def __init__(self, dataset: LanceDataset, begin: int, end: int) -> None:
        self._dataset = dataset
        self._begin = begin
        self._end = end

    def list_transactions(self) -> list[Transaction]:
        """Return the transactions of the versions, as far as they are recorded, the oldest first."""
        numbers = range(self._begin + 1, self._end + 1)
        transactions = (self._dataset.read_transaction(number) for number in numbers)
        return [transaction for transaction in transactions if transaction is not None]

    def get_inserted_rows(self) -> pa.RecordBatchReader:
        """Return the rows that came and are there still. Raises UnsupportedFeatureError without row ids."""
        return self._changed(inserted=True)

    def get_updated_rows(self) -> pa.RecordBatchReader:
        """Return the rows that were there and have changed. Raises as :meth:`get_inserted_rows`."""
        return self._changed(inserted=False)

    def get_deleted_row_ids(self) -> pa.RecordBatchReader:
        """Return the ids of the rows that have gone. Raises as :meth:`get_inserted_rows`."""
        gone = deleted_row_ids(self._at(self._begin), self._at(self._end))
        batch = pa.RecordBatch.from_arrays([gone], ["_rowid"])
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])

    def _changed(self, *, inserted: bool) -> pa.RecordBatchReader:
        schema, batches = changed_rows(self._at(self._end), self._begin, self._end, inserted=inserted)
        return pa.RecordBatchReader.from_batches(schema, stoppable(batches))

    def _at(self, version: int) -> Table:
        table = self._dataset._table
        return table if table.version == version else table.checkout((table.branch, version))


class SqlQuery:
    """A statement that runs when its rows are asked for. Made by `SqlQueryBuilder.build`."""

    def __init__(self, run: Callable[[], pa.RecordBatchReader]) -> None:
        self._run = run

    def to_stream_reader(self) -> pa.RecordBatchReader:
        """Run it, batch by batch."""
        return self._run()

    def to_batch_records(self) -> list[pa.RecordBatch]:
        """Run it, and return all batches."""
        return list(self._run())


class SqlQueryBuilder:
    """Chooses how a statement sees a table. Made by `LanceDataset.sql`."""

    def __init__(self, table: Table, sql: str) -> None:
        self._table = table
        self._sql = sql
        self._name = "dataset"
        self._batch_rows: int | None = None
        self._extra: dict[str, bool] = {}

    def table_name(self, table_name: str) -> Self:
        """Call the table this; ``dataset`` by default."""
        self._name = table_name
        return self

    def with_row_id(self, with_row_id: bool = True) -> Self:
        """Let the table have the column ``_rowid``."""
        self._extra["_rowid"] = with_row_id
        return self

    def with_row_addr(self, with_row_addr: bool = True) -> Self:
        """Let the table have the column ``_rowaddr``."""
        self._extra["_rowaddr"] = with_row_addr
        return self

    def blob_handling(self, blob_handling: str) -> Self:
        """Take ``"blobs_descriptions"``.

        Raises
        ------
        UnsupportedFeatureError
            Bytes are wanted: `LanceDataset.read_blobs` returns them.
        """
        if blob_handling != "blobs_descriptions":
            raise UnsupportedFeatureError(
                f"blob_handling={blob_handling!r} in SQL: select row ids, and read blobs with read_blobs()"
            )
        return self

    def batch_size(self, batch_size: int) -> Self:
        """Return at most so many rows in a batch."""
        if integer(batch_size, "batch_size") < 1:
            raise InvalidInputError(f"batch_size is {batch_size}, expected at least 1")
        self._batch_rows = batch_size
        return self

    def batch_size_bytes(self, batch_size_bytes: int) -> Self:
        """Take a size; it has no effect."""
        integer(batch_size_bytes, "batch_size_bytes")
        return self

    def build(self) -> SqlQuery:
        """Return the query."""
        with imports_finished():
            from lance_df.engine.dataset_sql import run_sql

        extra = tuple(name for name in ("_rowid", "_rowaddr") if self._extra.get(name))
        settings = (self._table, self._sql, self._name, extra, self._batch_rows)
        return SqlQuery(lambda: run_sql(*settings))


class Information(DatasetBase):
    """Files, sizes and changes of a table; SQL over it alone."""

    @property
    def stats(self) -> LanceStats:
        """Statistics of this version."""
        return LanceStats(self._table)

    def sql(self, sql: str) -> SqlQueryBuilder:
        """Return a statement over this version, which it calls ``dataset``; `connect` is for many tables."""
        return SqlQueryBuilder(self._table, sql)

    def delta(
        self,
        compared_against: int | None = None,
        *,
        begin_version: int | None = None,
        end_version: int | None = None,
    ) -> DatasetDelta:
        """Return what changed between two versions of this branch.

        Parameters
        ----------
        compared_against
            The older version; the newer one is this.
        begin_version, end_version
            Both instead: changes after the first and up to the second.

        Raises
        ------
        InvalidInputError
            Neither is given, or one of a pair.
        VersionNotFoundError
            There is no such version.
        """
        begin, end = begin_version, end_version
        if compared_against is not None:
            begin, end = compared_against, self._table.version
        if begin is None or end is None:
            raise InvalidInputError(
                "either compared_against or both begin_version and end_version are needed"
            )
        for number in (begin, end):
            if number != self._table.version:
                self._table.checkout((self._table.branch, integer(number, "a version")))
        return DatasetDelta(cast("LanceDataset", self), begin, end)

    def all_files(self) -> pa.RecordBatchReader:
        """Return every file below the root of the table: base_uri, path, size_bytes, last_modified.

        Files of other base paths are left out.
        """
        return pa.RecordBatchReader.from_batches(ALL_FILES, stoppable(all_files(self._table)))

    def tracked_files(
        self, *, min_version: int | None = None, progress: Callable[[int, int | None], object] | None = None
    ) -> pa.RecordBatchReader:
        """Return every file that a version of this branch refers to: version, base_uri, path, type.

        Parameters
        ----------
        min_version
            Leave out versions before.
        progress
            Called after each version with the number of versions done, and of all.
        """
        batches = tracked_files(self._table, min_version=min_version, progress=progress)
        return pa.RecordBatchReader.from_batches(TRACKED_FILES, stoppable(batches))

    def version_refs(self) -> list[dict[str, int]]:
        """Return the number of every version of this branch, without reading their manifests."""
        return [{"version": number} for number in sorted(self._table.history.numbers())]

    @property
    def initial_storage_options(self) -> dict[str, Any] | None:
        """The storage options that the table was opened with."""
        return None if self._storage_options is None else dict(self._storage_options)

    def latest_storage_options(self) -> dict[str, Any] | None:
        """Return the storage options; nothing refreshes them."""
        return self.initial_storage_options

    def new_file_session(self) -> LanceFileSession:
        """Return a session for single files below the root of the table."""
        from lance_df.file.api.session import LanceFileSession

        return LanceFileSession(self._uri, storage_options=self._storage_options)

    def prewarm_index(
        self, name: str, *, with_position: bool = False, index_segments: Iterable[object] | None = None
    ) -> None:
        """Check that there is an index. Indices are read when a query needs them, and kept from then on.

        Raises
        ------
        IndexNotFoundError
            There is no such index.
        """
        del with_position, index_segments
        if name not in {index.name for index in self._table.indices}:
            raise IndexNotFoundError(f"{self._table.uri}: no index {name!r}")

    @staticmethod
    def drop(
        base_uri: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None = None,
        ignore_not_found: bool | None = None,
    ) -> None:
        """Remove a table with its branches and all else that lies in its folder.

        Raises
        ------
        DatasetNotFoundError
            There is no table at this place, and nothing is removed.
        CorruptDataError
            Its newest version cannot be read; nothing is removed.
        """
        try:
            table = open_table(base_uri, storage_options=storage_options)
        except DatasetNotFoundError:
            if ignore_not_found:
                return
            raise
        table.shared.root.remove_tree()

    def migrate_manifest_paths_v2(self) -> None:
        """Do nothing if manifests have names of the new scheme already.

        Raises
        ------
        UnsupportedFeatureError
            They have not: a clone of the table gets such names.
        """
        if self._table.history.listing().scheme is NamingScheme.V2:
            return
        raise UnsupportedFeatureError(
            f"{self._table.uri}: manifests are not renamed in place: that is not safe beside other writers. "
            "deep_clone() makes a copy with names of the new scheme"
        )

    def create_index(
        self, column: str | list[str], index_type: str, *args: object, **options: object
    ) -> NoReturn:
        """Refuse: there are no vector indices here. See `create_scalar_index`."""
        del column, args, options
        raise UnsupportedFeatureError(f"create_index({index_type!r}): {_REFUSED_INDICES}")

    def create_index_uncommitted(self, *args: object, **options: object) -> NoReturn:
        """Refuse; see `create_scalar_index`."""
        del args, options
        raise UnsupportedFeatureError(f"create_index_uncommitted: {_REFUSED_INDICES}")

    def merge_existing_index_segments(self, *args: object, **options: object) -> NoReturn:
        """Refuse; `optimize.optimize_indices` joins the segments of scalar indices."""
        del args, options
        raise UnsupportedFeatureError(f"merge_existing_index_segments: {_REFUSED_INDICES}")
