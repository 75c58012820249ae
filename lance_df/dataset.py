"""`LanceDataset`: one version of a table, with the names of pylance."""

from __future__ import annotations

import datetime as dt
import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from lance_df.api.blob_reading import BlobReading
from lance_df.api.clones import Clones
from lance_df.api.commits import BulkCommitResult, Commits
from lance_df.api.descriptions import table_html
from lance_df.api.information import (
    DatasetDelta,
    DatasetStats,
    DataStatistics,
    FieldStatistics,
    Information,
    LanceStats,
    SqlQuery,
    SqlQueryBuilder,
)
from lance_df.api.maintenance import Maintenance
from lance_df.api.merge_insert import MergeInsertBuilder
from lance_df.api.namespaces.tables import table_location
from lance_df.api.optimizer import DatasetOptimizer
from lance_df.api.reading import Reading
from lance_df.api.row_changes import RowChanges
from lance_df.api.schema_changes import AlterColumn, SchemaChanges
from lance_df.api.version_list import VersionList
from lance_df.arguments import checked_integer
from lance_df.errors import InvalidInputError
from lance_df.expr.from_pyarrow import to_predicate
from lance_df.expr.walk import has_unknown
from lance_df.file.arrow_types import shown_schema
from lance_df.fragment import LanceFragment
from lance_df.operations import LANCE_COMMIT_MESSAGE_KEY, Index, LanceOperation, Transaction
from lance_df.refs import Branches, Tags
from lance_df.scan.request import ScanRequest
from lance_df.scanner import LanceScanner
from lance_df.scanner_options import ColumnOrdering, ScannerBuilder
from lance_df.schema import LanceSchema
from lance_df.session import Session
from lance_df.storage.schemes import with_allowed_schemes
from lance_df.table.commit.lock import checked_lock
from lance_df.table.evolution.fields import highest_field_id
from lance_df.table.indices.describe import describe_indices
from lance_df.table.open import open_table
from lance_df.table.scan.plan import selected_fragments
from lance_df.write import AutoCleanupConfig, write_dataset

if TYPE_CHECKING:
    import os

    from lance_df.table.commit.lock import CommitLock
    from lance_df.table.indices.describe import IndexInformation
    from lance_df.table.metadata.external_store import ExternalManifestStore
    from lance_df.table.metadata.refs import VersionRef
    from lance_df.table.metadata.version_info import VersionInfo
    from lance_df.table.table import Table

__all__ = [
    "LANCE_COMMIT_MESSAGE_KEY",
    "AlterColumn",
    "AutoCleanupConfig",
    "BulkCommitResult",
    "ColumnOrdering",
    "DataStatistics",
    "DatasetDelta",
    "DatasetOptimizer",
    "DatasetStats",
    "FieldStatistics",
    "Index",
    "LanceDataset",
    "LanceOperation",
    "LanceScanner",
    "LanceStats",
    "MergeInsertBuilder",
    "ScannerBuilder",
    "Session",
    "SqlQuery",
    "SqlQueryBuilder",
    "Transaction",
    "dataset",
    "write_dataset",
]

# what pylance has in its module of this name, too
_ELSEWHERE = {
    **dict.fromkeys(("BatchUDF", "BatchUDFCheckpoint", "batch_udf"), "lance_df.udf"),
    **dict.fromkeys(("Compaction", "CompactionMetrics"), "lance_df.optimize"),
    **dict.fromkeys(("DataFile", "FragmentMetadata"), "lance_df.fragment"),
    **dict.fromkeys(("CleanupExplanation", "CleanupStats", "DatasetBasePath", "ScanStatistics"), "lance_df"),
    **dict.fromkeys(("Branch", "DeleteResult", "ExecuteResult"), "lance_df.types"),
    **dict.fromkeys(("Tag", "UpdateResult", "Version"), "lance_df.types"),
    "BlobFile": "lance_df.blob",
    "IndexConfig": "lance_df.indices",
    "td_to_micros": "lance_df.util",
}


def __getattr__(name: str) -> Any:
    if (home := _ELSEWHERE.get(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


# Arguments of pylance that tune what there is no need to tune here.
_TUNING = (
    "block_size",
    "index_cache_size",
    "metadata_cache_size",
    "metadata_cache_size_bytes",
    "index_cache_size_bytes",
    "read_params",
    "session",
)


def dataset(
    uri: str | os.PathLike[str] | None = None,
    version: VersionRef | None = None,
    asof: dt.datetime | dt.date | str | None = None,
    block_size: int | None = None,
    commit_lock: CommitLock | None = None,
    index_cache_size: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    default_scan_options: Mapping[str, Any] | None = None,
    external_store: ExternalManifestStore | None = None,
    base_store_params: Mapping[str, Mapping[str, Any]] | None = None,
    allowed_base_schemes: Iterable[str] | None = None,
    namespace_client: Any = None,
    table_id: Sequence[str] | None = None,
    **tuning: Any,
) -> LanceDataset:
    """Open a table.

    Parameters
    ----------
    uri
        A path or URL of any scheme that fsspec supports.
    version
        A version number, a tag, or (branch, version). The default is the newest version.
    asof
        Open the newest version that is not later than this time. A time without a time zone is local time.
        Cannot be combined with ``version``.
    storage_options, base_store_params
        Options for the fsspec filesystem. They never appear in messages. `write_dataset` describes the
        options of base paths.
    allowed_base_schemes
        URL schemes, such as ``"https"``, that base paths and external blobs of the table may have in addition
        to the schemes of the table's own store. Local tables may refer to local files. Tables in object
        stores (``s3``, ``gs``, ``az``, ``abfs``) may refer to object stores. Chained URLs such as
        ``simplecache::https://…`` are never opened. The storage option of the same name has the same effect
        in every function that takes storage options.
    default_scan_options
        Options of `LanceDataset.scanner` that apply to every scan that does not override them. Calls that are
        not scans, such as `take`, `sample`, `sql`, counts and changes, ignore them and use the whole table,
        as in pylance. When a query engine reads the dataset, the filter of its statement applies in addition
        to a default filter, and refers to the default columns.
    external_store
        The store in which the writers of the table record its versions; see `write_dataset`.
    commit_lock
        A lock that every commit made through this object holds; see `write_dataset`. It is not pickled with
        the object.
    namespace_client, table_id
        Open a table of a namespace by its id, such as ``["sales", "orders"]``, instead of by URI. The client
        is a `lance_df.DirectoryNamespace` or a client of ``lance_namespace``.
    block_size, index_cache_size, **tuning
        Accepted for compatibility with pylance; they have no effect. All open tables of the process share one
        memory budget for their caches: see `lance_df.set_cache_bytes`.

    Raises
    ------
    DatasetNotFoundError
        There is no table at this location.
    VersionNotFoundError
        The table has no such version, tag or branch.
    CorruptDataError
        The manifest is damaged.
    UnsupportedFeatureError
        The table needs a newer reader.
    """
    unknown = sorted(set(tuning).difference(_TUNING))
    if unknown:
        raise InvalidInputError(f"dataset() has no argument {unknown[0]!r}")
    if namespace_client is not None:
        if uri is not None:
            raise InvalidInputError(
                "give either the URI of a table, or namespace_client and table_id, not both"
            )
        uri, namespace_options = table_location(namespace_client, table_id)
        storage_options = {**namespace_options, **(storage_options or {})} or None
    elif table_id is not None:
        raise InvalidInputError("table_id can be given only together with namespace_client")
    if uri is None:
        raise InvalidInputError("expected a path or URL, got None")
    del block_size, index_cache_size
    lock = checked_lock(commit_lock)
    storage_options = with_allowed_schemes(storage_options, allowed_base_schemes)
    table = open_table(
        uri,
        version=version,
        asof=_as_time(asof),
        storage_options=storage_options,
        external_store=external_store,
        base_store_params=base_store_params,
    )
    if lock is not None:
        table = table.locked_by(lock)
    return LanceDataset._of(table, str(uri), storage_options, default_scan_options)


class LanceDataset(
    Reading,
    BlobReading,
    Information,
    RowChanges,
    SchemaChanges,
    Commits,
    Maintenance,
    Clones,
):
    """One version of a table, as `dataset` returns it.

    It is a `pyarrow.dataset.Dataset`. pandas, Polars, DuckDB and DataFusion can read it directly and push
    columns and filters into its scans.
    """

    def __init__(
        self,
        uri: str | os.PathLike[str],
        version: VersionRef | None = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
        default_scan_options: Mapping[str, Any] | None = None,
        external_store: ExternalManifestStore | None = None,
        base_store_params: Mapping[str, Mapping[str, Any]] | None = None,
        allowed_base_schemes: Iterable[str] | None = None,
        **tuning: Any,
    ) -> None:
        storage_options = with_allowed_schemes(storage_options, allowed_base_schemes)
        opened = dataset(
            uri,
            version,
            storage_options=storage_options,
            default_scan_options=default_scan_options,
            external_store=external_store,
            base_store_params=base_store_params,
            **tuning,
        )
        self._adopt(opened._table, opened._uri, storage_options, default_scan_options)

    @classmethod
    def _of(
        cls,
        table: Table,
        uri: str,
        storage_options: Mapping[str, Any] | None,
        default_scan_options: Mapping[str, Any] | None,
    ) -> LanceDataset:
        self = cls.__new__(cls)
        self._adopt(table, uri, storage_options, default_scan_options)
        return self

    def _adopt(
        self,
        table: Table,
        uri: str,
        storage_options: Mapping[str, Any] | None,
        default_scan_options: Mapping[str, Any] | None,
    ) -> None:
        self._table = table
        self._uri = uri
        self._storage_options = storage_options
        self._default_scan_options = default_scan_options

    def _with_table(self, table: Table) -> LanceDataset:
        return self._of(table, self._uri, self._storage_options, self._default_scan_options)

    def _free_cache(self) -> None:
        self._table.clear_cache()

    def _with_scan_options(self, options: Mapping[str, Any]) -> LanceDataset:
        return self._of(self._table, self._uri, self._storage_options, options)

    def _at_version(self, version: VersionRef | None) -> LanceDataset:
        return self._with_table(self._table if version is None else self._table.checkout(version))

    def __reduce__(self) -> tuple[Any, ...]:
        branch = (self._table.branch, self.version)
        store = self._table.shared.external_store
        elsewhere = dict(self._table.location.options_elsewhere)
        root = self._table.shared.root
        # a relative path means something else where the object arrives
        target = root.path if root.is_local else self._uri
        return _reopen, (
            target,
            self._uri,
            branch,
            self._storage_options,
            self._default_scan_options,
            store,
            elsewhere,
        )

    def __copy__(self) -> LanceDataset:
        return self._with_table(self._table)

    def __repr__(self) -> str:
        return f"<lance_df.LanceDataset {self._table.uri} version {self.version}>"

    def _repr_html_(self) -> str:
        return table_html(self, self._table)

    def __len__(self) -> int:
        return self.count_rows()

    # -- what it is -----------------------------------------------------------------------------------------

    @property
    def uri(self) -> str:
        """Return the path or URL that the table was opened with."""
        return self._uri

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema of a scan without arguments, with the default scan options applied."""
        if self._default_scan_options is not None:
            return self.scanner().projected_schema
        return shown_schema(self._table.arrow_schema)

    @property
    def lance_schema(self) -> LanceSchema:
        """Return the schema with its field ids."""
        return LanceSchema(self._table.schema)

    @property
    def data_storage_version(self) -> str:
        """Return the file version of the table: ``"0.1"``, ``"2.0"``, ``"2.1"`` or ``"2.2"``.

        Release 0.16 recorded 0.1 for some tables of 2.0 files. As in pylance, the next commit corrects it.
        """
        manifest = self._table.manifest
        return manifest.data_format or manifest.file_version

    @property
    def has_stable_row_ids(self) -> bool:
        """Return whether rows keep their ids when they move."""
        return self._table.uses_stable_row_ids

    @property
    def max_field_id(self) -> int:
        """Return the highest field id in use, including ids of dropped columns that data files still hold."""
        return highest_field_id(self._table.manifest)

    @property
    def metadata(self) -> dict[str, str]:
        """Return the metadata of the table."""
        return dict(self._table.manifest.table_metadata)

    @property
    def schema_metadata(self) -> dict[str, str]:
        """Return the metadata of the schema."""
        return {key: value.decode("utf-8", "replace") for key, value in self._table.schema.metadata.items()}

    def config(self) -> dict[str, str]:
        """Return the configuration of the table."""
        return dict(self._table.manifest.config)

    def session(self) -> Session:
        """Return the cache of this process, which all open tables share."""
        return Session()

    # -- versions -------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Return the number of the open version."""
        return self._table.version

    @property
    def latest_version(self) -> int:
        """Return the number of the newest version of this branch."""
        return self._table.latest_version()

    def get_version(self) -> VersionInfo:
        """Return the entry of `versions` for this version."""
        return next(each for each in self.versions() if each["version"] == self.version)

    def versions(self) -> VersionList:
        """Return the number, time and summary of every version of this branch."""
        return VersionList(self._table.versions())

    @property
    def tags(self) -> Tags:
        """Return the tags of the table."""
        return Tags(self._table)

    @property
    def branches(self) -> Branches:
        """Return the branches of the table."""
        return Branches(self._table)

    def checkout_version(self, version: VersionRef) -> LanceDataset:
        """Return another version: a number on this branch, a tag, or (branch, version or None).

        It is looked up at the location of the table, as are the lists of versions, tags and branches. If the
        table was dropped and created again, it is a version of the new table.

        Raises
        ------
        VersionNotFoundError
            There is no such version, tag or branch.
        """
        return self._with_table(self._table.checkout(version))

    def checkout_latest(self) -> None:
        """Move this object to the newest version of its branch."""
        self._table = self._table.latest()

    # -- fragments and indices ------------------------------------------------------------------------------

    def get_fragments(self, filter: pc.Expression | None = None) -> list[LanceFragment]:
        """Return all fragments, or with a filter those that may have matching rows.

        If the table has fragments, at least one is returned: DataFusion cannot sort the rows of an empty list
        of fragments.
        """
        if not isinstance(filter, pc.Expression | None):
            raise InvalidInputError(f"expected a pyarrow expression, got {type(filter).__name__}")
        indices: Iterable[int] = range(len(self._table.fragments))
        # the columns of a filter are those of the schema, which expressions make
        are_stored = not isinstance((self._default_scan_options or {}).get("columns"), Mapping)
        if filter is not None and are_stored:
            from lance_df.engine.pruning.residual import as_datafusion

            predicate = as_datafusion(to_predicate(filter, self._table.arrow_schema))
            if not has_unknown(predicate):
                selected = selected_fragments(self._table, ScanRequest(predicate=predicate)).tolist()
                indices = selected or list(indices)[:1]
        return [LanceFragment(self, index) for index in indices]

    def get_fragment(self, fragment_id: int) -> LanceFragment | None:
        """Return the fragment with this id, or None."""
        wanted = checked_integer(fragment_id, "fragment_id")
        index = self._table.fragments.position(wanted) if wanted.bit_length() < 64 else None
        return None if index is None else LanceFragment(self, index)

    def fragment_ids(self) -> list[int]:
        """Return the ids of all fragments, without creating an object for each."""
        ids: list[int] = self._table.fragments.ids.tolist()
        return ids

    def list_indices(self) -> list[IndexInformation]:
        """Return the name, type, fields and coverage of every index segment."""
        return describe_indices(self._table)

    @property
    def has_index(self) -> bool:
        """Return whether the table has any index."""
        return bool(self.list_indices())


def _reopen(
    target: str,
    uri: str,
    version: VersionRef,
    storage_options: Mapping[str, Any] | None,
    default_scan_options: Mapping[str, Any] | None,
    external_store: ExternalManifestStore | None,
    base_store_params: Mapping[str, Mapping[str, Any]],
) -> LanceDataset:
    opened = dataset(
        target,
        version,
        storage_options=storage_options,
        external_store=external_store,
        base_store_params=base_store_params,
    )
    return LanceDataset._of(opened._table, uri, storage_options, default_scan_options)


def _as_time(asof: dt.datetime | dt.date | str | None) -> dt.datetime | None:
    """Return a time; text is ISO 8601, a date its midnight."""
    if asof is None or isinstance(asof, dt.datetime):
        return asof
    if isinstance(asof, dt.date):
        return dt.datetime(asof.year, asof.month, asof.day)
    if isinstance(asof, str):
        try:
            return dt.datetime.fromisoformat(asof)
        except ValueError as err:
            raise InvalidInputError(f"asof must be a time such as 2025-01-31T12:00:00, got {asof!r}") from err
    raise InvalidInputError(f"asof must be a datetime or ISO 8601 text, got {type(asof).__name__}")
