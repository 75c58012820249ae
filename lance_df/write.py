"""`write_dataset`: write any Arrow data to a Lance table."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from lance_df.arguments import checked_flag, checked_mapping
from lance_df.errors import InvalidInputError, NotFoundError, UnsupportedFeatureError
from lance_df.file.arrow_types import shown_schema
from lance_df.interrupts import interrupted_once
from lance_df.namespace.directory.folders import holds_table
from lance_df.operations import LANCE_COMMIT_MESSAGE_KEY
from lance_df.progress import ReportedProgress
from lance_df.sources import are_files, to_batches
from lance_df.storage.schemes import with_allowed_schemes
from lance_df.table.commit.lock import checked_lock
from lance_df.table.commit.options import CommitOptions
from lance_df.table.maintenance.auto_cleanup import auto_cleanup
from lance_df.table.metadata.base_paths_write import DatasetBasePath, as_base_names, as_base_paths
from lance_df.table.metadata.locations import TableLocation, locate_table
from lance_df.table.open import open_located, table_at
from lance_df.table.writing.fragment_writer import FileLimits
from lance_df.table.writing.write import WriteOptions, write_table
from lance_df.table.writing.write_plan import as_mode

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.dataset import LanceDataset
    from lance_df.table.commit.lock import CommitLock
    from lance_df.table.metadata.external_store import ExternalManifestStore
    from lance_df.table.table import Table

_CLEANUP_DEFAULTS = {"interval": 20, "older_than_seconds": 14 * 24 * 60 * 60}
_UNITS = (("days", 24 * 60 * 60), ("h", 60 * 60), ("m", 60), ("s", 1))


class AutoCleanupConfig(TypedDict, total=False):
    """The options of automatic cleanup.

    The commit of every ``interval``-th version removes versions that are older than ``older_than_seconds``.
    """

    interval: int
    older_than_seconds: int


def write_dataset(
    data_obj: Any,
    uri: str | os.PathLike[str] | LanceDataset | None = None,
    schema: pa.Schema | None = None,
    mode: Literal["create", "append", "overwrite"] = "create",
    *,
    max_rows_per_file: int | None = 1024 * 1024,
    max_rows_per_group: int | None = 1024,
    max_bytes_per_file: int | None = 90 * 1024 * 1024 * 1024,
    data_cache_bytes: int | None = None,
    max_page_bytes: int | None = None,
    commit_lock: CommitLock | None = None,
    progress: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    external_store: ExternalManifestStore | None = None,
    data_storage_version: Literal["stable", "legacy", "0.1", "2.0", "2.1", "2.2"] | None = None,
    use_legacy_format: bool | None = None,
    enable_v2_manifest_paths: bool = True,
    enable_stable_row_ids: bool = False,
    auto_cleanup_options: AutoCleanupConfig | None = None,
    commit_message: str | None = None,
    transaction_properties: Mapping[str, str] | None = None,
    initial_bases: Sequence[DatasetBasePath] | None = None,
    target_bases: Sequence[str | os.PathLike[str]] | None = None,
    target_all_bases: bool | None = None,
    base_store_params: Mapping[str, Mapping[str, Any]] | None = None,
    allowed_base_schemes: Iterable[str] | None = None,
    external_blob_mode: Literal["reference", "ingest"] = "reference",
    allow_external_blob_outside_bases: bool = False,
    blob_pack_file_size_threshold: int | None = None,
    namespace_client: object = None,
    table_id: Sequence[str] | None = None,
    session: object = None,
    statistics: bool = False,
) -> LanceDataset:
    """Write data to a table and return its new version.

    Names, defaults and meanings are those of pylance. Only ``statistics`` and ``allowed_base_schemes`` are
    additions of lance_df.

    Parameters
    ----------
    data_obj
        The rows to write, as one of:

        - a pyarrow Table, RecordBatch, RecordBatchReader, Dataset or Scanner;
        - a Lance dataset or namespace;
        - a pandas DataFrame, or an eager or lazy Polars frame;
        - a DuckDB relation or a DataFusion frame;
        - a dict of columns or a list of dicts;
        - any object with ``__arrow_c_stream__``;
        - a path, URL or glob that ends in ``.parquet`` or ``.csv``;
        - an iterable of batches, which requires ``schema``.

        Streams are consumed batch by batch. Memory is bounded by the size of pages, not by the size of the
        input. Files in a store are opened with ``storage_options``. In CSV files that are appended, the
        columns of the table have its types.
    uri
        The folder of the table or branch; or a dataset, in which case its branch is written to. A table that
        was opened and no longer exists is created again only by its path, or in mode ``"create"``.
    schema
        The schema to write. It determines the order of the columns. Data of other types is cast to it if no
        value is lost, except that floats may lose digits. From pandas frames, dicts and files only the
        columns of the schema are taken, as pyarrow does; other data must not have columns that the schema
        lacks.
    mode
        - ``"create"``: create a table, which must not exist yet. In ``memory://`` a name may be created
          again; objects that have the older table open keep it.
        - ``"append"``: add the rows, or create the table if it does not exist.
        - ``"overwrite"``: write a new version with only these rows, or create the table if it does not exist.
          Older versions remain.
    max_rows_per_file, max_bytes_per_file
        Limits after which a new data file is started. Bytes are checked after each batch.
    max_rows_per_group
        How many rows share statistics and are read together. Only for 0.1 files.
    data_cache_bytes, max_page_bytes
        How many bytes of all columns together are buffered before they become pages, and the largest size of
        a page. Only for 2.x files.
    progress
        An object whose ``begin(fragment)`` and ``complete(fragment)`` are called for every data file.
    storage_options, base_store_params
        Options for the fsspec filesystem. ``base_1.key`` is the option ``key`` for the base path with the id
        1 only. ``base_store_params`` has all options of base paths, by their paths. If ``uri`` is a dataset,
        its own options are used.
    allowed_base_schemes
        URL schemes that base paths and external blobs may have; see `lance_df.dataset`. The schemes of
        ``initial_bases`` are also allowed for the dataset that is returned.
    external_store
        A store that decides which versions of the table exist, for stores that cannot create a file only if
        it is absent. All writers and readers of a table must use the same one. Use `SQLiteManifestStore` or
        `DynamoDBManifestStore`; a URL ``s3+ddb://bucket/path?ddbTableName=T`` selects the latter.
    data_storage_version
        The file version. The default is 2.2 for new tables and the table's own version otherwise. Rows of
        another 2.x version can be appended to a 2.x table. ``"legacy"`` (0.1) stores nulls of text and
        binary only: nulls of other types are read as zeros, empty lists or other values, as with pylance.
    use_legacy_format
        Deprecated. True means version ``"legacy"``, False means ``"stable"``.
    enable_v2_manifest_paths, enable_stable_row_ids, auto_cleanup_options
        Only for new tables.
    commit_message, transaction_properties
        Stored with the version.
    initial_bases
        Base paths to register: locations for data files outside the table's own folder. Only for new tables.
    target_bases
        Names or paths of base paths. New data files are distributed over them in turn, instead of being
        written to the table's own folder.
    target_all_bases
        Distribute data files over all base paths in turn. With True, the table's own folder is one of the
        targets.
    external_blob_mode, allow_external_blob_outside_bases
        How blobs refer to external files. By default references are stored. A reference must be below a base
        path that is not a table; other files require ``allow_external_blob_outside_bases``. With ``"ingest"``
        the bytes of any referenced file are copied into the table.
    blob_pack_file_size_threshold
        The maximum size of a file beside a data file that holds several blobs. The default is the setting of
        the column, or else 1 GiB.
    session
        Accepted for compatibility with pylance; it has no effect.
    commit_lock
        A function that takes the version and returns a context manager, which is held while the version is
        created. All writers of the table must then use it. It makes writes safe in stores that cannot create
        a file only if it is absent.
    namespace_client, table_id
        Refused: lance_df has its own namespaces.
    statistics
        Build zone map indices (minimum and maximum of every 8192 rows) for every column of a suitable type,
        in a separate version.

    Raises
    ------
    InvalidInputError
        The data does not fit the table, a value is null where the schema does not allow it, or an argument is
        invalid.
    AlreadyExistsError
        The mode is ``"create"`` and the table exists; or, in any mode, ``uri`` is a namespace. Use
        `PartitionedNamespace` or `DirectoryNamespace` to write to a namespace.
    DatasetNotFoundError
        ``uri`` is a dataset whose table no longer exists.
    ConflictError
        Another writer changed the table in a way that conflicts with this write.
    UnsupportedFeatureError
        A type or a file version cannot be written, or an argument is refused.
    StorageError
        The store failed. No partial data is left behind.
    """
    del session
    _refuse(namespace_client=namespace_client, table_id=table_id)
    mode = as_mode(mode)
    lock = checked_lock(commit_lock)
    if uri is None:
        raise InvalidInputError("expected a path, a URL or a dataset, got None")
    if target_all_bases is not None:
        checked_flag(target_all_bases, "target_all_bases")
    options = WriteOptions(
        limits=FileLimits.given(
            max_rows=max_rows_per_file,
            max_bytes=max_bytes_per_file,
            max_rows_per_group=max_rows_per_group,
            data_cache_bytes=data_cache_bytes,
            max_page_bytes=max_page_bytes,
        ),
        data_storage_version=_file_version(data_storage_version, use_legacy_format),
        stable_row_ids=checked_flag(enable_stable_row_ids, "enable_stable_row_ids", default=False),
        v2_manifest_names=checked_flag(enable_v2_manifest_paths, "enable_v2_manifest_paths", default=True),
        config=_cleanup_config(auto_cleanup_options),
        properties=_properties(commit_message, transaction_properties),
        initial_bases=() if initial_bases is None else as_base_paths(initial_bases, "initial_bases"),
        target_bases=() if target_bases is None else as_base_names(target_bases, "target_bases"),
        target_all_bases=target_all_bases,
        progress=None if progress is None else ReportedProgress(progress),
        statistics=checked_flag(statistics, "statistics", default=False),
        external_blob_mode=external_blob_mode,
        allow_external_blobs=checked_flag(
            allow_external_blob_outside_bases, "allow_external_blob_outside_bases", default=False
        ),
        blob_pack_bytes=blob_pack_file_size_threshold,
    )
    from_files = storage_options if isinstance(data_obj, str) and "://" in data_obj else None
    from lance_df.dataset import LanceDataset

    is_in_memory = False
    if isinstance(uri, LanceDataset):
        known, name, storage_options = uri._table, uri.uri, uri._storage_options
        target = TableLocation(known.location, known.shared.external_store)
        lock = lock or known.shared.commit_lock
        # "create" may make a table that was dropped again, but not a branch, which only create_branch() lists
        if mode != "create" or known.branch is not None:
            options = dataclasses.replace(options, known=known)
    else:
        known, name = None, str(uri)
        storage_options = with_allowed_schemes(storage_options, allowed_base_schemes)
        target = locate_table(uri, storage_options, external_store, base_store_params)
        location = target.location.allowing(base.path for base in options.initial_bases)
        if is_in_memory := mode == "create" and location.uri.startswith("memory://"):
            from lance_df.storage.memory import separate_store

            location = separate_store(location, is_taken=holds_table(location))
        target = dataclasses.replace(target, location=location)
    if target.external_store is not None:
        options = dataclasses.replace(options, external_store=target.external_store)
    column_types = None
    if mode == "append" and schema is None and are_files(data_obj):
        column_types = _columns_of(target, known)
    data_schema, batches = to_batches(data_obj, schema, column_types=column_types, storage_options=from_files)
    if lock is not None:
        options = dataclasses.replace(options, commit_options=CommitOptions(lock=lock))
    with interrupted_once():
        file = write_table(target.location, data_schema, batches, mode=mode, options=options)
        if is_in_memory:
            from lance_df.storage.memory import publish_store

            publish_store(target.location)
        made = table_at(target, file) if known is None else known.followed_by(file)
        made = made if lock is None else made.locked_by(lock)
        auto_cleanup(made)
        return LanceDataset._of(made, name, storage_options, None)


def _columns_of(target: TableLocation, known: Table | None) -> pa.Schema | None:
    """Return the columns of the newest version of a table, if it exists."""
    with suppress(NotFoundError):  # the write creates the table, or raises the error of its version
        table = open_located(target) if known is None else known.latest()
        return shown_schema(table.arrow_schema)
    return None


def _refuse(**arguments: object) -> None:
    for name, value in arguments.items():
        if value is not None:
            raise UnsupportedFeatureError(f"write_dataset does not support {name}")


def _file_version(data_storage_version: str | None, use_legacy_format: bool | None) -> str | None:
    if use_legacy_format is None:
        return data_storage_version
    warnings.warn(
        "use_legacy_format is deprecated, use data_storage_version instead", DeprecationWarning, stacklevel=3
    )
    return "legacy" if use_legacy_format else "stable"


def _properties(message: str | None, properties: Mapping[str, str] | None) -> dict[str, str]:
    merged = dict(checked_mapping(properties or {}, "transaction_properties", "a dict of texts"))
    if message is not None:
        merged[LANCE_COMMIT_MESSAGE_KEY] = message
    if not all(isinstance(text, str) for pair in merged.items() for text in pair):
        raise InvalidInputError(
            "commit_message must be a string, and transaction_properties a dict of strings"
        )
    return merged


def _cleanup_config(options: AutoCleanupConfig | None) -> dict[str, str]:
    """Return the configuration with which commits clean up, including commits of pylance."""
    if options is None:
        return {}
    given = checked_mapping(options, "auto_cleanup_options")
    values: dict[str, object] = {**_CLEANUP_DEFAULTS, **given}
    interval, seconds = values["interval"], values["older_than_seconds"]
    if not (isinstance(interval, int) and isinstance(seconds, int) and interval >= 0 and seconds >= 0):
        raise InvalidInputError(
            f"auto_cleanup_options must have two numbers, an interval and older_than_seconds, got {options!r}"
        )
    return {
        "lance.auto_cleanup.interval": str(interval),
        "lance.auto_cleanup.older_than": _duration(seconds),
    }


def _duration(seconds: int) -> str:
    """Return a duration as text, such as ``14days`` or ``1h 30m``."""
    parts = []
    for unit, size in _UNITS:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts) or "0s"
