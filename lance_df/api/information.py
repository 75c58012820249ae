"""Information about a table: its files, sizes and changes; and SQL over this table only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypedDict, cast

import numpy as np
import pyarrow as pa

from lance_df.api.base import DatasetBase
from lance_df.api.descriptions import sizes_text
from lance_df.arguments import checked_flag, checked_function, checked_integer, checked_text
from lance_df.errors import (
    DatasetNotFoundError,
    IndexNotFoundError,
    InvalidInputError,
    UnsupportedFeatureError,
)
from lance_df.exits import stoppable
from lance_df.interrupts import imports_finished
from lance_df.table.dropping import drop_table
from lance_df.table.maintenance.index_report import index_statistics
from lance_df.table.metadata.file_lists import ALL_FILES, TRACKED_FILES, all_files, tracked_files
from lance_df.table.metadata.locations import locate_table
from lance_df.table.metadata.row_counts import live_rows, physical_rows
from lance_df.table.metadata.versions import NamingScheme
from lance_df.table.reading.fragment_reader import FragmentReader
from lance_df.table.scan.delta import changed_rows, deleted_row_ids

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from lance_df.dataset import LanceDataset
    from lance_df.file.api.session import LanceFileSession
    from lance_df.operations import Transaction
    from lance_df.table.metadata.external_store import ExternalManifestStore
    from lance_df.table.table import Table

_REFUSED_INDICES = (
    "this release builds BTREE, BITMAP, ZONEMAP and BLOOMFILTER indices, with create_scalar_index, and joins "
    "their segments with optimize.optimize_indices; build other indices with pylance"
)


class DatasetStats(TypedDict):
    """Row and fragment counts of a table."""

    num_deleted_rows: int
    num_fragments: int
    num_small_files: int


@dataclass(frozen=True)
class FieldStatistics:
    """The stored bytes of a field, without those of its children."""

    id: int
    bytes_on_disk: int


@dataclass(frozen=True)
class DataStatistics:
    """The stored bytes of every field."""

    fields: list[FieldStatistics]


class LanceStats:
    """Statistics of one version of a table."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __repr__(self) -> str:
        table = self._table
        return f"<lance_df.LanceStats of {table.uri} version {table.version}: {sizes_text(table)}>"

    def dataset_stats(self, max_rows_per_group: int = 1024) -> DatasetStats:
        """Return counts. A fragment with fewer than ``max_rows_per_group`` rows counts as a small file."""
        table, indices = self._table, np.arange(len(self._table.fragments))
        rows, live = physical_rows(table, indices), live_rows(table, indices)
        return DatasetStats(
            num_deleted_rows=int((rows - live).sum()),
            num_fragments=len(indices),
            num_small_files=int((rows < checked_integer(max_rows_per_group, "max_rows_per_group")).sum()),
        )

    def index_stats(self, index_name: str) -> dict[str, Any]:
        """Return how much of the table an index covers.

        Raises
        ------
        IndexNotFoundError
            There is no such index.
        """
        return index_statistics(self._table, checked_text(index_name, "index_name"))

    def data_stats(self) -> DataStatistics:
        """Return the stored bytes of every field. Opens all data files. Fields of 0.1 files count as 0."""
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
    """The changes to a table between two versions, as `LanceDataset.delta` returns them."""

    def __init__(self, dataset: LanceDataset, begin: int, end: int) -> None:
        self._dataset = dataset
        self._begin = begin
        self._end = end

    def list_transactions(self) -> list[Transaction]:
        """Return the recorded transactions of the versions, oldest first."""
        numbers = range(self._begin + 1, self._end + 1)
        transactions = (self._dataset.read_transaction(number) for number in numbers)
        return [transaction for transaction in transactions if transaction is not None]

    def get_inserted_rows(self) -> pa.RecordBatchReader:
        """Return the rows that were inserted and still exist.

        Raises UnsupportedFeatureError if the table has no stable row ids.
        """
        return self._changed(inserted=True)

    def get_updated_rows(self) -> pa.RecordBatchReader:
        """Return the rows that existed before and were changed. Raises like :meth:`get_inserted_rows`."""
        return self._changed(inserted=False)

    def get_deleted_row_ids(self) -> pa.RecordBatchReader:
        """Return the ids of the deleted rows. Raises like :meth:`get_inserted_rows`."""
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
    """A statement, as `SqlQueryBuilder.build` returns it. It runs when its rows are requested."""

    def __init__(self, run: Callable[[], pa.RecordBatchReader]) -> None:
        self._run = run

    def to_stream_reader(self) -> pa.RecordBatchReader:
        """Run the statement and return a reader of its batches."""
        return self._run()

    def to_batch_records(self) -> list[pa.RecordBatch]:
        """Run the statement and return all batches."""
        return list(self._run())


class SqlQueryBuilder:
    """A builder for a statement over one table, as `LanceDataset.sql` returns it."""

    def __init__(self, table: Table, sql: str) -> None:
        self._table = table
        self._sql = sql
        self._name = "dataset"
        self._batch_rows: int | None = None
        self._extra: dict[str, bool] = {}

    def table_name(self, table_name: str) -> Self:
        """Set the name of the table in the statement; ``dataset`` by default."""
        self._name = checked_text(table_name, "table_name")
        return self

    def with_row_id(self, with_row_id: bool = True) -> Self:
        """Add the column ``_rowid`` to the table."""
        self._extra["_rowid"] = checked_flag(with_row_id, "with_row_id")
        return self

    def with_row_addr(self, with_row_addr: bool = True) -> Self:
        """Add the column ``_rowaddr`` to the table."""
        self._extra["_rowaddr"] = checked_flag(with_row_addr, "with_row_addr")
        return self

    def blob_handling(self, blob_handling: str) -> Self:
        """Accept only ``"blobs_descriptions"``.

        Raises
        ------
        UnsupportedFeatureError
            The bytes of blobs are requested. Use `LanceDataset.read_blobs` to read them.
        """
        if blob_handling != "blobs_descriptions":
            raise UnsupportedFeatureError(
                f"blob_handling={blob_handling!r} is not supported in SQL; select row ids, and read the "
                "blobs with read_blobs()"
            )
        return self

    def batch_size(self, batch_size: int) -> Self:
        """Set the maximum number of rows of a batch."""
        self._batch_rows = checked_integer(batch_size, "batch_size", 1)
        return self

    def batch_size_bytes(self, batch_size_bytes: int) -> Self:
        """Accept a size, which has no effect."""
        checked_integer(batch_size_bytes, "batch_size_bytes")
        return self

    def build(self) -> SqlQuery:
        """Return the query."""
        with imports_finished():
            from lance_df.engine.dataset_sql import run_sql

        extra = tuple(name for name in ("_rowid", "_rowaddr") if self._extra.get(name))
        settings = (self._table, self._sql, self._name, extra, self._batch_rows)
        return SqlQuery(lambda: run_sql(*settings))


class Information(DatasetBase):
    """Methods that return the files, sizes and changes of a table, or run SQL over this table only."""

    @property
    def stats(self) -> LanceStats:
        """Return the statistics of this version."""
        return LanceStats(self._table)

    def sql(self, sql: str) -> SqlQueryBuilder:
        """Return a builder for a statement over this version, which the statement names ``dataset``.

        Use `connect` for statements over several tables.
        """
        return SqlQueryBuilder(self._table, checked_text(sql, "sql"))

    def delta(
        self,
        compared_against: int | None = None,
        *,
        begin_version: int | None = None,
        end_version: int | None = None,
    ) -> DatasetDelta:
        """Return the changes between two versions of this branch.

        Parameters
        ----------
        compared_against
            The older version. The newer version is the one of this dataset.
        begin_version, end_version
            Instead of ``compared_against``: return the changes after ``begin_version``, up to and including
            ``end_version``.

        Raises
        ------
        InvalidInputError
            No version is given, or only one of ``begin_version`` and ``end_version``.
        VersionNotFoundError
            There is no such version.
        """
        begin, end = begin_version, end_version
        if compared_against is not None:
            begin, end = compared_against, self._table.version
        if begin is None or end is None:
            raise InvalidInputError(
                "either compared_against, or both begin_version and end_version, must be given"
            )
        for number in (begin, end):
            if number != self._table.version:
                self._table.checkout((self._table.branch, checked_integer(number, "a version")))
        return DatasetDelta(cast("LanceDataset", self), begin, end)

    def all_files(self) -> pa.RecordBatchReader:
        """Return the base_uri, path, size_bytes and last_modified of every file below the root of the table.

        Files in other base paths are not included.
        """
        return pa.RecordBatchReader.from_batches(ALL_FILES, stoppable(all_files(self._table)))

    def tracked_files(
        self, *, min_version: int | None = None, progress: Callable[[int, int | None], object] | None = None
    ) -> pa.RecordBatchReader:
        """Return the version, base_uri, path and type of every file that a version of this branch refers to.

        Parameters
        ----------
        min_version
            Leave out earlier versions.
        progress
            A function that is called after each version, with the number of completed versions and the total.
        """
        if min_version is not None:
            min_version = checked_integer(min_version, "min_version")
        if progress is not None:
            checked_function(progress, "progress")
        batches = tracked_files(self._table, min_version=min_version, progress=progress)
        return pa.RecordBatchReader.from_batches(TRACKED_FILES, stoppable(batches))

    def version_refs(self) -> list[dict[str, int]]:
        """Return the number of every version of this branch, without reading the manifests."""
        return [{"version": number} for number in sorted(self._table.history.numbers())]

    @property
    def initial_storage_options(self) -> dict[str, Any] | None:
        """Return the storage options that the table was opened with."""
        return None if self._storage_options is None else dict(self._storage_options)

    def latest_storage_options(self) -> dict[str, Any] | None:
        """Return the storage options. They are never refreshed."""
        return self.initial_storage_options

    def new_file_session(self) -> LanceFileSession:
        """Return a session for single files below the root of the table."""
        from lance_df.file.api.session import LanceFileSession

        return LanceFileSession(self._uri, storage_options=self._storage_options)

    def prewarm_index(
        self, name: str, *, with_position: bool = False, index_segments: Iterable[object] | None = None
    ) -> None:
        """Check that the index exists. Indices are read, and then cached, when a query needs them.

        Raises
        ------
        IndexNotFoundError
            There is no such index.
        """
        del with_position, index_segments
        if checked_text(name, "name") not in {index.name for index in self._table.indices}:
            raise IndexNotFoundError(f"{self._table.uri}: index {name!r} does not exist")

    @staticmethod
    def drop(
        base_uri: str | os.PathLike[str],
        storage_options: Mapping[str, Any] | None = None,
        ignore_not_found: bool | None = None,
        *,
        external_store: ExternalManifestStore | None = None,
    ) -> None:
        """Remove a table, its branches and everything else in its folder.

        Parameters
        ----------
        ignore_not_found
            Whether to do nothing if there is no table.
        external_store
            The store that the writers of the table use; see `lance_df.write_dataset`. Its entries of the
            table are removed too, even if the folder no longer exists.

        Raises
        ------
        DatasetNotFoundError
            There is no table at this location. Nothing is removed.
        CorruptDataError
            The newest version cannot be read. Nothing is removed.
        """
        is_lenient = checked_flag(ignore_not_found, "ignore_not_found", default=False)
        try:
            drop_table(locate_table(base_uri, storage_options, external_store))
        except DatasetNotFoundError:
            if not is_lenient:
                raise

    def migrate_manifest_paths_v2(self) -> None:
        """Do nothing if the manifests already use the names of the V2 scheme.

        Raises
        ------
        UnsupportedFeatureError
            The manifests use the old names. `deep_clone` makes a copy with the new names.
        """
        if self._table.history.listing().scheme is NamingScheme.V2:
            return
        raise UnsupportedFeatureError(
            f"{self._table.uri}: manifests cannot be renamed in place, because this is not safe while others "
            "write. deep_clone() makes a copy with names of the new scheme"
        )

    def create_index(
        self, column: str | list[str], index_type: str, *args: object, **options: object
    ) -> NoReturn:
        """Raise an error: lance_df has no vector indices. See `create_scalar_index`."""
        del column, args, options
        raise UnsupportedFeatureError(f"create_index({index_type!r}): {_REFUSED_INDICES}")

    def create_index_uncommitted(self, *args: object, **options: object) -> NoReturn:
        """Raise an error; see `create_scalar_index`."""
        del args, options
        raise UnsupportedFeatureError(f"create_index_uncommitted: {_REFUSED_INDICES}")

    def merge_existing_index_segments(self, *args: object, **options: object) -> NoReturn:
        """Raise an error: use `optimize.optimize_indices` to merge the segments of scalar indices."""
        del args, options
        raise UnsupportedFeatureError(f"merge_existing_index_segments: {_REFUSED_INDICES}")
