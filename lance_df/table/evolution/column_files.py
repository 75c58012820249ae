"""Write data files that hold some columns of all rows of a fragment, including deleted ones.

Values are computed for live rows only, as a computation may fail on others. Nobody reads the values of
deleted rows; they repeat the value of a live row nearby, which every type and every file version can store.
Spec: table format, chapter 11.
"""

from __future__ import annotations

import dataclasses
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from lance_df.encodings.arrays import null_array
from lance_df.errors import InvalidInputError, UnsupportedFeatureError
from lance_df.file.legacy.reader import LegacyFileReader
from lance_df.file.open_writer import open_writer
from lance_df.format.fragments import MAX_ROWS, TOMBSTONE
from lance_df.sliced_lists import unsliced
from lance_df.storage.sink import ByteSink
from lance_df.table.blobs.references import BlobReferences
from lance_df.table.evolution.live_rows import live_offsets
from lance_df.table.metadata.base_paths import DATA_DIR
from lance_df.table.metadata.missing_files import conflict_if_gone
from lance_df.table.reading.batches import source_closed
from lance_df.table.writing.fragment_writer import data_file, data_file_name, remove_data_file
from lance_df.table.writing.uncommitted import uncommitted_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy.typing as npt

    from lance_df.format.fragments import DataFile, Fragment
    from lance_df.format.schema import Schema
    from lance_df.table.table import Table
    from lance_df.table.writing.uncommitted import UncommittedFiles

_NULLABLE_IN_LEGACY = frozenset({"string", "large_string", "binary", "large_binary", "null"})

Rows: TypeAlias = "Callable[[Fragment], Iterable[Sequence[pa.Array]]]"
"""Computes the values of a fragment: batches with one array of storage type for each field.

Together they have one value for each live row of the fragment, in order.
"""


@contextmanager
def columns_written(
    table: Table, fragments: Iterable[Fragment], schema: Schema, rows: Rows
) -> Iterator[dict[int, DataFile]]:
    """Write one data file for each fragment; delete the files if the block fails.

    Parameters
    ----------
    schema
        The schema of the files, with the table's field ids.
    rows
        Called for each fragment, in the given order.

    Yields
    ------
    The data files by fragment id.

    Raises
    ------
    InvalidInputError
        There are too many or too few rows, or a null in a column that is not nullable.
    StorageError
        The store failed.
    """
    written: dict[int, DataFile] = {}
    with conflict_if_gone(table), uncommitted_files(table.location) as files:
        for fragment in fragments:
            written[fragment.id] = write_columns(table, fragment, schema, rows(fragment), files)
        yield written


def write_columns(
    table: Table,
    fragment: Fragment,
    schema: Schema,
    batches: Iterable[Sequence[pa.Array]],
    files: UncommittedFiles,
) -> DataFile:
    """Write columns of one fragment; see :func:`columns_written`.

    Parameters
    ----------
    files
        Registers the file before it is created.
    """
    name, version = data_file_name(), table.manifest.file_version
    rows_per_group = _rows_per_group(table, fragment) if version == "0.1" else 0
    location = table.location / DATA_DIR / name
    files.add(name, partial(remove_data_file, location))
    references = BlobReferences(table.location, table.manifest.base_paths)
    writer = open_writer(
        ByteSink(location),
        schema,
        version=version,
        rows_per_group=rows_per_group,
        blob_placement=references.placement(location, None),
    )
    resolved = (references.resolve(arrays, schema) for arrays in batches)
    try:
        with source_closed(batches):
            for arrays in _with_deleted_rows(table, fragment, schema, resolved):
                if version == "0.1":
                    _check_storable(schema, arrays)
                writer.write_batch(arrays)
        return data_file(name, writer.finish())
    except BaseException:
        writer.abort()
        raise


def _check_storable(schema: Schema, arrays: Sequence[pa.Array]) -> None:
    for field, array in zip(schema.fields, arrays, strict=True):
        if array.null_count and field.logical_type not in _NULLABLE_IN_LEGACY:
            raise InvalidInputError(
                f"column {field.name!r} of type {field.logical_type} contains nulls, which files of "
                "version 0.1 cannot store"
            )


def with_columns_of(fragment: Fragment, new: DataFile, schema: Schema) -> Fragment:
    """Add a file to those of a fragment, and remove its columns from the others.

    Files without any column of the schema are left out.
    """
    needed = schema.by_id().keys()
    files = []
    for file in fragment.files:
        ids = tuple(TOMBSTONE if field_id in new.fields else field_id for field_id in file.fields)
        if not needed.isdisjoint(ids):
            files.append(file if ids == file.fields else dataclasses.replace(file, fields=ids))
    return dataclasses.replace(fragment, files=(*files, new))


def _rows_per_group(table: Table, fragment: Fragment) -> int:
    """Return the batch size of the 0.1 files of a fragment, as pylance reads its files batch by batch.

    Raises
    ------
    UnsupportedFeatureError
        The batches have different sizes.
    """
    for file in fragment.files:
        reader = table.open_data_file(fragment, file)
        if isinstance(reader, LegacyFileReader):
            sizes = reader.batch_sizes
            if len(sizes) and (sizes[:-1] != sizes[0]).any():
                raise UnsupportedFeatureError(
                    f"{reader.path}: cannot add columns to this file of version 0.1, because its batches "
                    "have different sizes"
                )
            return int(sizes[0]) if len(sizes) else 1024
    return 1024


def _with_deleted_rows(
    table: Table, fragment: Fragment, schema: Schema, batches: Iterable[Sequence[pa.Array]]
) -> Iterator[list[pa.Array]]:
    """Insert rows for deleted ones, so that batches cover all physical rows of the fragment."""
    num_rows = table.fragment_rows(fragment)
    live = live_offsets(table, fragment)
    done = 0
    for arrays in batches:
        size = len(arrays[0])
        if done + size > len(live):
            raise InvalidInputError(
                f"{table.uri}: Stream produced more values than expected for dataset: fragment {fragment.id} "
                f"has {len(live)} rows"
            )
        offsets = live[done : done + size]
        first = int(live[done - 1]) + 1 if done else 0
        done += size
        if size:
            stop = num_rows if done == len(live) else int(offsets[-1]) + 1
            yield _spread(arrays, offsets, first, stop, schema)
    if done < len(live):
        raise InvalidInputError(
            f"{table.uri}: Stream ended before producing values for all rows in dataset: {done} values for "
            f"the {len(live)} rows of fragment {fragment.id}"
        )
    if not len(live) and num_rows:
        yield [null_array(field.arrow_type(), min(num_rows, MAX_ROWS)) for field in schema.fields]


def _spread(
    arrays: Sequence[pa.Array], offsets: npt.NDArray[np.int64], first: int, stop: int, schema: Schema
) -> list[pa.Array]:
    """Return values for the rows from ``first`` to ``stop``, each that of the next offset in ``offsets``.

    Nullable blobs, which would take space, are null at the other rows.
    """
    if stop - first == len(offsets):
        return list(arrays)
    repeats = np.diff(offsets, prepend=first - 1)
    repeats[-1] += stop - 1 - int(offsets[-1])
    indices = pa.array(np.repeat(np.arange(len(offsets)), repeats))
    has_value = np.zeros(stop - first, np.bool_)
    has_value[offsets - first] = True
    indices_of_values = pa.array(indices.to_numpy(), mask=~has_value)
    return [
        unsliced(array).take(indices_of_values if field.is_blob and field.nullable else indices)
        for array, field in zip(arrays, schema.fields, strict=True)
    ]
