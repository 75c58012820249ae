"""`write_dataset`: any Arrow data into a Lance table."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.dataset as pads

from lance_df.errors import InvalidInputError
from lance_df.storage import open_location
from lance_df.table.fragment_writer import FileLimits
from lance_df.table.write import WriteOptions, write_table

if TYPE_CHECKING:
    from lance_df.dataset import LanceDataset

_COMMIT_MESSAGE = "__lance_commit_message"


def write_dataset(
    data_obj: Any,
    uri: str | os.PathLike[str] | LanceDataset,
    schema: pa.Schema | None = None,
    mode: Literal["create", "append", "overwrite"] = "create",
    *,
    max_rows_per_file: int = 1024 * 1024,
    max_rows_per_group: int = 1024,
    max_bytes_per_file: int = 90 * 1024 * 1024 * 1024,
    storage_options: Mapping[str, Any] | None = None,
    data_storage_version: Literal["stable", "legacy", "0.1", "2.0", "2.1", "2.2"] | None = None,
    enable_v2_manifest_paths: bool = True,
    enable_stable_row_ids: bool = False,
    commit_message: str | None = None,
    transaction_properties: Mapping[str, str] | None = None,
    statistics: bool = False,
) -> LanceDataset:
    """Write data to a table and return its new version.

    Names, defaults and meanings are pylance's; ``statistics`` is ours alone.

    Parameters
    ----------
    data_obj
        A Table, RecordBatch, RecordBatchReader, pyarrow Dataset or Scanner, pandas or Polars frame, a dict of
        columns, a list of dicts, anything with ``__arrow_c_stream__``, or, with ``schema``, an iterable of
        batches. Streams are consumed batch by batch; memory is bounded by pages, not by the input.
    uri
        The folder of the table, or a dataset.
    schema
        The schema to write with; data of other types is cast to it where no value is lost.
    mode
        ``"create"``: the table must not exist. ``"append"``: rows are added; ``"overwrite"``: a new version
        has only these rows, older versions stay. Both create a table that does not exist.
    max_rows_per_file, max_bytes_per_file
        When to start the next data file; bytes are checked after each batch.
    max_rows_per_group
        Of 0.1 files only: how many rows have statistics, and are read, together.
    storage_options
        For the fsspec filesystem.
    data_storage_version
        File version; by default 2.2 for a new content, and the table's own for ``append``.
    enable_v2_manifest_paths, enable_stable_row_ids
        For new tables only.
    commit_message, transaction_properties
        Kept with the version.
    statistics
        Build zone map indices (smallest and largest value of every 8192 rows) for every column of a suitable
        type, in a version of its own.

    Raises
    ------
    InvalidInputError
        Data that does not fit the table, a null where the schema allows none, or a wrong argument.
    AlreadyExistsError
        ``create``, and there is a table.
    ConflictError
        Another writer changed the table in a way that forbids this.
    UnsupportedFeatureError
        A type or a file version that cannot be written.
    StorageError
        The store failed; nothing is left behind.
    """
    if isinstance(uri, str | os.PathLike):
        table_uri = uri
    else:
        table_uri = uri.uri
        storage_options = uri._storage_options if storage_options is None else storage_options
    properties = dict(transaction_properties or {})
    if commit_message is not None:
        properties[_COMMIT_MESSAGE] = commit_message
    options = WriteOptions(
        limits=FileLimits(
            max_rows=max_rows_per_file, max_bytes=max_bytes_per_file, max_rows_per_group=max_rows_per_group
        ),
        data_storage_version=data_storage_version,
        stable_row_ids=enable_stable_row_ids,
        v2_manifest_names=enable_v2_manifest_paths,
        properties=properties,
        statistics=statistics,
    )
    data_schema, batches = _to_batches(data_obj, schema)
    table = open_location(table_uri, storage_options)
    version = write_table(table, data_schema, batches, mode=mode, options=options)

    from lance_df.dataset import dataset

    return dataset(table_uri, version=version, storage_options=storage_options)


def _to_batches(data: Any, schema: pa.Schema | None) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Return the schema and the batches of any source, cast to ``schema`` if there is one."""
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    elif isinstance(data, dict):
        data = pa.table(data, schema=schema)
    elif isinstance(data, list) and data and isinstance(data[0], dict):
        data = pa.Table.from_pylist(data, schema=schema)
    elif isinstance(data, pads.Dataset | pads.Scanner):
        data = data.to_reader() if isinstance(data, pads.Scanner) else data.scanner().to_reader()
    elif _is_pandas(data):
        data = pa.Table.from_pandas(data, schema=schema, preserve_index=False)
    if isinstance(data, pa.Table):
        return _cast(data.schema, iter(data.to_batches()), schema)
    if isinstance(data, pa.RecordBatchReader):
        return _cast(data.schema, iter(data), schema)
    if hasattr(data, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(data)
        return _cast(reader.schema, iter(reader), schema)
    if isinstance(data, Iterable):
        if schema is None:
            raise InvalidInputError("an iterable of batches needs its schema: pass schema=…")
        return schema, _checked(data, schema)
    raise InvalidInputError(f"{type(data).__name__} is no Arrow data")


def _is_pandas(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and type(data).__name__ == "DataFrame"


def _cast(
    own: pa.Schema, batches: Iterator[pa.RecordBatch], schema: pa.Schema | None
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    if schema is None or schema.equals(own, check_metadata=True):
        return own, batches
    return schema, (_cast_batch(batch, schema) for batch in batches)


def _checked(batches: Iterable[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for item in batches:
        if isinstance(item, pa.RecordBatch):
            yield _cast_batch(item, schema)
        elif isinstance(item, pa.Table):
            yield from (_cast_batch(batch, schema) for batch in item.to_batches())
        else:
            raise InvalidInputError(f"an iterable of batches holds a {type(item).__name__}")


def _cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    try:
        return batch.select(schema.names).cast(schema)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, KeyError, ValueError) as err:
        raise InvalidInputError(f"the data cannot be brought to the schema given: {err}") from err
