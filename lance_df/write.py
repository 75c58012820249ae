"""`write_dataset`: any Arrow data into a Lance table."""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.namespace.directory.folders import holds_table
from lance_df.operations import LANCE_COMMIT_MESSAGE_KEY
from lance_df.progress import ReportedProgress
from lance_df.sources import to_batches
from lance_df.storage.schemes import with_allowed_schemes
from lance_df.table.commit.lock import checked_lock
from lance_df.table.commit.options import CommitOptions
from lance_df.table.maintenance.auto_cleanup import auto_cleanup
from lance_df.table.metadata.base_paths_write import DatasetBasePath, as_base_path
from lance_df.table.metadata.locations import TableLocation, locate_table
from lance_df.table.open import table_at
from lance_df.table.writing.fragment_writer import FileLimits
from lance_df.table.writing.write import WriteOptions, write_table
from lance_df.table.writing.write_plan import as_mode

if TYPE_CHECKING:
    import pyarrow as pa

    from lance_df.dataset import LanceDataset
    from lance_df.table.commit.lock import CommitLock
    from lance_df.table.metadata.external_store import ExternalManifestStore

_CLEANUP_DEFAULTS = {"interval": 20, "older_than_seconds": 14 * 24 * 60 * 60}
_UNITS = (("days", 24 * 60 * 60), ("h", 60 * 60), ("m", 60), ("s", 1))


class AutoCleanupConfig(TypedDict, total=False):
    """When to remove old versions: at every ``interval``-th one, those older than ``older_than_seconds``."""

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
    target_bases: Sequence[str] | None = None,
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

    Names, defaults and meanings are pylance's; ``statistics`` and ``allowed_base_schemes`` are ours alone.

    Parameters
    ----------
    data_obj
        A Table, RecordBatch, RecordBatchReader, pyarrow Dataset or Scanner, Lance dataset or namespace,
        pandas or Polars frame (lazy ones too), a relation of DuckDB, a frame of DataFusion, a dict of
        columns, a list of dicts, anything with ``__arrow_c_stream__``, a path, URL or glob that ends in
        ``.parquet`` or ``.csv``, or, with ``schema``, an iterable of batches. Streams are consumed batch by
        batch; memory is bounded by pages, not by the input. Files in a store are opened with
        ``storage_options``.
    uri
        The folder of the table or branch; or a dataset, of which the branch that it shows is written to.
    schema
        The schema to write with, whose order columns get; data of other types is cast to it where no value is
        lost; floats may lose digits. Of frames of pandas, dicts and files, its columns are taken, as by
        pyarrow; other data may have no more columns than it.
    mode
        ``"create"``: the table must not exist. ``"append"``: rows are added; ``"overwrite"``: a new version
        has only these rows, older versions stay. Both create a table that does not exist. In ``memory://`` a
        name may be created again: whoever has the older table open keeps it.
    max_rows_per_file, max_bytes_per_file
        When to start the next data file; bytes are checked after each batch.
    max_rows_per_group
        Of 0.1 files only: how many rows have statistics, and are read, together.
    data_cache_bytes, max_page_bytes
        Bytes of all columns together that wait to become pages, and of one page; of 2.x files only.
    progress
        An object whose ``begin(fragment)`` and ``complete(fragment)`` are called for every data file.
    storage_options, base_store_params
        For the fsspec filesystem. ``base_1.key`` is the option ``key`` of the base path with the id 1 alone;
        ``base_store_params`` are all options of base paths, by their paths. A dataset keeps its own.
    allowed_base_schemes
        Kinds of URLs that base paths and external blobs may have, see `lance_df.dataset`; those of
        ``initial_bases`` are allowed for the dataset that is returned.
    external_store
        Decides on the versions of the table; for stores that cannot create a file only if it is absent. All
        writers and readers of a table must be given the same. `SQLiteManifestStore`, `DynamoDBManifestStore`;
        a URL ``s3+ddb://bucket/path?ddbTableName=T`` stands for the latter.
    data_storage_version
        File version; by default 2.2 for new tables, and the table's own for others. Rows of another 2.x
        version can be appended to a 2.x table.
    use_legacy_format
        True stands for version ``"legacy"``, False for ``"stable"``; deprecated.
    enable_v2_manifest_paths, enable_stable_row_ids, auto_cleanup_options
        For new tables only.
    commit_message, transaction_properties
        Kept with the version.
    initial_bases
        For new tables only: base paths to register, which are places for data files beside the table's own.
    target_bases
        Names or paths of base paths; new data files go to them in turn instead of to the table's own folder.
    target_all_bases
        Put data files into all base paths in turn, and with True also into the table's own folder.
    external_blob_mode, allow_external_blob_outside_bases
        Blobs may name files below the base paths that are no tables, and others only if that is allowed:
        references are stored. With ``"ingest"`` the bytes of any file that is named become part of the table.
    blob_pack_file_size_threshold
        How large files of several blobs beside a data file get; by default what the columns say, or 1 GiB.
    session
        Taken so that calls written for pylance work; it has no effect.
    commit_lock
        A function of the version that returns a context manager: held while the version is made. All writers
        of the table must use it then; it makes stores safe that cannot create a file only if it is absent.
    namespace_client, table_id
        Refused: there are namespaces of this package.
    statistics
        Build zone map indices (smallest and largest value of every 8192 rows) for every column of a suitable
        type, in a version of its own.

    Raises
    ------
    InvalidInputError
        Data that does not fit the table, a null where the schema allows none, or a wrong argument.
    AlreadyExistsError
        ``create``, and there is a table; or, in any mode, a namespace: `PartitionedNamespace` and
        `DirectoryNamespace` write to these.
    ConflictError
        Another writer changed the table in a way that forbids this.
    UnsupportedFeatureError
        A type or a file version that cannot be written, or an argument that is refused.
    StorageError
        The store failed; nothing is left behind.
    """
    del session
    _refuse(namespace_client=namespace_client, table_id=table_id)
    mode = as_mode(mode)
    lock = checked_lock(commit_lock)
    if uri is None:
        raise InvalidInputError("a path or URL, or a dataset, is needed")
    options = WriteOptions(
        limits=FileLimits.given(
            max_rows=max_rows_per_file,
            max_bytes=max_bytes_per_file,
            max_rows_per_group=max_rows_per_group,
            data_cache_bytes=data_cache_bytes,
            max_page_bytes=max_page_bytes,
        ),
        data_storage_version=_file_version(data_storage_version, use_legacy_format),
        stable_row_ids=enable_stable_row_ids,
        v2_manifest_names=enable_v2_manifest_paths,
        config=_cleanup_config(auto_cleanup_options),
        properties=_properties(commit_message, transaction_properties),
        initial_bases=tuple(as_base_path(base) for base in initial_bases or ()),
        target_bases=tuple(target_bases or ()),
        target_all_bases=target_all_bases,
        progress=None if progress is None else ReportedProgress(progress),
        statistics=statistics,
        external_blob_mode=external_blob_mode,
        allow_external_blobs=allow_external_blob_outside_bases,
        blob_pack_bytes=blob_pack_file_size_threshold,
    )
    from_files = storage_options if isinstance(data_obj, str) and "://" in data_obj else None
    data_schema, batches = to_batches(data_obj, schema, storage_options=from_files)
    from lance_df.dataset import LanceDataset

    is_in_memory = False
    if isinstance(uri, LanceDataset):
        known, name, storage_options = uri._table, uri.uri, uri._storage_options
        target = TableLocation(known.location, known.shared.external_store)
        lock = lock or known.shared.commit_lock
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
    if lock is not None:
        options = dataclasses.replace(options, commit_options=CommitOptions(lock=lock))
    file = write_table(target.location, data_schema, batches, mode=mode, options=options)
    if is_in_memory:
        from lance_df.storage.memory import publish_store

        publish_store(target.location)
    made = table_at(target, file) if known is None else known.followed_by(file)
    made = made if lock is None else made.locked_by(lock)
    auto_cleanup(made)
    return LanceDataset._of(made, name, storage_options, None)


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
    merged = dict(properties or {})
    if message is not None:
        merged[LANCE_COMMIT_MESSAGE_KEY] = message
    if not all(isinstance(text, str) for pair in merged.items() for text in pair):
        raise InvalidInputError("commit_message is a text, transaction_properties a dict of texts")
    return merged


def _cleanup_config(options: AutoCleanupConfig | None) -> dict[str, str]:
    """Return the configuration under which pylance, too, cleans up as it commits."""
    if options is None:
        return {}
    values: dict[str, object] = {**_CLEANUP_DEFAULTS, **options}
    interval, seconds = values["interval"], values["older_than_seconds"]
    if not (isinstance(interval, int) and isinstance(seconds, int) and interval >= 0 and seconds >= 0):
        raise InvalidInputError(
            f"auto_cleanup_options have an interval and older_than_seconds, two numbers, not {options!r}"
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
