"""Write rows for a commit that somebody else makes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lance_df.api.base import DatasetBase
from lance_df.api.fragment_metadata import FragmentMetadata
from lance_df.api.operation_models import from_model
from lance_df.errors import UnsupportedFeatureError
from lance_df.operations import Transaction
from lance_df.progress import ReportedProgress
from lance_df.sources import to_batches
from lance_df.storage import open_location
from lance_df.table.metadata.base_paths_write import as_base_path
from lance_df.table.writing.fragment_writer import FileLimits
from lance_df.table.writing.write import WriteOptions, stage_rows

if TYPE_CHECKING:
    from lance_df.dataset import LanceDataset
    from lance_df.table.metadata.base_paths_write import DatasetBasePath

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
    target_bases: Sequence[str] | None = None,
    target_all_bases: bool | None = None,
    initial_bases: Sequence[DatasetBasePath] | None = None,
    external_blob_mode: str = "reference",
    allow_external_blob_outside_bases: bool = False,
    **others: Any,
) -> list[FragmentMetadata] | Transaction:
    """Write data into new fragments of a table, and describe them; nothing is committed.

    Many processes can do so at once; one commits what all of them wrote, by `LanceDataset.commit`. Names,
    defaults and meanings are pylance's.

    Parameters
    ----------
    data, schema, storage_options, progress
        As in `lance_df.write_dataset`, like the sizes, the bases, and what is said of blobs.
    dataset_uri
        The table, which need not exist, or a dataset.
    return_transaction
        Return what to commit, instead of the descriptions of the fragments.
    mode
        ``"append"``: the data is checked against the schema of the table, and gets its field ids;
        ``"create"`` and ``"overwrite"``: fields are numbered anew.
    data_storage_version
        By default the table's own, and 2.2 for a new one.
    enable_stable_row_ids
        No effect: row ids are given out by the commit.

    Raises
    ------
    InvalidInputError
        Data that does not fit the table, or a wrong argument.
    AlreadyExistsError
        ``create``, and there is a table; or, in any mode, a namespace.
    UnsupportedFeatureError
        A type or a file version that cannot be written, or an argument that is refused.
    """
    del enable_stable_row_ids
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
        initial_bases=tuple(as_base_path(base) for base in initial_bases or ()),
        target_bases=tuple(target_bases or ()),
        target_all_bases=target_all_bases,
        progress=None if progress is None else ReportedProgress(progress),
        external_blob_mode=external_blob_mode,
        allow_external_blobs=allow_external_blob_outside_bases,
    )
    if isinstance(dataset_uri, DatasetBase):
        location = dataset_uri._table.location
    else:
        location = open_location(dataset_uri, storage_options)
    data_schema, batches = to_batches(data, schema)
    staged = stage_rows(location, data_schema, batches, mode=mode, options=options)  # type: ignore[arg-type] # is checked
    if return_transaction:
        return Transaction(staged.read_version, from_model(staged.operation))
    return [FragmentMetadata._of(fragment) for fragment in staged.fragments]
