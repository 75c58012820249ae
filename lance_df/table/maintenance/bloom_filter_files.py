"""Write the files of Bloom filter indices: a filter for each zone, a run of live rows of one fragment.

Spec: table format, 14.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from lance_df.encodings.plan import RowRange
from lance_df.errors import UnsupportedFeatureError
from lance_df.records import dataclass
from lance_df.table.indices.row_address_map import serialize_row_sets
from lance_df.table.indices.split_block_filter import (
    both_zeros,
    filter_bytes,
    hash_values,
    split_block_filter,
)
from lance_df.table.indices.zone_map import Zones
from lance_df.table.reading.row_ids import split_addresses

if TYPE_CHECKING:
    from lance_df.table.indices.index_file import IndexFolder
    from lance_df.table.maintenance.new_index import NewIndex
    from lance_df.table.maintenance.sorted_entries import Entries

_FILE = "bloomfilter.lance"
_ITEMS, _PROBABILITY, _NULLS = "bloomfilter_item", "bloomfilter_probability", "null_bitmap"
_ZONES_AT_ONCE = 64
_MAX_FILTER_BYTES = 1024 * 1024
_SCHEMA = pa.schema(
    [
        pa.field("fragment_id", pa.uint64(), nullable=False),
        pa.field("zone_start", pa.uint64(), nullable=False),
        pa.field("zone_length", pa.uint64(), nullable=False),
        pa.field("has_null", pa.bool_(), nullable=False),
        pa.field("bloom_filter_data", pa.binary(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class FilterSize:
    """The live rows of a zone, and the false positive rate of its filter; the defaults are pylance's."""

    num_rows: int = 8192
    probability: str = "0.00057"

    @classmethod
    def read(cls, folder: IndexFolder) -> FilterSize:
        """Read the size from an index.

        Raises
        ------
        CorruptDataError
            Its file is damaged.
        UnsupportedFeatureError
            Its filters are too large to be built.
        """
        file = folder.open(_FILE)
        size = cls(file.number(_ITEMS), file.metadata.get(_PROBABILITY, b"").decode("ascii", "replace"))
        try:
            is_valid = size.num_rows > 0 and size.num_bytes <= _MAX_FILTER_BYTES
        except (ValueError, ArithmeticError):
            is_valid = False
        if not is_valid:
            raise UnsupportedFeatureError(
                f"{file.name}: cannot build bloom filters for {size.num_rows} values with a false positive "
                f"probability of {size.probability!r}; the maximum size of a filter is {_MAX_FILTER_BYTES} "
                "bytes"
            )
        return size

    @property
    def num_bytes(self) -> int:
        """Size of each filter in bytes."""
        return filter_bytes(self.num_rows, float(self.probability))


class _Zone(NamedTuple):
    """A zone; its fields are in the order of the columns of the file."""

    fragment: int
    start: int
    length: int
    has_null: bool
    filter: bytes


class BloomFilterWriter:
    """Writes zones of existing indices and of new rows, and NULL rows if all of these indices have them."""

    def __init__(self, size: FilterSize) -> None:
        self._size = size
        self._null_rows: dict[int, BitMap] | None = {}

    def write(
        self, index: NewIndex, reused: Iterable[tuple[IndexFolder, BitMap]], rows: Iterable[Entries]
    ) -> None:
        """Write the file.

        Parameters
        ----------
        reused
            Indices, and the fragments whose zones are copied from them.
        rows
            Values by address, ascending within each fragment.
        """
        with index.create(_FILE, _SCHEMA) as file:
            for folder, fragment_ids in reused:
                for zones in self._zones_of(folder, fragment_ids):
                    file.write(zones)
            pending: list[_Zone] = []
            for zone in self._zones_in(rows):
                pending.append(zone)
                if len(pending) == _ZONES_AT_ONCE:
                    file.write(_columns(pending))
                    pending = []
            if pending:
                file.write(_columns(pending))
            file.metadata = {
                _ITEMS: str(self._size.num_rows).encode(),
                _PROBABILITY: self._size.probability.encode(),
            }
            if self._null_rows is not None:
                file.metadata[_NULLS] = str(file.add_buffer(serialize_row_sets(self._null_rows))).encode()

    def _zones_of(self, folder: IndexFolder, fragment_ids: BitMap) -> Iterator[list[pa.Array]]:
        file = folder.open(_FILE)
        wanted = np.asarray(fragment_ids.to_array(), np.uint64)
        for start in range(0, file.num_rows, _ZONES_AT_ONCE):
            rows = RowRange(start, min(start + _ZONES_AT_ONCE, file.num_rows))
            zones = file.read(_SCHEMA.names, rows, _SCHEMA.types)
            mask = pa.array(np.isin(np.asarray(zones[0]), wanted))
            yield [column.filter(mask) for column in zones]
        nulls = file.null_row_sets()
        if nulls is None:
            self._null_rows = None
        elif self._null_rows is not None:
            self._null_rows.update({each: rows for each, rows in nulls.items() if each in fragment_ids})

    def _zones_in(self, rows: Iterable[Entries]) -> Iterator[_Zone]:
        """Split rows into zones, which end with their fragments."""
        pending: list[Entries] = []
        num_rows = 0
        for part in _by_fragment(rows):
            is_other = pending and (pending[0].ids[0] ^ part.ids[0]) >> np.uint64(32)
            if is_other and num_rows:
                yield self._zone(pending)
                pending, num_rows = [], 0
            start = 0
            while start < len(part):
                stop = min(len(part), start + self._size.num_rows - num_rows)
                pending.append(part.slice(start, stop))
                num_rows += stop - start
                start = stop
                if num_rows == self._size.num_rows:
                    yield self._zone(pending)
                    pending, num_rows = [], 0
        if pending:
            yield self._zone(pending)

    def _zone(self, parts: list[Entries]) -> _Zone:
        (fragment, *_), (start, *_) = (each.tolist() for each in split_addresses(parts[0].ids[:1]))
        length = int(parts[-1].ids[-1] - parts[0].ids[0]) + 1
        hashes = [hash_values(each) for part in parts for each in both_zeros(part.values)]
        has_null = False
        for part in parts:
            if part.values.null_count:
                has_null = True
                self._add_nulls(fragment, part)
        content = split_block_filter(np.concatenate(hashes), self._size.num_bytes)
        return _Zone(fragment, start, length, has_null, content)

    def _add_nulls(self, fragment: int, rows: Entries) -> None:
        if self._null_rows is not None:
            _, offsets = split_addresses(rows.ids[np.asarray(rows.values.is_null())])
            self._null_rows.setdefault(fragment, BitMap()).update(BitMap(offsets.astype(np.uint32)))


def read_zones(folder: IndexFolder) -> Zones:
    """Return the zones. Raises CorruptDataError if the file is damaged."""
    return Zones.read(folder.open(_FILE))


def num_zones(folder: IndexFolder) -> int:
    """Return the number of zones. Raises CorruptDataError if the file is damaged."""
    return folder.open(_FILE).num_rows


def _by_fragment(rows: Iterable[Entries]) -> Iterator[Entries]:
    for part in rows:
        fragment_ids, _ = split_addresses(part.ids)
        cuts = [0, *(np.flatnonzero(np.diff(fragment_ids)) + 1).tolist(), len(part)]
        yield from (part.slice(start, stop) for start, stop in pairwise(cuts) if stop > start)


def _columns(zones: list[_Zone]) -> list[pa.Array]:
    columns = zip(*zones, strict=True)
    return [pa.array(column, kind) for column, kind in zip(columns, _SCHEMA.types, strict=True)]
