"""Write and read the files of B-tree indices; entries are in order. Spec: table format, 14.2."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from lance_df.encodings.plan import RowRange
from lance_df.errors import UnsupportedFeatureError
from lance_df.table.maintenance.sorted_entries import Entries, joined_entries

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.table.indices.index_file import IndexFile, IndexFolder
    from lance_df.table.maintenance.new_index import NewIndex

PAGE_ROWS = 4096
"""Entries in each page, as in pylance."""

_DATA_FILE = "page_data.lance"
_LOOKUP_FILE = "page_lookup.lance"
_PAGES_AT_ONCE = 16
_BYTES_AT_ONCE = 32 * 1024 * 1024
_ROWS_AT_ONCE = 1 << 14


def write_btree(
    index: NewIndex, data_type: pa.DataType, entries: Iterable[Entries], *, page_rows: int = PAGE_ROWS
) -> None:
    """Write the files of a B-tree.

    Parameters
    ----------
    entries
        In the order of `lance_df.table.maintenance.sorted_entries`.
    """
    lookup_schema = _lookup_schema(data_type)
    bounds: list[list[pa.Array]] = [[] for _ in lookup_schema]
    num_pages = 0
    with index.create(_DATA_FILE, _data_schema(data_type)) as file:
        for pages in _whole_pages(entries, page_rows):
            file.write([pages.values, pa.array(pages.ids)])
            starts = np.arange(0, len(pages), page_rows)
            stops = np.minimum(starts + page_rows, len(pages))
            nulls = np.add.reduceat(np.asarray(pages.values.is_null()), starts, dtype=np.uint32)
            numbers = np.arange(num_pages, num_pages + len(starts), dtype=np.uint32)
            bounds[0].append(pages.values.take(pa.array(starts)))
            bounds[1].append(pages.values.take(pa.array(stops - 1)))
            bounds[2].append(pa.array(nulls))
            bounds[3].append(pa.array(numbers))
            num_pages += len(starts)
    with index.create(_LOOKUP_FILE, lookup_schema) as file:
        file.metadata = {"batch_size": str(page_rows).encode(), "range_partitioned": b"false"}
        if num_pages:
            file.write([pa.concat_arrays(parts) for parts in bounds])


def read_btree(folder: IndexFolder) -> Iterator[Entries]:
    """Yield the entries of a B-tree in order.

    Raises
    ------
    CorruptDataError
        A file is missing or damaged.
    UnsupportedFeatureError
        The tree does not have the files that pylance 14 writes.
    """
    file = _data_file(folder)
    for start in range(0, file.num_rows, _ROWS_AT_ONCE):
        rows = RowRange(start, min(start + _ROWS_AT_ONCE, file.num_rows))
        values, ids = file.read(["values", "ids"], rows, [None, pa.uint64()])
        yield Entries(values, np.asarray(ids))


def read_btree_ids(folder: IndexFolder) -> Iterator[npt.NDArray[np.uint64]]:
    """Yield the row addresses or ids of the entries. Raises as :func:`read_btree`."""
    file = _data_file(folder)
    for start in range(0, file.num_rows, _ROWS_AT_ONCE):
        rows = RowRange(start, min(start + _ROWS_AT_ONCE, file.num_rows))
        (ids,) = file.read(["ids"], rows, [pa.uint64()])
        yield np.asarray(ids)


def btree_key_type(folder: IndexFolder) -> pa.DataType:
    """Return the type of the values. Raises as :func:`read_btree`."""
    return _data_file(folder).type_of("values")


def btree_bounds(folder: IndexFolder) -> tuple[pa.Scalar | None, pa.Scalar | None, int]:
    """Return the first and the last value, None if there is none, and the number of pages.

    Raises CorruptDataError if the file is damaged.
    """
    file = folder.open(_LOOKUP_FILE)
    minimum, maximum = file.read(["min", "max"])
    num_pages = len(minimum)
    return (minimum[0], maximum[num_pages - 1], num_pages) if num_pages else (None, None, 0)


def _data_file(folder: IndexFolder) -> IndexFile:
    metadata = folder.open(_LOOKUP_FILE).metadata
    if "batch_size" not in metadata or metadata.get("range_partitioned", b"false") != b"false":
        raise UnsupportedFeatureError(
            f"{folder.location.uri}: this B-tree index was built by an old release or has several data "
            "files, which is not supported"
        )
    return folder.open(_DATA_FILE)


def _whole_pages(entries: Iterable[Entries], page_rows: int) -> Iterator[Entries]:
    """Split entries into whole pages; only the last page may have fewer rows."""
    pending: list[Entries] = []
    num_rows = num_bytes = 0
    for each in entries:
        pending.append(each)
        num_rows += len(each)
        num_bytes += each.values.nbytes
        if num_rows >= (page_rows if num_bytes >= _BYTES_AT_ONCE else _PAGES_AT_ONCE * page_rows):
            joined = joined_entries(pending)
            stop = num_rows - num_rows % page_rows
            yield joined.slice(0, stop)
            pending, num_rows, num_bytes = [joined.slice(stop, num_rows)], num_rows - stop, 0
    if num_rows:
        yield joined_entries(pending)


def _data_schema(data_type: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field("values", data_type), pa.field("ids", pa.uint64(), nullable=False)])


def _lookup_schema(data_type: pa.DataType) -> pa.Schema:
    counts = [pa.field(name, pa.uint32(), nullable=False) for name in ("null_count", "page_idx")]
    return pa.schema([pa.field("min", data_type), pa.field("max", data_type), *counts])
