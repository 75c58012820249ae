"""List the files below the root of a table, and the files that its versions refer to."""

from __future__ import annotations

import datetime as dt
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from lance_df.storage.listing import scan_folder
from lance_df.table.metadata.base_paths import DATA_DIR, DELETIONS_DIR, INDICES_DIR
from lance_df.table.metadata.versions import VERSIONS_DIR

if TYPE_CHECKING:
    from collections.abc import Callable

    from lance_df.storage import Location
    from lance_df.table.metadata.manifest_io import ManifestFile
    from lance_df.table.table import Table

_TRANSACTIONS_DIR = "_transactions"

ALL_FILES = pa.schema(
    [
        pa.field("base_uri", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", "UTC"), nullable=False),
    ]
)
TRACKED_FILES = pa.schema(
    [
        pa.field("version", pa.int64(), nullable=False),
        pa.field("base_uri", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("type", pa.dictionary(pa.int8(), pa.string()), nullable=False),
    ]
)
_BATCH_ROWS = 8192


class _Tracked(NamedTuple):
    base_uri: str
    path: str
    type: str


def all_files(table: Table) -> Generator[pa.RecordBatch]:
    """Yield batches of `ALL_FILES`: every file below the root of the table."""
    rows: list[tuple[str, int, dt.datetime]] = []
    for path, size, modified in _files_below(table.location, ""):
        rows.append((path, size, modified))
        if len(rows) == _BATCH_ROWS:
            yield _all_files_batch(table, rows)
            rows = []
    if rows:
        yield _all_files_batch(table, rows)


def _all_files_batch(table: Table, rows: list[tuple[str, int, dt.datetime]]) -> pa.RecordBatch:
    paths, sizes, times = zip(*rows, strict=True)
    base = pa.DictionaryArray.from_arrays(pa.array([0] * len(rows), pa.int32()), [table.location.uri])
    return pa.RecordBatch.from_arrays(
        [base, pa.array(paths), pa.array(sizes, pa.int64()), pa.array(times, ALL_FILES.field(3).type)],
        schema=ALL_FILES,
    )


def _files_below(folder: Location, prefix: str) -> Iterator[tuple[str, int, dt.datetime]]:
    for file in scan_folder(folder):
        if file.is_directory:
            yield from _files_below(folder / file.name, f"{prefix}{file.name}/")
        else:
            modified = dt.datetime.fromtimestamp(file.modified or 0, dt.UTC)
            yield f"{prefix}{file.name}", file.size, modified


def tracked_files(
    table: Table,
    *,
    min_version: int | None = None,
    progress: Callable[[int, int | None], object] | None = None,
) -> Generator[pa.RecordBatch]:
    """Yield a batch of `TRACKED_FILES` for each version of the branch, the newest first.

    Files in base paths are included.
    """
    history = table.history
    numbers = [number for number in history.numbers() if min_version is None or number >= min_version]
    for done, number in enumerate(sorted(numbers, reverse=True), 1):
        files = list(dict.fromkeys(_files_of(table.checkout((table.branch, number)), history.open(number))))
        yield pa.RecordBatch.from_arrays(
            [
                pa.array([number] * len(files), pa.int64()),
                pa.array([file.base_uri for file in files]).dictionary_encode(),
                pa.array([file.path for file in files]),
                pa.array([file.type for file in files]).dictionary_encode().cast(TRACKED_FILES.field(3).type),
            ],
            schema=TRACKED_FILES,
        )
        if progress is not None:
            progress(done, len(numbers))


def _files_of(table: Table, file: ManifestFile) -> Iterator[_Tracked]:
    root = table.location
    yield _Tracked(root.uri, f"{VERSIONS_DIR}/{file.path.rsplit('/', 1)[-1]}", "manifest")
    if file.manifest.transaction_file:
        yield _Tracked(root.uri, f"{_TRANSACTIONS_DIR}/{file.manifest.transaction_file}", "transaction file")
    for fragment in table.fragments:
        for data in fragment.files:
            yield _placed(table, data.base_id, DATA_DIR, data.path, "data file")
        deletion = fragment.deletion_file
        if deletion is not None:
            yield _placed(table, deletion.base_id, DELETIONS_DIR, deletion.name(fragment.id), "deletion file")
    for index in table.indices:
        folder = table.index_location(index)
        for path, _, _ in _files_below(folder, f"{index.uuid}/"):
            yield _placed(table, index.base_id, INDICES_DIR, path, "index file")


def _placed(table: Table, base_id: int | None, folder: str, path: str, kind: str) -> _Tracked:
    if base_id is None:
        return _Tracked(table.location.uri, f"{folder}/{path}", kind)
    base = next(base for base in table.manifest.base_paths if base.id == base_id)
    return _Tracked(base.path, f"{folder}/{path}" if base.is_dataset_root else path, kind)
