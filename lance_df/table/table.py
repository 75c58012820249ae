"""One version of a table: its metadata, and access to its files."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from lance_df.cache import CacheKind
from lance_df.errors import (
    CorruptDataError,
    DatasetNotFoundError,
    LanceError,
    NotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from lance_df.file.io import named_errors
from lance_df.file.tail import TAIL_BYTES
from lance_df.format.feature_flags import FeatureFlag
from lance_df.format.fragment_list import FragmentList
from lance_df.format.fragments import MAX_ROWS, Fragment
from lance_df.format.schema import Field, Schema
from lance_df.interrupts import imports_finished
from lance_df.storage.mapped_pages import release_pages
from lance_df.table.metadata.base_paths import BasePaths
from lance_df.table.metadata.history import History
from lance_df.table.metadata.manifest_cache import LATEST
from lance_df.table.metadata.manifest_io import identity
from lance_df.table.metadata.refs import (
    ResolvedRef,
    VersionRef,
    describe_branches,
    list_branches,
    list_tags,
    resolve,
)
from lance_df.table.parallel import map_reads
from lance_df.table.reading.fragment_reader import FragmentReader

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from uuid import UUID

    import pyarrow as pa
    from pyroaring import BitMap

    from lance_df.cache import Entries, TableCache
    from lance_df.expr.nodes import Predicate
    from lance_df.file.reader import FileReader
    from lance_df.format.fragment_reuse import FragmentReuse
    from lance_df.format.fragments import DataFile, DeletionFile
    from lance_df.format.manifest import IndexMetadata, Manifest
    from lance_df.format.refs import Branch, Tag
    from lance_df.format.row_ids import RunSequence
    from lance_df.format.transaction import Transaction
    from lance_df.scan.plan import ScanPlan
    from lance_df.scan.request import ScanRequest
    from lance_df.storage import ByteSource, Location
    from lance_df.table.commit.lock import CommitLock
    from lance_df.table.metadata.manifest_io import ManifestFile
    from lance_df.table.metadata.version_info import VersionInfo
    from lance_df.table.reading.column_take import ColumnTake
    from lance_df.table.reading.row_ids import RowIdIndex
    from lance_df.table.reading.row_lineage import RowLineage
    from lance_df.table.reading.sample import TableSample
    from lance_df.table.scan.table_scan import TableScan
    from lance_df.table.shared import Shared

TRANSACTIONS_DIR = "_transactions"

# In-memory bitmaps take less per row if many rows are deleted.
_BYTES_PER_DELETED_ROW = 2
_MAX_SCAN_PLANS = 64
_MAX_INDEX_ANSWERS = 256
# Memory of a table object, and the size of a parsed manifest in multiples of the file's size.
_TABLE_BYTES = 8 * 1024
_PARSED_COPIES = 3


class Table:
    """An immutable view of one version of a table. Safe to share between threads.

    Made by :func:`lance_df.table.open.open_table`. Opening reads only the manifest; other files are opened
    when they are needed, and kept in caches that all versions of the table share.

    Attributes
    ----------
    uri, location
        The root of the table, or of the branch.
    version
        As stated in the manifest; its file name should agree.
    branch
        ``None`` for main.
    manifest
        The model of the manifest.
    schema
        The fields, with their ids: those of the manifest, unless the table is seen with another schema.
    """

    def __init__(
        self,
        file: ManifestFile,
        *,
        location: Location,
        branch: str | None,
        shared: Shared,
        schema: Schema | None = None,
    ) -> None:
        file.check_readable()
        self.location = location
        self.uri = location.uri
        self.branch = branch
        self.manifest: Manifest = file.manifest
        self.schema = file.manifest.schema if schema is None else schema
        self.version = file.manifest.version
        self.shared = shared
        self._file = file
        self._bases = BasePaths(location, file.manifest.base_paths, source=file.path)

    def __repr__(self) -> str:
        return f"<Table {self.uri} version {self.version}>"

    @cached_property
    def cache(self) -> TableCache:
        """The cache of this version, a part of the cache of the table."""
        return self.shared.cache.part()

    def clear_cache(self) -> None:
        """Drop the cached data of all versions of the table."""
        self.shared.cache.clear()

    @cached_property
    def scan_plans(self) -> Entries[Any]:
        """Recent plans of engines for this version."""
        return self.shared.cache.part(_MAX_SCAN_PLANS).entries(CacheKind.PLANS)

    @cached_property
    def index_answers(self) -> Entries[Any]:
        """Recent answers of indices for this version: plans with other conditions ask them again."""
        return self.shared.cache.part(_MAX_INDEX_ANSWERS).entries(CacheKind.PLANS)

    @property
    def num_bytes(self) -> int:
        """The memory that the object takes besides its cache, estimated from the size of its manifest."""
        return _TABLE_BYTES + _PARSED_COPIES * self._file.source.size

    @property
    def manifest_file(self) -> ManifestFile:
        """The file that the manifest was read from; it gives access to the other sections."""
        return self._file

    def locked_by(self, lock: CommitLock | None) -> Table:
        """Return the same version; commits on top of it hold this lock."""
        shared = dataclasses.replace(self.shared, commit_lock=lock)
        return Table(
            self._file, location=self.location, branch=self.branch, shared=shared, schema=self.schema
        )

    def seen_as(self, schema: Schema) -> Table:
        """Return the same rows with another schema: columns are matched by field id; missing ones are null.

        The types must be those of the table. The manifest stays as it is stored.
        """
        return Table(
            self._file, location=self.location, branch=self.branch, shared=self.shared, schema=schema
        )

    @cached_property
    def _stored_fields(self) -> dict[int, Field]:
        return self.manifest.schema.by_id()

    @cached_property
    def missing_ids(self) -> frozenset[int]:
        """The ids of fields that the manifest lacks, so that all their values are null.

        Data files and indices may still have the values of a dropped column.
        """
        if self.schema is self.manifest.schema:
            return frozenset()
        return frozenset(self.schema.by_id().keys() - self._stored_fields.keys())

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema: storage types, and all metadata.

        Raises
        ------
        CorruptDataError, UnsupportedFeatureError
            A column has an invalid type, or one that this release does not support.
        """
        with named_errors(self._file.path):
            return self.schema.to_arrow()

    @property
    def fragments(self) -> FragmentList:
        """The fragments in table order; items are created on access, arrays describe all of them at once."""
        return self.manifest.fragments

    @property
    def uses_stable_row_ids(self) -> bool:
        """Whether the table has row ids that stay the same when rows move."""
        return bool(self.manifest.reader_feature_flags & FeatureFlag.STABLE_ROW_IDS)

    @cached_property
    def indices(self) -> tuple[IndexMetadata, ...]:
        """The index segments of this version, of all kinds, without coverage that is not reliable.

        To write a new manifest use :meth:`ManifestFile.read_indices`, which returns all of them unchanged.
        """
        if self.manifest.index_section is None:
            return ()
        with imports_finished():
            from lance_df.table.metadata.index_coverage import indices_to_search

        indices = indices_to_search(self._file, self._bases)
        return tuple(index for index in indices if self.missing_ids.isdisjoint(index.fields))

    @cached_property
    def fragment_reuse(self) -> FragmentReuse | None:
        """The compactions after which indices hold former row addresses; None if there is no record of any.

        Raises as :func:`lance_df.table.metadata.index_coverage.fragment_reuse`.
        """
        with imports_finished():
            from lance_df.table.metadata.index_coverage import fragment_reuse

        return fragment_reuse(self._file, self._file.read_indices(), self._bases)

    @cached_property
    def segments_of_former_rows(self) -> frozenset[UUID]:
        """The index segments that hold former addresses of rows in fragments that they cover."""
        reuse = self.fragment_reuse
        if reuse is None:
            return frozenset()
        stored = map(reuse.advanced, self._file.read_indices())
        return frozenset(index.uuid for index in stored if reuse.with_current_rows(index) is not index)

    # -- versions -------------------------------------------------------------------------------------------

    @property
    def history(self) -> History:
        """The versions of this branch."""
        return History(self.location, self.shared.external_store)

    def latest_version(self) -> int:
        """Return the latest version number of this branch in the store."""
        return self.history.latest_version()

    def latest(self) -> Table:
        """Return the newest version of this branch; this object if nothing has changed."""
        known = self._file.source
        source = self.history.latest_source(known)
        if source is known:
            return self
        if is_same_file(source, known):
            known.mark = source.mark
            return self
        return Table(LATEST.read(source), location=self.location, branch=self.branch, shared=self.shared)

    def is_stored(self) -> bool:
        """Return whether the store has this version, and not another one of the same number."""
        try:
            stored = self.history.open(self.version)
        except NotFoundError:
            return False
        return identity(stored) == identity(self._file)

    def followed_by(self, file: ManifestFile) -> Table:
        """Return the version of this branch that was just made, without reading anything."""
        return Table(file, location=self.location, branch=self.branch, shared=self.shared)

    def versions(self) -> list[VersionInfo]:
        """Return all versions of this branch, ascending. Reads the manifest of each."""
        with imports_finished():
            from lance_df.table.metadata.version_info import describe_version

        return [describe_version(file.manifest) for _, file in self.history.open_all()]

    def checkout(self, ref: VersionRef | None) -> Table:
        """Return another version.

        Parameters
        ----------
        ref
            A version of this branch, a tag, or (branch, version). In a pair, a branch of ``None`` or
            ``"main"`` is the main branch, and a version of ``None`` is the latest. ``None`` is the latest
            version of this branch.

        Raises
        ------
        VersionNotFoundError
            There is no such version, tag or branch; the message lists those that exist.
        """
        return open_ref(self.shared, resolve(self.shared.root, ref, branch=self.branch))

    def tags(self) -> dict[str, Tag]:
        """Return the tags of the table, of all branches."""
        return list_tags(self.shared.root)

    def branches(self) -> dict[str, Branch]:
        """Return the branches of the table except main."""
        return list_branches(self.shared.root)

    def transaction(self, version: int | None = None) -> Transaction | None:
        """Return the transaction that made a version of this branch (this one by default), if it is recorded.

        Raises
        ------
        VersionNotFoundError
            There is no such version.
        CorruptDataError
            The transaction is damaged, or its file is missing.
        """
        file = self._file if version is None or version == self.version else self.history.open(version)
        inline = file.read_transaction()
        name = file.manifest.transaction_file
        if inline is not None or not name:
            return inline
        from lance_df.format.transaction import Transaction

        location = (self.location / TRANSACTIONS_DIR).child(name)
        try:
            return Transaction.parse(location.read(), source=location.uri)
        except NotFoundError as err:
            raise CorruptDataError(f"{location.uri}: this transaction file is missing") from err

    # -- rows -----------------------------------------------------------------------------------------------

    def count_rows(self) -> int:
        """Return the number of rows; files are read only if the manifest does not have the counts."""
        from lance_df.table.metadata.row_counts import count_rows

        return count_rows(self)

    @property
    def is_local(self) -> bool:
        """Whether the table is read without requests to a store."""
        return self.location.is_local

    @property
    def plan_cache(self) -> Entries[Any]:
        """See `lance_df.scan.source.Scannable`."""
        return self.scan_plans

    @property
    def is_partitioned(self) -> bool:
        """False: indices and statistics are those of columns, not of partitions."""
        return False

    @property
    def namespace(self) -> None:
        """None: it is one table."""
        return None

    def plan(self, request: ScanRequest) -> ScanPlan:
        """Plan a scan; equal requests share a plan. See `lance_df.table.scan.plan.plan_scan`."""
        from lance_df.table.scan.cached_plans import cached_plan

        return cached_plan(self, request)

    @property
    def committed_table(self) -> Table:
        """The table that commits go to, which is this one."""
        return self

    def table_scans(
        self,
        request: ScanRequest,
        names: Collection[str | None] | None = None,  # noqa: ARG002
    ) -> Iterator[TableScan]:
        """Yield the table that a scan reads, which is this one. See `NamespaceSnapshot.table_scans`."""
        from lance_df.table.scan.table_scan import TableScan

        yield TableScan(self, request.predicate)

    def estimated_rows(self, pruning_predicate: Predicate | None = None) -> int | None:  # noqa: ARG002
        """Return the number of rows if the manifest has it; deleted rows count if their number is missing.

        See `lance_df.scan.source.Scannable`.
        """
        from lance_df.table.metadata.row_counts import estimated_rows

        return estimated_rows(self)

    def sample(self, pruning_predicate: Predicate | None = None) -> TableSample | None:  # noqa: ARG002
        """Return a sample of the rows, or None if reading it would take requests to a store."""
        from lance_df.table.reading.sample import TableSample

        return TableSample(self) if self.is_local else None

    def fragment(self, fragment_id: int) -> Fragment:
        """Return a fragment by its id.

        Raises
        ------
        NotFoundError
            There is none.
        """
        position = self.fragments.position(fragment_id)
        if position is None:
            raise NotFoundError(f"{self.uri}: version {self.version} has no fragment {fragment_id}")
        return self.fragments[position]

    @property
    def trusts_row_counts(self) -> bool:
        """Whether the row counts of the manifest are reliable."""
        # Old releases that left out their name counted live rows as physical rows when they migrated tables.
        return self.manifest.writer_version is not None

    def fragment_rows(self, fragment: Fragment) -> int:
        """Return the physical rows of a fragment, deleted ones included."""
        if fragment.physical_rows > MAX_ROWS:
            raise CorruptDataError(
                f"{self.name_of(fragment)} has {fragment.physical_rows} rows, the maximum is {MAX_ROWS}"
            )
        if (fragment.physical_rows and self.trusts_row_counts) or not fragment.files:
            return fragment.physical_rows
        return self.open_data_file(fragment, fragment.files[0]).num_rows

    def live_rows(self, fragment: Fragment) -> int:
        """Return the rows of a fragment that are not deleted."""
        deleted = self.deletion_vector(fragment)
        return self.fragment_rows(fragment) - (len(deleted) if deleted is not None else 0)

    def deletion_vector(self, fragment: Fragment) -> BitMap | None:
        """Return the deleted offsets of a fragment, or None. It is shared: do not change it."""
        file = fragment.deletion_file
        if file is None:
            return None
        from lance_df.table.reading.deletions import read_deletion_vector

        location = self._bases.deletion_file(file, fragment.id)
        num_rows = self.fragment_rows(fragment)
        try:
            return self.shared.deletion_vectors.get(
                (location.uri, file.num_deleted_rows, num_rows),
                lambda: read_deletion_vector(location, file, num_rows=num_rows),
                lambda vector: _BYTES_PER_DELETED_ROW * len(vector),
            )
        except CorruptDataError as err:
            self.check_not_gone(err)
            raise

    def open_data_file(self, fragment: Fragment, file: DataFile) -> FileReader:
        """Return the shared reader of a data file of a fragment.

        Raises
        ------
        CorruptDataError
            The file is missing or damaged, or its row count is not that of the fragment.
        VersionNotFoundError
            The file is missing, as the version was cleaned up, or the table dropped.
        UnsupportedFeatureError
            The file has a version that this release does not read.
        """
        source, fields = None, None
        if self._file_version(fragment, file) == "0.1":
            source, fields = self._file.source, self._stored_fields
        try:
            reader = self.shared.open_data_file(
                self._bases.data_file(file), file, manifest_source=source, stored_fields=fields
            )
        except CorruptDataError as err:
            self.check_not_gone(err)
            raise
        if self.trusts_row_counts and fragment.physical_rows not in (0, reader.num_rows):
            raise CorruptDataError(
                f"{reader.path}: the file has {reader.num_rows} rows, but fragment {fragment.id} has "
                f"{fragment.physical_rows} rows"
            )
        return reader

    def fragment_reader(self, position: int) -> FragmentReader:
        """Return the shared reader of the fragment at a position of the list."""
        readers: Entries[FragmentReader] = self.cache.entries(CacheKind.FRAGMENTS)
        reader = readers.find(position)
        if reader is not None and reader.is_counted():
            return reader
        readers.drop(position)
        reader = FragmentReader(self, self.fragments[position])
        return readers.put(position, reader, reader.footprint)

    def column_take(self, field: Field, known: dict[FragmentReader, bool]) -> ColumnTake:
        """Return the shared reader of single rows of a column. See `ColumnTake.is_counted`."""
        from lance_df.table.reading.column_take import ColumnTake

        columns: Entries[ColumnTake] = self.cache.entries(CacheKind.TAKES)
        column = columns.find(field)
        if column is not None and column.is_counted(known):
            return column
        columns.drop(field)
        column = ColumnTake(self, field)
        return columns.put(field, column, column.footprint)

    def data_file_location(self, file: DataFile) -> Location:
        """Return the location of a data file."""
        return self._bases.data_file(file)

    def release_pages(self, fragments: Iterable[Fragment]) -> None:
        """Release the memory that holds pages of local data files; see `mapped_pages`."""
        if self.is_local:
            files = (file for fragment in fragments for file in fragment.files)
            release_pages([self.data_file_location(file).path for file in files])

    def base_location(self, base_id: int) -> Location:
        """Return the location of a base path."""
        return self._bases.base(base_id)

    def deletion_file_location(self, file: DeletionFile, fragment_id: int) -> Location:
        """Return the location of the deletion file of a fragment."""
        return self._bases.deletion_file(file, fragment_id)

    def index_location(self, index: IndexMetadata) -> Location:
        """Return the folder of the files of an index."""
        return self._bases.index(index.uuid, index.base_id)

    # -- row ids --------------------------------------------------------------------------------------------

    @cached_property
    def _lineage(self) -> RowLineage:
        from lance_df.table.reading.row_lineage import RowLineage

        return RowLineage(self)

    def row_ids(self, fragment: Fragment) -> RunSequence:
        """Return the row ids of all physical rows of a fragment.

        Raises
        ------
        CorruptDataError
            The table has stable row ids, but this fragment has none, too few, or damaged ones.
        """
        return self._lineage.row_ids(fragment)

    def row_version_sequences(self, fragment: Fragment) -> tuple[RunSequence, RunSequence]:
        """Return the versions in which each physical row of a fragment was created, and last updated.

        Rows without a recorded version count as created in version 1, as in pylance.
        """
        return self._lineage.versions(fragment)

    def row_id_index(self) -> RowIdIndex:
        """Return the index from row ids to row addresses; it is built at the first call and cached.

        With stable row ids this reads the deletion files of all fragments.
        """
        indices: Entries[RowIdIndex] = self.cache.entries(CacheKind.ROW_IDS)
        return indices.get("index", self._make_row_id_index, attrgetter("num_bytes"))

    def _make_row_id_index(self) -> RowIdIndex:
        from lance_df.table.reading.row_ids import AddressIndex, StableIdIndex

        if not self.uses_stable_row_ids:
            return AddressIndex(self.fragments, self.fragment_rows, self.deletion_vector)

        def part(fragment: Fragment) -> tuple[int, RunSequence, BitMap | None]:
            return fragment.id, self.row_ids(fragment), self.deletion_vector(fragment)

        parts = map_reads(part, self.fragments, where=self.location)
        return StableIdIndex(parts, source=f"{self.uri} version {self.version}")

    # -- inner ----------------------------------------------------------------------------------------------

    def name_of(self, fragment: Fragment) -> str:
        """Return the name of a fragment for messages."""
        return f"{self._file.path}: fragment {fragment.id}"

    def check_not_gone(self, cause: LanceError) -> None:
        """Raise `VersionNotFoundError` if a file cannot be read because the version no longer exists."""
        from lance_df.table.metadata.missing_files import check_not_gone

        check_not_gone(self, cause)

    def _file_version(self, fragment: Fragment, file: DataFile) -> str:
        try:
            return file.version
        except UnsupportedFeatureError as err:
            raise UnsupportedFeatureError(f"{self.name_of(fragment)}: {err}") from err


def open_ref(shared: Shared, ref: ResolvedRef) -> Table:
    """Open a version of a branch.

    Raises
    ------
    DatasetNotFoundError
        There is no table.
    VersionNotFoundError
        The table has no such branch, or the branch no such version.
    """
    history = shared.history(ref.branch)
    try:
        file = history.open_latest() if ref.version is None else history.open(ref.version)
    except DatasetNotFoundError as err:
        if ref.branch is None:
            raise
        shared.history(None).listing()
        raise VersionNotFoundError(
            f"{shared.root.uri}: branch {ref.branch!r} does not exist; {describe_branches(shared.root)}"
        ) from err
    return Table(file, location=history.location, branch=ref.branch, shared=shared)


def is_same_file(left: ByteSource, right: ByteSource) -> bool:
    """Whether two files are the same; names do not suffice, as a table may be dropped and created anew."""
    if (left.path, left.size) != (right.path, right.size):
        return False
    # The tail of a remote file is in memory; it has the time of the commit and its unique id.
    num_bytes = left.size if left.is_memory_mapped else TAIL_BYTES
    return bool(left.read_tail(num_bytes).equals(right.read_tail(num_bytes)))
