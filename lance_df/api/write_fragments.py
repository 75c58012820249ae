"""Write fragments that another process or a later call commits."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_df.api.base import DatasetBase
from lance_df.api.fragment_metadata import FragmentMetadata
from lance_df.api.operation_models import from_model
from lance_df.arguments import checked_flag
from lance_df.errors import UnsupportedFeatureError
from lance_df.operations import Transaction
from lance_df.progress import ReportedProgress
from lance_df.sources import to_batches
from lance_df.storage import open_location
from lance_df.table.metadata.base_paths_write import DatasetBasePath, as_base_names, as_base_paths
from lance_df.table.writing.fragment_writer import FileLimits
from lance_df.table.writing.write import WriteOptions, stage_rows

if TYPE_CHECKING:
    from lance_df.dataset import LanceDataset

_NO_EFFECT = frozenset({"session"})


def write_fragments(
    data: Any,
    dataset_uri: str | os.PathLike[str] | LanceDataset,
    schema: pa.Schema | None = None,
    *,
    return_transaction: bool = False,
    mode: str = "append",
    max_rows_per_file: int | None = 1024 * 1024,
    max_rows_per_group: int | None = 1024,
    max_bytes_per_file: int | None = 90 * 1024 * 1024 * 1024,
    data_cache_bytes: int | None = None,
    max_page_bytes: int | None = None,
    progress: Any = None,
    data_storage_version: str | None = None,
    use_legacy_format: bool | None = None,
    storage_options: Mapping[str, Any] | None = None,
    enable_stable_row_ids: bool = False,
    target_bases: Sequence[str | os.PathLike[str]] | None = None,
    target_all_bases: bool | None = None,
    initial_bases: Sequence[DatasetBasePath] | None = None,
    external_blob_mode: str = "reference",
    allow_external_blob_outside_bases: bool = False,
    **others: Any,
) -> list[FragmentMetadata] | Transaction:
    """Write data into new fragments of a table and return their descriptions, without committing them.

    Many processes can do this at the same time. One of them commits all the fragments with
    `LanceDataset.commit`. Names, defaults and meanings are those of pylance.

    Parameters
    ----------
    data, schema, storage_options, progress
        As in `lance_df.write_dataset`. The same holds for the arguments about sizes, base paths and blobs.
    dataset_uri
        The table, which need not exist, or a dataset.
    return_transaction
        Return a transaction to commit instead of the descriptions of the fragments.
    mode
        - ``"append"``: the data is checked against the schema of the table and gets its field ids.
        - ``"create"`` and ``"overwrite"``: fields get new ids.
    data_storage_version
        The file version. The default is the table's own, and 2.2 for a new table.
    enable_stable_row_ids
        No effect: the commit assigns row ids.

    Raises
    ------
    InvalidInputError
        The data does not fit the table, or an argument is invalid.
    AlreadyExistsError
        The mode is ``"create"`` and the table exists; or, in any mode, the location is a namespace.
    UnsupportedFeatureError
        A type or a file version cannot be written, or an argument is refused.
    """
    del enable_stable_row_ids
    returns_transaction = checked_flag(return_transaction, "return_transaction", default=False)
    for name, value in others.items():
        if name not in _NO_EFFECT and value is not None:
            raise UnsupportedFeatureError(f"write_fragments does not support {name}")
    if use_legacy_format is not None:
        data_storage_version = "legacy" if use_legacy_format else "stable"
    options = WriteOptions(
        limits=FileLimits.given(
            max_rows=max_rows_per_file,
            max_bytes=max_bytes_per_file,
            max_rows_per_group=1024 if max_rows_per_group is None else max_rows_per_group,
            data_cache_bytes=data_cache_bytes,
            max_page_bytes=max_page_bytes,
        ),
        data_storage_version=data_storage_version,
        initial_bases=() if initial_bases is None else as_base_paths(initial_bases, "initial_bases"),
        target_bases=() if target_bases is None else as_base_names(target_bases, "target_bases"),
        target_all_bases=target_all_bases,
        progress=None if progress is None else ReportedProgress(progress),
        external_blob_mode=external_blob_mode,
        allow_external_blobs=checked_flag(
            allow_external_blob_outside_bases, "allow_external_blob_outside_bases", default=False
        ),
    )
    if isinstance(dataset_uri, DatasetBase):
        known = dataset_uri._table
        location = known.location
        if mode != "create" or known.branch is not None:
            options = dataclasses.replace(options, known=known)
    else:
        location = open_location(dataset_uri, storage_options)
    data_schema, batches = to_batches(data, schema)
    staged = stage_rows(location, data_schema, batches, mode=mode, options=options)  # type: ignore[arg-type] # is checked
    if returns_transaction:
        return Transaction(staged.read_version, from_model(staged.operation))
    return [FragmentMetadata._of(fragment) for fragment in staged.fragments]
