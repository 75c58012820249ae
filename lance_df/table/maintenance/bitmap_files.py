"""Write and read the files of bitmap indices; entries are in order. Spec: table format, 14.3."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lance_df.encodings.plan import RowRange
from lance_df.errors import CorruptDataError
from lance_df.table.indices.row_address_map import read_row_sets, serialize_row_addresses
from lance_df.table.maintenance.sorted_entries import Entries, order_keys

if TYPE_CHECKING:
    import numpy.typing as npt

    from lance_df.table.indices.index_file import IndexFile, IndexFolder
    from lance_df.table.maintenance.new_index import NewIndex, NewIndexFile

_FILE = "bitmap_page_lookup.lance"
_STATISTICS = "lance:index_stats"
_BYTES_AT_ONCE = 8 * 1024 * 1024
_KEYS_AT_ONCE = 1 << 10
_ROWS_AT_ONCE = 1 << 16


def write_bitmap(index: NewIndex, data_type: pa.DataType, entries: Iterable[Entries]) -> None:
    """Write the file of a bitmap index.

    Parameters
    ----------
    entries
        In the order of `lance_df.table.maintenance.sorted_entries`.
    """
    schema = pa.schema([pa.field("keys", data_type), pa.field("bitmaps", pa.binary())])
    with index.create(_FILE, schema) as file:
        bitmaps = _BitmapWriter(file)
        for each in entries:
            bitmaps.add(each)
        bitmaps.finish()
        file.metadata = {
            _STATISTICS: json.dumps({"num_bitmaps": bitmaps.num_keys}, separators=(",", ":")).encode()
        }


class _BitmapWriter:
    """Collects the rows of each key, which may be spread over several blocks of entries."""

    def __init__(self, file: NewIndexFile) -> None:
        self.num_keys = 0
        self._file = file
        self._key: pa.Array | None = None
        self._ids: list[npt.NDArray[np.uint64]] = []
        self._keys: list[pa.Array] = []
        self._bitmaps: list[bytes] = []
        self._num_bytes = 0

    def add(self, entries: Entries) -> None:
        starts = _starts_of_keys(entries.values)
        stops = np.append(starts[1:], len(entries))
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            key, ids = entries.values.slice(start, 1), entries.ids[start:stop]
            if self._key is None or start or not _is_same(self._key, key):
                self._end_key()
                self._key = key
            self._ids.append(ids)

    def finish(self) -> None:
        self._end_key()
        self._write()

    def _end_key(self) -> None:
        if self._key is None:
            return
        self._keys.append(self._key)
        self._bitmaps.append(serialize_row_addresses(np.concatenate(self._ids)))
        self._num_bytes += len(self._bitmaps[-1])
        self._key, self._ids = None, []
        self.num_keys += 1
        if self._num_bytes >= _BYTES_AT_ONCE:
            self._write()

    def _write(self) -> None:
        if self._keys:
            self._file.write([pa.concat_arrays(self._keys), pa.array(self._bitmaps, pa.binary())])
        self._keys, self._bitmaps, self._num_bytes = [], [], 0


def read_bitmap(folder: IndexFolder) -> Iterator[Entries]:
    """Yield the entries of a bitmap index in order.

    Raises
    ------
    CorruptDataError
        The file is missing or damaged.
    UnsupportedFeatureError
        A bitmap has more rows than can be listed.
    """
    file = folder.open(_FILE)
    for rows in _row_ranges(file):
        keys, bitmaps = file.read(["keys", "bitmaps"], rows)
        positions: list[int] = []
        ids: list[npt.NDArray[np.uint64]] = []
        num_rows = 0
        for position, part in _listed(file, bitmaps):
            positions.append(position)
            ids.append(part)
            num_rows += len(part)
            if num_rows >= _ROWS_AT_ONCE:
                yield _repeated(keys, positions, ids)
                positions, ids, num_rows = [], [], 0
        if ids:
            yield _repeated(keys, positions, ids)


def read_bitmap_ids(folder: IndexFolder) -> Iterator[npt.NDArray[np.uint64]]:
    """Yield the row addresses or ids of the entries. Raises as :func:`read_bitmap`."""
    file = folder.open(_FILE)
    for rows in _row_ranges(file):
        (bitmaps,) = file.read(["bitmaps"], rows)
        yield from (ids for _, ids in _listed(file, bitmaps))


def bitmap_key_type(folder: IndexFolder) -> pa.DataType:
    """Return the type of the keys. Raises as :func:`read_bitmap`."""
    return folder.open(_FILE).type_of("keys")


def num_bitmaps(folder: IndexFolder) -> int:
    """Return the number of distinct keys, NULL included. Raises as :func:`read_bitmap`."""
    return folder.open(_FILE).num_rows


def _row_ranges(file: IndexFile) -> Iterator[RowRange]:
    for start in range(0, file.num_rows, _KEYS_AT_ONCE):
        yield RowRange(start, min(start + _KEYS_AT_ONCE, file.num_rows))


def _listed(file: IndexFile, bitmaps: pa.Array) -> Iterator[tuple[int, npt.NDArray[np.uint64]]]:
    """Yield the position of the bitmap and the rows, for each part of each bitmap."""
    if not pa.types.is_binary(bitmaps.type) or bitmaps.null_count:
        raise CorruptDataError(
            f"{file.name}: bitmaps must be non-null binary, got type {bitmaps.type} with "
            f"{bitmaps.null_count} nulls"
        )
    for position, bitmap in enumerate(bitmaps):
        for high, low in read_row_sets(bitmap.as_buffer(), source=file.name):
            yield position, np.asarray(low.to_array(), np.uint64) | np.uint64(high << 32)


def _repeated(keys: pa.Array, positions: list[int], ids: list[npt.NDArray[np.uint64]]) -> Entries:
    """Return an entry for each row of some keys."""
    repeated = np.repeat(np.array(positions), [len(each) for each in ids])
    return Entries(keys.take(pa.array(repeated)), np.concatenate(ids))


def _starts_of_keys(values: pa.Array) -> npt.NDArray[np.int64]:
    """Return where the runs of equal values begin; NULLs count as equal."""
    keys = order_keys(values)
    before, after = keys.slice(0, max(0, len(keys) - 1)), keys.slice(1)
    changes = np.asarray(pc.not_equal(before, after).fill_null(False))
    validity = np.asarray(keys.is_valid())
    changes = changes | (validity[1:] != validity[:-1])
    return np.concatenate([np.zeros(min(1, len(keys)), np.int64), np.flatnonzero(changes) + 1])


def _is_same(left: pa.Array, right: pa.Array) -> bool:
    return bool(order_keys(left).equals(order_keys(right)))
